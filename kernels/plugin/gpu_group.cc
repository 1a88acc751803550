#include "kernels/plugin/gpu_group.h"

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <thread>
#include <utility>

#include "common/check.h"
#include "common/status.h"
#include "kernels/plugin/gpu_backend.h"

namespace skerry {
namespace {

using Clock = std::chrono::steady_clock;

// NCCL looks for cards, loads its kernels and measures ways: seconds, the first time more.
constexpr Duration kToMeet = Duration::Seconds(60);

class GpuGroupEnd final : public Group {
 public:
  GpuGroupEnd(const GpuGroupTable& table, GpuGroup* group, int32_t rank, int32_t size,
              Duration patience)
      : table_(table), group_(group), rank_(rank), size_(size), patience_(patience) {}
  ~GpuGroupEnd() override {
    if (group_ != nullptr) table_.end(group_);
  }

  std::string name() const override {
    GpuText why = {};
    const int version = table_.library(&why);
    return absl::StrFormat("NCCL %d.%d.%d of %d", version / 10000, version / 100 % 100,
                           version % 100, size_);
  }
  int32_t rank() const override { return rank_; }
  int32_t size() const override { return size_; }

  // Waits for the others. Not ok: the member is of no more use.
  absl::Status Meet(Duration patience) {
    absl::Status met = Settled(patience);
    if (!met.ok()) Abort(met);
    return met;
  }

  absl::Status AllReduce(float* values, int64_t n) override {
    return Run([&](GpuText* why) { return table_.all_reduce(group_, values, n, why); });
  }
  absl::Status ReduceScatterOf(float* values, int64_t n, const GroupPart& range) override {
    return Run([&](GpuText* why) {
      return table_.reduce_scatter(group_, values, n, range.first, range.size, why);
    });
  }
  absl::Status AllGather(float* values, int64_t n) override {
    return Run([&](GpuText* why) { return table_.all_gather(group_, values, n, why); });
  }
  absl::Status Broadcast(float* values, int64_t n, int32_t root) override {
    SKERRY_CHECK(root >= 0 && root < size_);
    return Run([&](GpuText* why) { return table_.broadcast(group_, values, n, root, why); });
  }
  absl::Status Send(const float* values, int64_t n, int32_t to) override {
    SKERRY_CHECK(to >= 0 && to < size_ && to != rank_);
    return Run([&](GpuText* why) { return table_.send(group_, values, n, to, why); });
  }
  absl::Status Receive(float* values, int64_t n, int32_t from) override {
    SKERRY_CHECK(from >= 0 && from < size_ && from != rank_);
    return Run([&](GpuText* why) { return table_.receive(group_, values, n, from, why); });
  }

  void Abort(const absl::Status& why) override {
    SKERRY_CHECK(!why.ok());
    const std::lock_guard lock(mutex_);
    if (told_.ok()) told_ = Annotate(why, absl::StrFormat("member %d of %d", rank_, size_));
  }

 private:
  absl::Status Told() const {
    const std::lock_guard lock(mutex_);
    return told_;
  }

  // Only where nothing of it runs any more may the next begin: NCCL wants each call's answer first.
  template <typename Operation>
  absl::Status Run(const Operation& operation) {
    absl::Status status = Settled(patience_);
    GpuText why = {};
    if (status.ok() && size_ > 1) {
      status = operation(&why) ? Settled(patience_) : Aborted("NCCL: %s", why.text);
    }
    if (status.ok()) return status;
    Abort(status);
    // What still runs of it on the device is stopped, and the others told.
    if (group_ != nullptr) table_.end(std::exchange(group_, nullptr));
    return status;
  }

  absl::Status Settled(Duration patience) {
    const auto ends = Clock::now() + std::chrono::nanoseconds(patience.nanos());
    for (int64_t polls = 0;; ++polls) {
      SKERRY_RETURN_IF_ERROR(Told());
      SKERRY_CHECK(group_ != nullptr, "a group that ended was told why");
      GpuText why = {};
      const GpuGroupState state = table_.poll(group_, &why);
      if (state == GpuGroupState::kDone) return absl::OkStatus();
      if (state == GpuGroupState::kFailed) return Aborted("NCCL: %s", why.text);
      if (Clock::now() > ends) {
        return absl::DeadlineExceededError(
            absl::StrFormat("NCCL: nothing was done for %.3g s", patience.seconds()));
      }
      // A sum of gradients takes longer than a few polls; then the processor is left to others.
      constexpr int64_t kSpins = 200;
      if (polls < kSpins) {
        std::this_thread::yield();
      } else {
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
    }
  }

  const GpuGroupTable& table_;
  GpuGroup* group_;  // nullptr once it has ended
  const int32_t rank_, size_;
  const Duration patience_;
  mutable std::mutex mutex_;
  absl::Status told_;  // why it is of no more use
};

absl::StatusOr<std::unique_ptr<GpuGroupEnd>> Join(const GpuGroupTable& table, GpuDevice* device,
                                                  const GpuGroupId& id, int32_t rank, int32_t size,
                                                  Duration patience) {
  SKERRY_CHECK(rank >= 0 && rank < size && patience > Duration());
  GpuText why = {};
  GpuGroup* group = table.begin(device, &id, rank, size, &why);
  if (group == nullptr) return Unavailable("NCCL: %s", why.text);
  return std::make_unique<GpuGroupEnd>(table, group, rank, size, patience);
}

}  // namespace

absl::StatusOr<const GpuGroupTable*> GroupTableOf(Backend& backend) {
  const GpuHandle gpu = GpuOf(backend);
  if (gpu.table == nullptr) return Unavailable("no GPU");
  // The library that the table's functions are in.
  Dl_info found = {};
  if (dladdr(reinterpret_cast<const void*>(gpu.table->open), &found) == 0) {
    return Unavailable("the GPU plug-in cannot be found again");
  }
  void* library = dlopen(found.dli_fname, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  const auto table_of =
      library == nullptr
          ? nullptr
          : reinterpret_cast<GpuGroupTableFunction>(dlsym(library, kGpuGroupTableSymbol));
  const GpuGroupTable* table = table_of == nullptr ? nullptr : table_of(kGpuGroupTableVersion);
  if (table == nullptr || table->bytes != sizeof(GpuGroupTable)) {
    return Unavailable("the GPU plug-in was built without NCCL, or is of another version");
  }
  GpuText why = {};
  if (table->library(&why) == 0) return Unavailable("%s", why.text);
  return table;
}

absl::StatusOr<GpuGroupId> MakeGroupId(const GpuGroupTable& table) {
  GpuGroupId id = {};
  GpuText why = {};
  if (!table.make_id(&id, &why)) return Unavailable("NCCL: %s", why.text);
  return id;
}

absl::StatusOr<std::unique_ptr<Group>> JoinGpuGroup(const GpuGroupTable& table, GpuDevice* device,
                                                    const GpuGroupId& id, int32_t rank,
                                                    int32_t size, Duration patience) {
  return Join(table, device, id, rank, size, patience);
}

absl::StatusOr<std::vector<std::unique_ptr<Group>>> MakeGpuGroup(std::span<Backend* const> backends,
                                                                 Duration patience) {
  SKERRY_ASSIGN_OR_RETURN(const GpuGroupTable* table, GroupTableOf(*backends.front()));
  for (Backend* backend : backends) {
    if (GpuOf(*backend).table != GpuOf(*backends.front()).table) {
      return Unavailable("not all devices are GPUs");
    }
  }
  SKERRY_ASSIGN_OR_RETURN(const GpuGroupId id, MakeGroupId(*table));
  std::vector<std::unique_ptr<GpuGroupEnd>> ends;
  const auto size = static_cast<int32_t>(backends.size());
  for (int32_t rank = 0; rank < size; ++rank) {
    GpuDevice* device = GpuOf(*backends[static_cast<size_t>(rank)]).device;
    SKERRY_ASSIGN_OR_RETURN(ends.emplace_back(), Join(*table, device, id, rank, size, patience));
  }
  // What NCCL does not find (shared memory of a container, a network) it says only here.
  std::vector<std::unique_ptr<Group>> groups;
  for (auto& end : ends) {
    const absl::Status met = end->Meet(std::max(patience, kToMeet));
    if (!met.ok()) return Unavailable("%s", ErrorText(met));
    groups.push_back(std::move(end));
  }
  return groups;
}

}  // namespace skerry
