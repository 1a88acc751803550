// What it costs a run that people can see it, as processor time, which others on the machine do not
// change much: of the dashboard's process with one viewer, of the lines written into events.jsonl,
// and of traces on their whole way (taken at the node, to bytes, back, on one clock, into a line),
// over that of the nodes that train. One run of the real programs, and each piece by itself.
#pragma once

#include <cstdint>

namespace skerry::bench {

struct SeeingCost {
  double seconds = 0;  // watched
  int64_t steps = 0, lines = 0, tasks = 0;
  double step_ms = 0;                     // processor time of all nodes together
  double line_us = 0, task_us = 0;        // of one
  double dashboard = 0, coordinator = 0;  // shares of the nodes' processor time
  double lines_share = 0, tasks_share = 0;
};

// Four nodes, two stages of two, on this machine, watched for `seconds`.
SeeingCost MeasureSeeing(int seconds);

}  // namespace skerry::bench
