// The traced steps of an event log in Chrome's trace format (open in Perfetto or chrome://tracing):
// a row a node, a bar a task, at the moments of the run, which a report's times are too; in a
// second group the same tasks as the planner's model predicts them, from the same beginning.
//
// What is between two traced steps is empty: one step of each round is traced (decision 42).
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <limits>

#include "absl/status/statusor.h"

namespace skerry {

struct TraceWindow {
  int64_t first_step = 0;
  int64_t last_step = std::numeric_limits<int64_t>::max();
};

// Reads the log to its end, in memory no more than a step. Returns the number of steps written;
// with none of them in the window `out` holds an empty trace. What cannot be read is left out.
// `on_read` is told the bytes read, line by line.
absl::StatusOr<int64_t> WriteRunTrace(std::istream& log, const TraceWindow& window,
                                      std::ostream& out,
                                      const std::function<void(int64_t)>& on_read = {});

}  // namespace skerry
