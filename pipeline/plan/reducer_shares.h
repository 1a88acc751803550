// How large a part of a sharded round each replica sums (round_shape.h), from the measured links.
#pragma once

#include "common/run_config.h"
#include "routing/topology.h"
#include "wire/message/pipeline_plan.h"

namespace skerry {

// `reduce` as a plan has it: with cohorts `auto` is `all` where somebody's program is from before
// rounds were sharded over speakers, which is one that does not spread.
OuterReduce ReduceOf(const RunConfig& config, bool spreads);

// Shares of the stages whose rounds are sharded, by what their replicas can send: the median of
// each one's links, of a cohort of all members' links to those of others, over that of the slowest,
// as a power of two up to 16. None where a link is not known, or all are alike; where cohorts are
// on and `reduce` is auto all are 1 then, and a stage without shares is not sharded
// (IsShardedStage). They change who sums what, never a bit of the sums.
void SetShares(const RunConfig& config, const LinkMatrix& links, PipelinePlan* plan);

}  // namespace skerry
