#include "model/host_optimizer.h"

#include <algorithm>

#include "common/status.h"

namespace skerry {

int64_t HostOptimizer::HeldBytes(int64_t values) {
  return 4 * std::min(values, kPiece) * static_cast<int64_t>(sizeof(float));
}

absl::StatusOr<std::unique_ptr<HostOptimizer>> HostOptimizer::Create(int64_t values,
                                                                     Backend* device,
                                                                     Backend* host) {
  const int64_t piece = std::clamp<int64_t>(values, 1, kPiece);
  std::unique_ptr<HostOptimizer> optimizer(new HostOptimizer(piece, host));
  SKERRY_ASSIGN_OR_RETURN(optimizer->lane_, OpenCopyLane(*device, 4 * piece));
  float* memory = optimizer->lane_->memory().data();
  optimizer->slots_[0] = {memory, memory + piece};
  optimizer->slots_[1] = {memory + 2 * piece, memory + 3 * piece};
  return optimizer;
}

std::span<const UpdateRange> HostOptimizer::Inside(std::span<const UpdateRange> ranges,
                                                   int64_t first, int64_t values) {
  inside_.clear();
  for (UpdateRange range : ranges) {
    const int64_t begin = std::max(range.offset, first);
    range.size = std::min(range.offset + range.size, first + values) - begin;
    range.offset = begin - first;
    if (range.size > 0) inside_.push_back(range);
  }
  return inside_;
}

void HostOptimizer::AdamW(const AdamWStep& step, std::span<const UpdateRange> ranges,
                          const UpdateArrays& arrays) {
  if (ranges.empty()) return;
  const int64_t end = ranges.back().offset + ranges.back().size;
  const auto values = [&](int64_t first) {
    return static_cast<size_t>(std::min(piece_, end - first));
  };
  const auto fetch = [&](int64_t first, Slot& slot) {
    lane_->Fetch(arrays.gradient + first, {slot.gradient, values(first)});
    slot.fetched = lane_->Fetch(arrays.parameters + first, {slot.weights, values(first)});
  };
  int64_t sent = 0;
  int slot = 0;
  fetch(ranges.front().offset, slots_[slot]);
  for (int64_t first = ranges.front().offset; first < end; first += piece_, slot ^= 1) {
    Slot& own = slots_[slot];
    // After what was sent from there: the lane keeps the order.
    if (first + piece_ < end) fetch(first + piece_, slots_[slot ^ 1]);
    lane_->Wait(own.fetched);
    host_->AdamW(step, Inside(ranges, first, piece_),
                 {.gradient = own.gradient,
                  .parameters = own.weights,
                  .m = arrays.m + first,
                  .v = arrays.v + first});
    sent = lane_->Send({own.weights, values(first)}, arrays.parameters + first);
  }
  lane_->Wait(sent);
}

}  // namespace skerry
