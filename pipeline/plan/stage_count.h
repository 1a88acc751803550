// How many stages a run gets where its configuration leaves it open ([pipeline] stages = 0).
//
// The formula of partition.h (AutoStages) knows the number of nodes only. Every stage is a hop that
// each microbatch pays twice, so few stages are fast; what asks for many is memory, outer rounds
// (more replicas of a larger stage exchange more) and quality: averaging more replicas costs loss
// at equal tokens. So numbers from half the formula's to twice it are tried, with their best batch
// shape (batch_shape.h), on the nominal fleet, under these bounds: at least kStagesMin where the
// formula has as many (a path that leaves out a stage needs some to choose from), and no more than
// kReplicasMax replicas of a stage, or as many as the formula gives. The formula's number stays
// unless another is faster by kWorthAnother, or it does not fit the memory.
//
// Deterministic in configuration, number of nodes and rounded classes (docs/decisions/0005, 0012).
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "pipeline/plan/batch_shape.h"

namespace skerry {

inline constexpr int32_t kStagesMin = 4;
inline constexpr int32_t kReplicasMax = 8;  // what convergence is measured for (docs/benchmarks.md)
inline constexpr double kWorthAnother = 1.1;

// The batch shape, and config.pipeline.stages > 0. Errors as MakePartition and ChooseBatch.
absl::StatusOr<BatchShape> ChooseShape(const RunConfig& config, const NominalFleet& fleet);

}  // namespace skerry
