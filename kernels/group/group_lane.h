// A faster way between the members of a group of processes than messages are: NCCL between their
// GPUs (kernels/plugin/gpu_lane.h). Cohort sums over it where all members have one, and goes back
// to messages for good where it fails.
//
// One lane is one member's end, made for one formation of the group. Everything is begun here and
// done elsewhere; Look says how it stands. One thing at a time, but that a sum may follow Meet at
// once. A lane that failed is of no more use.
//
// Threads: its owner's. The destructor gives up what is under way and waits for nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace skerry {

class GroupLane {
 public:
  enum class State : uint8_t { kUnderWay, kDone, kFailed };
  using Id = std::array<uint8_t, 128>;  // of a meeting

  virtual ~GroupLane() = default;

  virtual void MakeId() = 0;  // by one member, for all
  virtual Id id() const = 0;  // once that is done
  virtual void Meet(const Id& id, int32_t rank, int32_t size) = 0;
  // Of values [first, first + size): sum ← Σ own over all members, which call it for the same ones;
  // the same bits at all of them. `sum` is made as long as `own`, others of which may be written
  // meanwhile.
  virtual void Sum(std::shared_ptr<const std::vector<float>> own,
                   std::shared_ptr<std::vector<float>> sum, int64_t first, int64_t size) = 0;

  struct Progress {
    State state = State::kUnderWay;
    int64_t moved = 0;  // grows where something happens
  };
  virtual Progress Look() = 0;
  virtual std::string Words() const = 0;  // what it is, "NCCL 2.28.9 of 3"; or why it has failed
};

using GroupLaneFactory = std::function<std::unique_ptr<GroupLane>()>;

}  // namespace skerry
