#include "kernels/group/sums_beside.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "common/check.h"
#include "common/status.h"
#include "kernels/group/device_threads.h"

namespace skerry {

struct SumsBeside::Desk {
  struct Sum {
    Work ready, sum;
  };

  explicit Desk(size_t devices) : crew(devices), thread([this] { Serve(); }) {}
  ~Desk() {
    {
      const std::lock_guard lock(mutex);
      leaves = true;
    }
    changed.notify_all();
    thread.join();
  }

  void Serve() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] { return leaves || !sums.empty(); });
      if (sums.empty()) return;
      Sum& next = sums.front();  // stays where it is while others are added
      absl::Status done = status;
      lock.unlock();
      if (done.ok()) done = Sums(next);
      lock.lock();
      status = std::move(done);
      sums.pop_front();
      changed.notify_all();
    }
  }
  absl::Status Sums(const Sum& sum) {
    SKERRY_RETURN_IF_ERROR(crew.RunAll(sum.ready));
    return crew.RunAll(sum.sum);
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Sum> sums;
  absl::Status status;
  bool leaves = false;
  DeviceThreads crew;
  std::thread thread;  // begins when all else is there
};

SumsBeside::SumsBeside(size_t devices) : desk_(std::make_unique<Desk>(devices)) {}

SumsBeside::~SumsBeside() = default;

void SumsBeside::Begin(Work ready, Work sum) {
  const std::lock_guard lock(desk_->mutex);
  SKERRY_CHECK(std::ssize(desk_->sums) < kUnderWayMax);
  desk_->sums.push_back({std::move(ready), std::move(sum)});
  desk_->changed.notify_all();
}

absl::Status SumsBeside::EndAll() {
  std::unique_lock lock(desk_->mutex);
  desk_->changed.wait(lock, [&] { return desk_->sums.empty(); });
  return desk_->status;
}

}  // namespace skerry
