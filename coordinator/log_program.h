// What `skerry-coordinator serve` prints: lines for people, or, with --log-format json, one JSON
// object a line (common/json_log.h), and then nothing else. One setting for the process, made
// before it has threads.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace skerry {

// From now on JSON; `instance`: of the run, "" while it is not known.
void LogAsJson(const std::string& instance);
bool LogsJson();

// A line without its end.
void LogLine(const std::string& line);
// What the coordinator notes in events.jsonl: people read of it there, and here only what stops the
// run, and why nodes leave it; `fields` are members of a JSON object.
void LogEvent(const std::string& kind, const std::string& fields);
// 0, or 1 after the error was said.
int LogEnd(const absl::Status& status);

}  // namespace skerry
