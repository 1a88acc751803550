#include "kernels/plugin/gpu_lane.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "common/status.h"
#include "kernels/plugin/gpu_backend.h"
#include "kernels/plugin/gpu_group.h"

namespace skerry {
namespace {

constexpr int64_t kPiece = int64_t{16} << 20;  // values

// What the thread alone uses.
struct Opened {
  std::unique_ptr<Backend> backend;
  const GpuGroupTable* table = nullptr;
  std::unique_ptr<Buffer> piece;  // of as many values as the longest sum has needed
};

absl::StatusOr<Opened> OpenGpu(int gpu) {
  Opened opened;
  SKERRY_ASSIGN_OR_RETURN(opened.backend, CreateCudaBackend(gpu));
  SKERRY_ASSIGN_OR_RETURN(opened.table, GroupTableOf(*opened.backend));
  return opened;
}

}  // namespace

struct GpuLanes::Desk {
  using Task = std::function<absl::Status(Opened&, Desk&)>;

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Task> tasks;
  bool is_left = false;          // by the lane
  bool has_ended = false;        // the thread
  absl::Status status;           // why it has failed
  std::string name = "NCCL";     //
  GroupLane::Id id = {};         //
  std::shared_ptr<Group> group;  // what its operations run on
  std::atomic<int64_t> moved = 0;

  void Put(Task task) {
    const std::lock_guard lock(mutex);
    tasks.push_back(std::move(task));
    changed.notify_all();
  }

  absl::Status Meet(Opened& opened, const GroupLane::Id& shared, int32_t rank, int32_t size) {
    GpuGroupId meeting = {};
    static_assert(sizeof(meeting.bytes) == sizeof(shared));
    std::memcpy(meeting.bytes, shared.data(), shared.size());
    SKERRY_ASSIGN_OR_RETURN(auto joined, JoinGpuGroup(*opened.table, GpuOf(*opened.backend).device,
                                                      meeting, rank, size, kPatience));
    const std::lock_guard lock(mutex);
    name = joined->name();
    group = std::move(joined);
    if (is_left) group->Abort(Aborted("it is not wanted any more"));
    return absl::OkStatus();
  }

  absl::Status Sum(Opened& opened, const std::vector<float>& own, std::vector<float>& sum,
                   int64_t begin, int64_t size) {
    if (group == nullptr) return FailedPrecondition("a sum before the members met");
    sum.resize(own.size());
    const int64_t longest = std::min(kPiece, size);
    if (opened.piece == nullptr || opened.piece->size() < longest) {
      opened.piece.reset();
      SKERRY_ASSIGN_OR_RETURN(opened.piece, opened.backend->Allocate(longest));
    }
    float* const piece = opened.piece->data();
    for (int64_t first = 0; first < size; first += kPiece) {
      const int64_t values = std::min(kPiece, size - first);
      const auto at = static_cast<size_t>(begin + first), n = static_cast<size_t>(values);
      opened.backend->Upload(std::span(own).subspan(at, n), piece);
      SKERRY_RETURN_IF_ERROR(group->AllReduce(piece, values));
      opened.backend->Download(piece, std::span(sum).subspan(at, n));
      opened.backend->Synchronize();
      ++moved;
    }
    return absl::OkStatus();
  }
};

class GpuLanes::Lane final : public GroupLane {
 public:
  explicit Lane(std::shared_ptr<Desk> desk) : desk_(std::move(desk)) {}
  ~Lane() override {
    const std::lock_guard lock(desk_->mutex);
    desk_->is_left = true;
    desk_->changed.notify_all();
    if (desk_->group) desk_->group->Abort(Aborted("it is not wanted any more"));
  }

  void MakeId() override {
    desk_->Put([](Opened& opened, Desk& desk) -> absl::Status {
      SKERRY_ASSIGN_OR_RETURN(const GpuGroupId made, MakeGroupId(*opened.table));
      const std::lock_guard lock(desk.mutex);
      std::copy(std::begin(made.bytes), std::end(made.bytes), desk.id.begin());
      return absl::OkStatus();
    });
  }
  Id id() const override {
    const std::lock_guard lock(desk_->mutex);
    return desk_->id;
  }
  void Meet(const Id& id, int32_t rank, int32_t size) override {
    desk_->Put(
        [id, rank, size](Opened& opened, Desk& desk) { return desk.Meet(opened, id, rank, size); });
  }
  void Sum(std::shared_ptr<const std::vector<float>> own, std::shared_ptr<std::vector<float>> sum,
           int64_t first, int64_t size) override {
    desk_->Put(
        [own = std::move(own), sum = std::move(sum), first, size](Opened& opened, Desk& desk) {
          return desk.Sum(opened, *own, *sum, first, size);
        });
  }
  Progress Look() override {
    const std::lock_guard lock(desk_->mutex);
    const State unless_failed = desk_->tasks.empty() ? State::kDone : State::kUnderWay;
    return {desk_->status.ok() ? unless_failed : State::kFailed, desk_->moved};
  }
  std::string Words() const override {
    const std::lock_guard lock(desk_->mutex);
    return desk_->status.ok() ? desk_->name : ErrorText(desk_->status);
  }

 private:
  std::shared_ptr<Desk> desk_;
};

// A task stays in the queue until it is done.
void GpuLanes::Work(const std::shared_ptr<Desk>& desk, int gpu) {
  {
    auto opened = OpenGpu(gpu);
    std::unique_lock lock(desk->mutex);
    if (!opened.ok()) desk->status = opened.status();
    while (true) {
      desk->changed.wait(lock, [&] { return desk->is_left || !desk->tasks.empty(); });
      if (desk->is_left) break;
      if (desk->status.ok()) {
        const Desk::Task task = desk->tasks.front();
        lock.unlock();
        const absl::Status status = task(*opened, *desk);
        lock.lock();
        desk->status = status;
      }
      desk->tasks.pop_front();
    }
    desk->tasks.clear();
    const std::shared_ptr<Group> group = std::move(desk->group);
    lock.unlock();  // `group` ends here, then the device that it is on
  }
  const std::lock_guard lock(desk->mutex);
  desk->has_ended = true;
  desk->changed.notify_all();
}

absl::StatusOr<std::unique_ptr<GpuLanes>> GpuLanes::Open(int gpu) {
  SKERRY_RETURN_IF_ERROR(OpenGpu(gpu).status());
  return std::unique_ptr<GpuLanes>(new GpuLanes(gpu));
}

std::unique_ptr<GroupLane> GpuLanes::Make() {
  auto desk = std::make_shared<Desk>();
  std::erase_if(desks_, [](const auto& weak) { return weak.expired(); });
  desks_.push_back(desk);
  // Not joined where its driver does not return: whatever it then touches it owns.
  std::thread([desk, gpu = gpu_] { Work(desk, gpu); }).detach();
  return std::make_unique<Lane>(std::move(desk));
}

GpuLanes::~GpuLanes() {
  constexpr auto kToEnd = std::chrono::seconds(5);
  const auto until = std::chrono::steady_clock::now() + kToEnd;
  for (const auto& weak : desks_) {
    const auto desk = weak.lock();
    if (!desk) continue;
    std::unique_lock lock(desk->mutex);
    desk->changed.wait_until(lock, until, [&] { return desk->has_ended; });
  }
}

}  // namespace skerry
