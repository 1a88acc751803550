// Where a node's lines for people go: to its output, or to the screen that has taken it over; or,
// with --log-format json, to its output as lines for programs (common/json_log.h).
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"

namespace skerry {

// One line, without its end. On the thread that runs the loop, or before and after it.
void Say(const std::string& line);
// What happened; `fields` are members of a JSON object. To people "training: stage 0, layers 8".
std::string EventText(const std::string& kind, const std::string& fields);
void SayEvent(const std::string& kind, const std::string& fields);
// A line, and for programs the figures behind it.
void SayFigures(const std::string& line, const std::string& fields);
// An error, to the error output where lines are for programs. Else nothing: false.
bool SayError(const absl::Status& status);

// From now on lines go there; an empty function: to the output again.
void SetSayer(std::function<void(const std::string&)> sayer);

// From now on lines are JSON; `instance` is the node's name, "" while it is not known.
void SayAsJson(const std::string& instance);
bool SaysJson();

}  // namespace skerry
