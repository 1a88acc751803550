// One thread that runs jobs in order of submission: the device is a queue of one server.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "wire/actor.h"

namespace skerry {

// Submit, TakeDone: on the owner's thread. `wake` is called on the device thread after each job.
class DeviceThread {
 public:
  explicit DeviceThread(std::function<void()> wake);
  // Waits for the running job; drops those that wait.
  ~DeviceThread();

  void Submit(JobId id, Job job);
  // The jobs finished since the last call, in order. What they wrote is visible to the caller.
  std::vector<JobId> TakeDone();

 private:
  void Work();

  std::function<void()> wake_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<JobId, Job>> waiting_;
  std::vector<JobId> done_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace skerry
