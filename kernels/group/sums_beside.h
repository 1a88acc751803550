// Sums among the devices of a process while they compute: threads of its own call the ends of their
// group. (For one member by itself: sum_thread.h.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"

namespace skerry {

// Used by one thread at a time.
class SumsBeside {
 public:
  static constexpr int64_t kUnderWayMax = 256;
  using Work = std::function<absl::Status(size_t device)>;

  explicit SumsBeside(size_t devices);  // ≥ 1
  ~SumsBeside();                        // waits for what is under way
  SumsBeside(const SumsBeside&) = delete;
  SumsBeside& operator=(const SumsBeside&) = delete;

  // After what was begun before: ready(device) for every device, at the same time, and when all are
  // done sum(device). So a device that still computes is waited for here, and not by the others in
  // the group, whose patience is for its members. Nothing is done after a first error.
  // At most kUnderWayMax are begun and not ended.
  void Begin(Work ready, Work sum);
  // Waits for all that was begun; the first error there ever was.
  absl::Status EndAll();

 private:
  struct Desk;
  std::unique_ptr<Desk> desk_;
};

}  // namespace skerry
