// events.jsonl as it is written: what was seen stays seen, and a week of it stays small
// (coordinator/event_budget.h).
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "coordinator/event_budget.h"
#include "coordinator/line_file.h"

namespace skerry {

class EventFile {
 public:
  struct Clock {
    std::function<double()> seconds;   // since this process began to serve
    std::function<std::string()> utc;  // "2026-11-23T19:20:05Z"
  };
  EventFile(LineFile file, Clock clock)
      : file_(std::move(file)), budget_(file_.size()), clock_(std::move(clock)) {}

  // `fields`: the members of a JSON object, with or without its braces.
  void Write(const std::string& kind, std::string fields);
  // What waited to be told together; at the end.
  void Flush();

 private:
  void Append(const EventBudget::Lines& lines);

  LineFile file_;
  EventBudget budget_;
  Clock clock_;
};

}  // namespace skerry
