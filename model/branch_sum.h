// What devices that share a stage's tensors add to each other's work on the residual stream
// (Shoeybi et al., "Megatron-LM", 2019, section 3: the operators f and g), at once or, where the
// wiring of layers leaves time (model/ladder_block.h), while the device computes; and what the
// parts of the vocabulary tell each other of their logits.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/backend.h"
#include "kernels/group/group.h"
#include "kernels/group/sum_thread.h"

namespace skerry {

// One device's end. A pass through the layers has no errors of its own, so the first error stays
// here, later calls do nothing, and who began the pass asks when it is through.
//
// Owned by the thread that owns the device; what it is made of outlives it.
class BranchSum {
 public:
  explicit BranchSum(Group* group) : group_(group) {}
  // What is begun is summed by `thread`, which calls the same group. The group works beside the
  // device: it does not wait for what the device was given, so this does.
  BranchSum(Group* group, SumThread* thread, Backend* device)
      : group_(group), thread_(thread), device_(device) {}

  // values [n] ← their sum over all devices: the same bits on each.
  void Add(float* values, int64_t n) {
    if (!status_.ok()) return;
    Wait();
    status_ = group_->AllReduce(values, n);
  }
  // Of values [devices, n] each device brings its own n, and gets the others'.
  void Gather(float* values, int64_t n) {
    if (!status_.ok()) return;
    Wait();
    status_ = group_->AllGather(values, group_->size() * n);
  }

  // As Add, but without a thread at once, else until End. Ends come in the order of Begins; nothing
  // else is called between a Begin and its End.
  void Begin(float* values, int64_t n) {
    if (thread_ == nullptr) return Add(values, n);
    if (!status_.ok()) return;
    Wait();
    thread_->Begin(values, n);
    ++begun_;
  }
  void End() {
    if (begun_ == 0) return;
    --begun_;
    const absl::Status ended = thread_->End();
    if (status_.ok()) status_ = ended;
  }
  // Whatever was begun, after a pass that broke off: then nobody uses the values any more.
  void EndAll() {
    while (begun_ > 0) End();
  }

  // Errors of Group: then what passes made since is arbitrary, and the group is of no more use.
  const absl::Status& status() const { return status_; }

 private:
  void Wait() {
    if (device_ != nullptr) device_->Synchronize();
  }

  Group* group_;
  SumThread* thread_ = nullptr;
  Backend* device_ = nullptr;
  int64_t begun_ = 0;
  absl::Status status_;
};

}  // namespace skerry
