// Work on the devices of a process at the same time.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "common/check.h"

namespace skerry {

// A thread for each device but the first, whose work the caller's thread does. Each device's work
// is always on the same thread, except that the first's is on whoever calls. One caller at a time.
class DeviceThreads {
 public:
  using Work = std::function<absl::Status(size_t device)>;

  explicit DeviceThreads(size_t devices);  // ≥ 1
  ~DeviceThreads();
  DeviceThreads(const DeviceThreads&) = delete;
  DeviceThreads& operator=(const DeviceThreads&) = delete;

  // work(device) for every device, by reference; when all are done, the first error by device, or
  // ok. Memory that runs out in one is its ResourceExhausted. Takes no memory itself.
  template <typename Function>
  absl::Status RunAll(const Function& work) {
    return Run(std::cref(work));
  }
  // The same for work(device) that has no errors: it takes no memory to speak of.
  template <typename Function>
  void DoAll(const Function& work) {
    const absl::Status done = RunAll([&](size_t device) {
      work(device);
      return absl::OkStatus();
    });
    SKERRY_CHECK(done.ok(), "what cannot fail has run out of memory");
  }

 private:
  absl::Status Run(const Work& work);
  struct Crew;
  std::unique_ptr<Crew> crew_;
};

}  // namespace skerry
