#include <span>

#include "common/status.h"
#include "kernels/copy_lane.h"
#include "kernels/stash_store.h"

namespace skerry {
namespace {

// A lane keeps the order of its copies and cannot fail.
class StashMemory final : public StashStore {
 public:
  StashMemory(std::unique_ptr<CopyLane> lane, int64_t floats)
      : lane_(std::move(lane)), floats_(static_cast<size_t>(floats)) {}

  int64_t Write(int32_t slot, const float* from) override { return lane_->Fetch(from, At(slot)); }
  int64_t Read(int32_t slot, float* to) override { return lane_->Send(At(slot), to); }
  absl::Status Wait(int64_t move) override {
    if (move > 0) lane_->Wait(move);
    return absl::OkStatus();
  }
  bool CanFollow(int64_t) override { return true; }
  int64_t HeldBytes() const override { return static_cast<int64_t>(lane_->memory().size_bytes()); }

 private:
  std::span<float> At(int32_t slot) const {
    return lane_->memory().subspan(static_cast<size_t>(slot) * floats_, floats_);
  }

  std::unique_ptr<CopyLane> lane_;
  size_t floats_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<StashStore>> OpenStashMemory(Backend& backend, int32_t slots,
                                                            int64_t floats) {
  SKERRY_ASSIGN_OR_RETURN(auto lane, OpenCopyLane(backend, slots * floats));
  return std::make_unique<StashMemory>(std::move(lane), floats);
}

}  // namespace skerry
