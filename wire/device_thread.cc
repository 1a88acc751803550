#include "wire/device_thread.h"

#include <utility>

namespace skerry {

DeviceThread::DeviceThread(std::function<void()> wake)
    : wake_(std::move(wake)), thread_([this] { Work(); }) {}

DeviceThread::~DeviceThread() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void DeviceThread::Submit(JobId id, Job job) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.emplace_back(id, std::move(job));
  }
  changed_.notify_one();
}

std::vector<JobId> DeviceThread::TakeDone() {
  const std::lock_guard lock(mutex_);
  return std::exchange(done_, {});
}

void DeviceThread::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
    if (stopping_) return;
    auto [id, job] = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    job.run();
    job.run = nullptr;  // what it captured goes before the owner hears of it
    lock.lock();
    done_.push_back(id);
    wake_();
  }
}

}  // namespace skerry
