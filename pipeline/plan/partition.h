// The logical shape of a run: how many stages, how many replicas each, which layers each holds.
//
// A function of the configuration and of the *classes* of the nodes: speeds relative to the median,
// rounded to powers of kSpeedClassRatio, so that the noise of a measurement (±10 % on equal devices
// stays in class 0) moves no layer. Memory enters as a limit only. Stages are cut so that the
// slowest is as fast as can be:
//   time_s = participation_s · work_s / (replicas_s · speed of the slowest class in s)
// where stage 0 takes part in every microbatch and also does the head, and a later stage takes part
// in (1 − skip) of them (SkipPipe, arXiv 2502.19913; layers ∝ speed as in Holmes, arXiv
// 2312.03549). Fast nodes go to early stages.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "common/run_config.h"
#include "pipeline/plan/node_memory.h"

namespace skerry {

inline constexpr double kSpeedClassRatio = 1.5;

struct StageShape {
  int32_t first_layer = 0;  // layers [first_layer, last_layer)
  int32_t last_layer = 0;
  int32_t replicas = 0;
  int32_t layers() const { return last_layer - first_layer; }
  bool operator==(const StageShape&) const = default;
};

struct Partition {
  std::vector<StageShape> stages;
  std::vector<int32_t> nodes;  // [slots] a first placement that fits: node index per slot
};

// log_ratio(speed / median), rounded.
std::vector<int32_t> SpeedClasses(const std::vector<double>& gflops);

// How many stages a run gets when its configuration leaves it open: 4 at 8 nodes, growing with the
// root of their number beyond; at least 3 from 6 nodes on; two replicas each where nodes allow.
int32_t AutoStages(int32_t nodes, int32_t stages_max);

// Share of the microbatches that visit a stage.
double Participation(const RunConfig& config, int32_t stages, int32_t stage);

//   gflops  [nodes] > 0
//   offers  [nodes]
// InvalidArgument: more stages than nodes or layers. ResourceExhausted: no cut fits the memory;
// says what is missing. With automatic stages, more of them are tried before giving up; where no
// cut fits otherwise and the configuration lets it, nodes recompute layers, whose price is in the
// cut, and where that is not enough offload, too (node_memory.h).
absl::StatusOr<Partition> MakePartition(const RunConfig& config, const std::vector<double>& gflops,
                                        const std::vector<MemoryOffer>& offers);

}  // namespace skerry
