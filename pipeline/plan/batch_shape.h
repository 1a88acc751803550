// The shape of a step where the configuration leaves it to the planner: into how many microbatches
// its sequences are cut ([pipeline] sequences_per_microbatch = 0, sequences_per_step = B) and how
// many of them a stage-0 node keeps in the pipeline (in_flight = 0).
//
// Large microbatches pay the latency of a link and the cost of a message less often; small ones
// fill the pipeline and take less memory. Every cut whose microbatches divide over the stage-0
// replicas and every window is tried: stages are cut for it (partition.h, which says whether it
// fits the memory with its margin), and its step is predicted (routing/evaluator.h). Of what is
// within kAsGood of the fastest the one that needs the least memory is taken.
//
// What decides the arithmetic must not depend on the noise of measurements (docs/decisions/0005 and
// 0012): the cut changes in which order gradients are summed, hence bits. So this prediction sees
// a *nominal* fleet: speeds by their class, one link between everybody, whose round trip and rate,
// each against what the median node computes in that time, are rounded to powers of kNominalRatio.
// So where all takes twice as long, everything is chosen alike. The window changes no bits, it
// follows the measured links (ChooseWindow), among windows that leave the layers where they are.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/run_config.h"
#include "pipeline/plan/message_cost.h"
#include "pipeline/plan/partition.h"
#include "routing/placement.h"
#include "routing/topology.h"
#include "wire/message/pipeline_plan.h"

namespace skerry {

struct Contestants;  // contestants.h

inline constexpr double kNominalRatio = 4;
inline constexpr double kAsGood = 1.02;
inline constexpr int32_t kWindowMax = 32;  // tried at most, and as many sequences a microbatch

// A fleet without the noise of its measurement.
struct NominalFleet {
  std::vector<double> gflops;       // [nodes]
  std::vector<MemoryOffer> offers;  // [nodes]
  double rtt_s = 0;
  double bytes_per_s = 0;
  double message_s = kMessageSeconds;
};

//   gflops, offers  [nodes], as for MakePartition
//   message_s       as PlannerInput::message_s
NominalFleet NominalOf(const std::vector<double>& gflops, const std::vector<MemoryOffer>& offers,
                       const LinkMatrix& links, double message_s = kMessageSeconds);

bool IsBatchOpen(const RunConfig& config);

// Seconds a step takes on such a fleet, settings complete. ResourceExhausted or InvalidArgument:
// there is no partition.
absl::StatusOr<double> NominalStepSeconds(const RunConfig& config, const NominalFleet& fleet);

struct BatchShape {
  RunConfig config;  // complete: nothing of [pipeline] is left open
  std::string why;   // for people; empty: nothing was open
};

// ResourceExhausted: no cut fits the memory; says by how much the smallest one does not.
absl::StatusOr<BatchShape> ChooseBatch(const RunConfig& config, const NominalFleet& fleet);

// What of `chosen` stands in the plan of a run whose operator wrote `given`.
void SettleBatch(const RunConfig& given, const RunConfig& chosen, PlannedSettings* settings);

// The window for measured links: `problem` and `placement` are of the window in `config`. Its
// stages stay as they are.
int32_t ChooseWindow(const RunConfig& config, const Partition& partition,
                     const PlacementProblem& problem, const Placement& placement,
                     const Contestants& contestants);

}  // namespace skerry
