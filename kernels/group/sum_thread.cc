#include "kernels/group/sum_thread.h"

#include <array>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "common/check.h"

namespace skerry {

struct SumThread::Desk {
  struct Sum {
    float* values = nullptr;
    int64_t n = 0;
    absl::Status status;
  };

  explicit Desk(Group* of) : group(of), thread([this] { Serve(); }) {}
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
      changed.wait(lock, [&] { return leaves || done < begun; });
      if (done == begun) return;
      Sum& sum = At(done);
      lock.unlock();
      sum.status = group->AllReduce(sum.values, sum.n);
      lock.lock();
      ++done;
      changed.notify_all();
    }
  }
  Sum& At(int64_t i) { return sums[static_cast<size_t>(i % kUnderWayMax)]; }

  Group* const group;
  std::mutex mutex;
  std::condition_variable changed;
  std::array<Sum, kUnderWayMax> sums;
  int64_t begun = 0, done = 0, ended = 0;
  bool leaves = false;
  std::thread thread;  // begins when all else is there
};

SumThread::SumThread(Group* group) : desk_(std::make_unique<Desk>(group)) {}

SumThread::~SumThread() = default;

void SumThread::Begin(float* values, int64_t n) {
  const std::lock_guard lock(desk_->mutex);
  SKERRY_CHECK(desk_->begun - desk_->ended < kUnderWayMax);
  desk_->At(desk_->begun) = {values, n, absl::OkStatus()};
  ++desk_->begun;
  desk_->changed.notify_all();
}

absl::Status SumThread::End() {
  std::unique_lock lock(desk_->mutex);
  SKERRY_CHECK(desk_->ended < desk_->begun);
  desk_->changed.wait(lock, [&] { return desk_->done > desk_->ended; });
  return desk_->At(desk_->ended++).status;
}

}  // namespace skerry
