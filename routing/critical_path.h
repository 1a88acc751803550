// What the time of a plan is made of: the chain of tasks and messages that ends last, link by link.
//
// From the last task back: a task waited for its input, which a message brought, or for its node,
// which did another task until then. Every second of the run is on exactly one link of the chain,
// so the parts add up to the time predicted.
#pragma once

#include <cstdint>
#include <vector>

#include "routing/evaluator.h"

namespace skerry {

struct StepParts {
  double computing_s = 0;  // per step, all four
  double latency_s = 0;    // of messages on the chain
  double wire_s = 0;       // bytes / rate of them
  double waiting_s = 0;    // for an uplink, or for a step to open
  double total_s() const { return computing_s + latency_s + wire_s + waiting_s; }

  // Who is on the chain how long, per step: what to make faster.
  struct Share {
    int32_t from_slot = 0;
    int32_t to_slot = 0;  // the same: computing
    double seconds = 0;
    double wire_s = 0;  // of them, bytes / rate
  };
  std::vector<Share> largest;  // descending
};

// `records` is what Evaluator::Trace gave for this placement; not empty.
StepParts PartsOf(const Workload& workload, const Fleet& fleet, const Placement& placement,
                  const std::vector<TaskRecord>& records);

}  // namespace skerry
