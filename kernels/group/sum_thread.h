// A member's sums while its device computes: a thread of its own calls the group.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "kernels/group/group.h"

namespace skerry {

// Begin and End are called by one thread, in the same order at every member. While a sum is under
// way nobody else calls the group's operations, but Abort, which ends it with an error soon.
class SumThread {
 public:
  static constexpr int64_t kUnderWayMax = 4;

  explicit SumThread(Group* group);  // which outlives it
  ~SumThread();                      // waits for what is under way
  SumThread(const SumThread&) = delete;
  SumThread& operator=(const SumThread&) = delete;

  // values [n] ← Group::AllReduce, after what was begun before. The values are the group's until
  // the sum has ended. At most kUnderWayMax are begun and not ended.
  void Begin(float* values, int64_t n);
  // Waits for the oldest one; its error.
  absl::Status End();

 private:
  struct Desk;
  std::unique_ptr<Desk> desk_;
};

}  // namespace skerry
