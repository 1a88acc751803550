#include <algorithm>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "common/check.h"
#include "common/status.h"
#include "kernels/copy_lane.h"
#include "kernels/stash_store.h"

namespace skerry {
namespace {

// Moves that are not done are looked at in their order, and none begins at the disk, or takes a
// place on the host, before those in front of it: so a slot's are in order, too, and the first can
// always go on.
class StagedStash final : public StashStore {
 public:
  StagedStash(std::unique_ptr<CopyLane> lane, std::unique_ptr<StashStore> file, int64_t floats)
      : lane_(std::move(lane)), file_(std::move(file)), floats_(static_cast<size_t>(floats)) {
    for (int32_t place = kStagedStashes; place-- > 0;) places_.push_back(place);
  }

  int64_t Write(int32_t slot, const float* from) override {
    // What is written is only read.
    return Begin({true, slot, const_cast<float*>(from)});
  }
  int64_t Read(int32_t slot, float* to) override { return Begin({false, slot, to}); }

  void PassEnded() override {
    copied_ = copies_;
    GoOn(0);
  }

  absl::Status Wait(int64_t move) override {
    GoOn(move);
    const auto failed = failed_.find(move);
    return failed == failed_.end() ? absl::OkStatus() : failed->second;
  }

  bool CanFollow(int64_t move) override {
    GoOn(0);
    return !moves_.contains(move) && !failed_.contains(move);
  }

  int64_t HeldBytes() const override { return static_cast<int64_t>(lane_->memory().size_bytes()); }

 private:
  struct Move {
    bool writes = false;
    int32_t slot = 0;
    float* device = nullptr;
    int32_t place = -1;  // on the host; −1: not begun
    int64_t copy = 0;    // the lane's; 0: not begun
    int64_t on_file = 0;
  };

  int64_t Begin(const Move& move) {
    moves_.emplace(++last_, move);
    GoOn(0);
    return last_;
  }

  std::span<float> At(int32_t place) const {
    return lane_->memory().subspan(static_cast<size_t>(place) * floats_, floats_);
  }

  // All that can, and those up to `until` to their end.
  void GoOn(int64_t until) {
    bool may_begin = true;
    for (auto it = moves_.begin(); it != moves_.end();) {
      const bool must = it->first <= until;
      Move& move = it->second;
      if (move.place < 0) {
        if (!may_begin || places_.empty()) return;
        move.place = places_.back();
        places_.pop_back();
      }
      absl::Status status;
      const bool is_done = move.writes ? GoOnWriting(move, must) : GoOnReading(move, must, &status);
      may_begin = may_begin && move.on_file > 0;
      if (!is_done) {
        ++it;
        continue;
      }
      if (move.writes) status = file_->Wait(move.on_file);
      if (!status.ok()) failed_.emplace(it->first, status);
      places_.push_back(move.place);
      it = moves_.erase(it);
    }
  }

  // True: it is done, or has failed.
  bool GoOnWriting(Move& move, bool must) {
    if (move.copy == 0) move.copy = copies_ = lane_->Fetch(move.device, At(move.place));
    if (move.on_file == 0) {
      if (!must && move.copy > copied_) return false;
      lane_->Wait(move.copy);
      move.on_file = file_->Write(move.slot, At(move.place).data());
    }
    return must || file_->CanFollow(move.on_file);
  }

  bool GoOnReading(Move& move, bool must, absl::Status* status) {
    if (move.on_file == 0) move.on_file = file_->Read(move.slot, At(move.place).data());
    if (move.copy == 0) {
      if (!must && !file_->CanFollow(move.on_file)) return false;
      *status = file_->Wait(move.on_file);
      if (!status->ok()) return true;
      move.copy = copies_ = lane_->Send(At(move.place), move.device);
    }
    if (!must && move.copy > copied_) return false;
    lane_->Wait(move.copy);
    return true;
  }

  std::unique_ptr<CopyLane> lane_;
  std::unique_ptr<StashStore> file_;  // ends first: its thread uses the lane's memory
  const size_t floats_;
  std::map<int64_t, Move> moves_;  // not done
  std::map<int64_t, absl::Status> failed_;
  std::vector<int32_t> places_;      // free ones
  int64_t last_ = 0;                 // move
  int64_t copies_ = 0, copied_ = 0;  // begun; begun before the last pass
};

}  // namespace

absl::StatusOr<std::unique_ptr<StashStore>> OpenStagedStashFile(Backend& backend,
                                                                const std::string& directory,
                                                                int32_t slots, int64_t floats) {
  SKERRY_ASSIGN_OR_RETURN(auto file, OpenStashFile(directory, slots, floats));
  SKERRY_ASSIGN_OR_RETURN(auto lane, OpenCopyLane(backend, kStagedStashes * floats));
  return std::make_unique<StagedStash>(std::move(lane), std::move(file), floats);
}

}  // namespace skerry
