// The paths of a run, over slots: which stages each microbatch visits, and which replica of each.
//
// Microbatch m of step k takes paths[(k · M + m) mod size]. Of the K stages after stage 0 a path
// leaves out ⌊skip · K⌋ or ⌈skip · K⌉, mixed so that the average is met. Over the table every stage
// after stage 0 is visited equally often and every replica of a stage carries the same load:
// exactly if a table of at most PathsMax paths allows it, else to within one visit. Any window of
// paths is balanced to within a few visits, and a step's microbatches divide evenly over the
// stage-0 replicas when their number does.
//
// Columns: every path has a place in [0, 1), origin o's in [o, o + 1) / origins, and a stage deals
// its visits by place, in equal parts, to its replicas. So stages of equal size form columns that
// never cross, and a replica of another stage meets few others; placement.h can put nodes that are
// near each other into a column. No data is tied to a column (a weakness of SkipPipe's fixed ways,
// arXiv 2502.19913): which tokens a microbatch reads is drawn from seed, step and number.
// Deterministic in its input; measurements play no part.
#pragma once

#include <cstdint>
#include <vector>

#include "wire/message/pipeline_plan.h"

namespace skerry {

// Paths of a table, at most; more where so many would leave the replicas of a large stage two or
// three visits each, which whole visits cannot deal evenly.
inline constexpr int32_t kPathsMax = 512;
inline constexpr int32_t kPathsMaxOfLarge = 2048;
inline constexpr size_t kLargeSlots = 128;
inline int32_t PathsMax(size_t slots) {
  return slots > kLargeSlots ? kPathsMaxOfLarge : kPathsMax;
}

struct PathTableInput {
  std::vector<int32_t> replicas;  // per stage, ≥ 1 each
  double skip_ratio = 0;          // in [0, 0.5]
  int32_t swaps = 0;              // a path may exchange so many disjoint pairs of neighbours
  int32_t microbatches_per_step = 1;
  uint64_t seed = 1;
};

std::vector<Path> MakePathTable(const PathTableInput& input);

}  // namespace skerry
