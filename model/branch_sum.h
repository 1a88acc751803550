// What devices that share a layer's tensors add to each other's work on the residual stream
// (Shoeybi et al., "Megatron-LM", 2019, section 3: the operators f and g).
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/group/group.h"

namespace skerry {

// One device's end. A pass through the layers has no errors of its own, so the first error stays
// here, later calls do nothing, and who began the pass asks when it is through.
//
// Owned by the thread that owns the device; the group outlives it.
class BranchSum {
 public:
  explicit BranchSum(Group* group) : group_(group) {}

  // values [n] ← their sum over all devices: the same bits on each.
  void Add(float* values, int64_t n) {
    if (status_.ok()) status_ = group_->AllReduce(values, n);
  }
  // values [n] ← the first device's.
  void TakeFirst(float* values, int64_t n) {
    if (status_.ok()) status_ = group_->Broadcast(values, n, 0);
  }
  // Errors of Group: then what passes made since is arbitrary, and the group is of no more use.
  const absl::Status& status() const { return status_; }

 private:
  Group* group_;
  absl::Status status_;
};

}  // namespace skerry
