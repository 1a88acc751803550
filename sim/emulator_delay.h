// What this machine takes for a message and its answer beside the line that the in-process shaper
// (wire/shaper.h) imitates: two event loops, their threads and sockets, sealing, late alarms. An
// emulated line is shorter by that, as whoever shapes a real path subtracts what it already takes.
#pragma once

#include "absl/status/statusor.h"
#include "common/instant.h"
#include "wire/shape_config.h"

namespace skerry {

// The quarter quickest of many empty round trips between two loops of this process over a shaped
// line, less that line's. (The shortest is too short for loops of several peers.) Takes a fifth of
// a second; Unavailable after some seconds without an answer.
absl::StatusOr<Duration> MeasureEmulatorDelay();

// The same network to whoever meets `own` besides; no line shorter than nothing.
WanShape Without(WanShape shape, Duration own);

}  // namespace skerry
