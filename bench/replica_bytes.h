// What the outer rounds of a replica take from the heap, beside its weights and inner optimizer.
#pragma once

#include "common/run_config.h"

namespace skerry {

// By the allocator, in bytes per parameter.
struct ReplicaBytes {
  double fresh = 0;    // before the first round
  double between = 0;  // after some rounds, none under way
  double pending = 0;  // one's message is under way
  double most = 0;     // at any moment of a round, with the message that leaves
};

// Four replicas of a stage of 2 million parameters, all-to-all, of which one is measured;
// `momentum` is β of the outer step.
ReplicaBytes MeasureReplica(DeltaCodec codec, ResidualPlace residual, float momentum);

}  // namespace skerry
