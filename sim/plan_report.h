// A comparison of plans for people and programs: lines of text, one JSON object, a page with a
// chart of who computes when.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "sim/plan_comparison.h"

namespace skerry {

// What a run of this plan would train on in a step and, were nobody ever away, in a day.
struct ExpectedTokens {
  int64_t a_step = 0;
  double a_day = 0;
  double days = 0;  // for all its steps
};
ExpectedTokens ExpectedOf(const PlanComparison& comparison);

std::string PlanText(const PlanComparison& comparison);

// {"name", "nodes", "lower_bound_s", "gap", "stages": [{"first_layer", "last_layer", "nodes":
// [{"node", "region", "gflops", "load", "busy_s", "memory_bytes", "needs_bytes",
// "host_memory_bytes", "host_needs_bytes"}]}], "paths":
// [[{"stage", "replica"}]], "plans": [{"strategy", "step_s", "computing_s", "latency_s", "wire_s",
// "waiting_s", "ring_s", "exposed_s", "held_up_s", "placement_bound_s", "plan_s", "note"}],
// "outer": {"inner_steps", "overlap_steps", "codec", "chosen", "sent_bytes", "transfer_s",
// "uplink_free", "hidden"}, "slow_links": [{"from", "to"}], "plain_step_s", "cohorts"
// (plan_cohorts.h),
// "tokens_per_step", "tokens_per_day", "days", "failed"}. Loads are microbatches per step; the
// four parts add up to the step without its last ring and outer traffic; plain_step_s is without
// compression.
std::string PlanJson(const PlanComparison& comparison);

// One page that needs nothing but a browser. Unavailable if the file cannot be written.
absl::Status WritePlanPage(const PlanComparison& comparison, const std::string& file);

}  // namespace skerry
