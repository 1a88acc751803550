// A member's end of a group that passes every operation on to another: for ends that do something
// besides in benchmarks and tests.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "kernels/group/group.h"

namespace skerry {

class ForwardingGroup : public Group {
 public:
  explicit ForwardingGroup(std::unique_ptr<Group> inner) : inner_(std::move(inner)) {}
  std::string name() const override { return inner_->name(); }
  int32_t rank() const override { return inner_->rank(); }
  int32_t size() const override { return inner_->size(); }
  absl::Status AllReduce(float* values, int64_t n) override { return inner_->AllReduce(values, n); }
  absl::Status ReduceScatterOf(float* values, int64_t n, const GroupPart& range) override {
    return inner_->ReduceScatterOf(values, n, range);
  }
  absl::Status AllGather(float* values, int64_t n) override { return inner_->AllGather(values, n); }
  absl::Status Broadcast(float* values, int64_t n, int32_t root) override {
    return inner_->Broadcast(values, n, root);
  }
  absl::Status Send(const float* values, int64_t n, int32_t to) override {
    return inner_->Send(values, n, to);
  }
  absl::Status Receive(float* values, int64_t n, int32_t from) override {
    return inner_->Receive(values, n, from);
  }
  void Abort(const absl::Status& why) override { inner_->Abort(why); }

 private:
  std::unique_ptr<Group> inner_;
};

}  // namespace skerry
