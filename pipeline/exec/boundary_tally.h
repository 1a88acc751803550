// How large what passes between a node and its neighbours on the paths is, counted at both ends
// (docs/PROTOCOL.md, "Sizes are watched"): the coordinator holds the two words of an edge to each
// other, and each replica to the others of its stage.
//
// By the steps of the microbatches and not by time, so that both ends count the same ones. A part
// of the StageActor: single-threaded; what it does not know the size of costs nothing.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "common/bytes.h"
#include "wire/message/work_message.h"

namespace skerry {

// log₂ of the root mean square of the float32 values there, at least kBoundaryLog2Min; +∞ if one is
// not finite. In one pass, in float64, in an order of its own: not for what two machines must agree
// on bit by bit.
float Log2Rms(std::span<const uint8_t> floats);

class BoundaryTally {
 public:
  // Of a microbatch of step `step`; what is of a period that was told is left out.
  void Note(int64_t step, const NodeId& other, bool is_gradient, bool was_sent, float log2_rms);
  // Every microbatch of steps before `step` is over: the periods that are, once.
  std::vector<BoundarySizes> TakeBefore(int64_t step);

 private:
  using Side = std::tuple<NodeId, bool, bool>;
  struct Sum {
    int32_t count = 0;
    double log2 = 0;
  };
  std::map<int64_t, std::map<Side, Sum>> periods_;
  int64_t told_below_ = 0;  // periods
};

}  // namespace skerry
