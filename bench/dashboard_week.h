// What a coordinator leaves in its directory of a busy week, with a thousand nodes: events.jsonl,
// written line by line by what a coordinator writes with (coordinator/event_file.h), on a clock
// that is told how late it is; and status.json, with the fields that coordinator/duties.cc gives
// it.
//
// Eight stages of 125 replicas; a step a second, rounds of ten minutes, a link measured and a
// detour taken every other second; every ten minutes a node dies and one comes back, each with a
// new plan; traces as many as may be written (coordinator/tracing.h).
#pragma once

#include <cstdint>
#include <string>

namespace skerry::bench {

inline constexpr int kWeekNodes = 1000;
inline constexpr int64_t kWeekSeconds = 7 * 86400;

// Of `events_file`, which must not be there; its bytes.
int64_t WriteWeek(const std::string& events_file);

// As it is `seconds` after the week's last step.
std::string WeekStatus(int64_t seconds);

// A busy step of four stages as an event `trace` has it: as many tasks as are written of one.
std::string TraceFields(int64_t step);

}  // namespace skerry::bench
