#include "kernels/group/device_threads.h"

#include <condition_variable>
#include <mutex>
#include <new>
#include <thread>

#include "common/check.h"
#include "common/status.h"

namespace skerry {
namespace {

absl::Status Done(const DeviceThreads::Work& work, size_t device) {
  try {
    return work(device);
  } catch (const std::bad_alloc&) {
    return ResourceExhausted("device %d: no memory for what its work takes", device);
  }
}

}  // namespace

struct DeviceThreads::Crew {
  std::mutex mutex;
  std::condition_variable changed;
  const Work* work = nullptr;  // of the round
  int64_t round = 0;
  size_t busy = 0;
  bool ends = false;
  std::vector<absl::Status> results;
  std::vector<std::thread> threads;

  void Serve(size_t device) {
    std::unique_lock lock(mutex);
    for (int64_t served = 0;; ++served) {
      changed.wait(lock, [&] { return ends || round > served; });
      if (ends) return;
      const Work* mine = work;
      lock.unlock();
      absl::Status result = Done(*mine, device);
      lock.lock();
      results[device] = std::move(result);
      if (--busy == 0) changed.notify_all();
    }
  }
};

DeviceThreads::DeviceThreads(size_t devices) : crew_(std::make_unique<Crew>()) {
  SKERRY_CHECK(devices >= 1);
  crew_->results.resize(devices);
  for (size_t device = 1; device < devices; ++device) {
    crew_->threads.emplace_back([crew = crew_.get(), device] { crew->Serve(device); });
  }
}

DeviceThreads::~DeviceThreads() {
  {
    const std::lock_guard lock(crew_->mutex);
    crew_->ends = true;
  }
  crew_->changed.notify_all();
  for (std::thread& thread : crew_->threads) thread.join();
}

absl::Status DeviceThreads::Run(const Work& work) {
  Crew& crew = *crew_;
  if (!crew.threads.empty()) {
    const std::lock_guard lock(crew.mutex);
    SKERRY_CHECK(crew.busy == 0, "one caller at a time");
    crew.work = &work;
    crew.busy = crew.threads.size();
    ++crew.round;
    crew.changed.notify_all();
  }
  absl::Status own = Done(work, 0);
  std::unique_lock lock(crew.mutex);
  crew.changed.wait(lock, [&] { return crew.busy == 0; });
  crew.results[0] = std::move(own);
  for (const absl::Status& result : crew.results) {
    if (!result.ok()) return result;
  }
  return absl::OkStatus();
}

}  // namespace skerry
