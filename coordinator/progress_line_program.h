// A line on standard error that says how far something long has come.
#pragma once

#include <chrono>
#include <string>

#include "model/prepare_text.h"

namespace skerry {

// On a terminal the line is written over, four times a second; elsewhere one a half minute.
class ProgressLine {
 public:
  explicit ProgressLine(std::string what);
  void Show(const PrepareProgress& at);
  void End();  // the last line, whole

 private:
  using Clock = std::chrono::steady_clock;
  void Write(const PrepareProgress& at, Clock::time_point now);

  std::string what_;
  bool is_terminal_;
  bool has_begun_ = false;
  Clock::time_point begun_, shown_;
  PrepareProgress first_, last_;
};

// "tokenizing  37.0 %  1234 MB, 23.1 MB/s, 4 min 10 s to go": of what was done since `first`,
// `seconds` ago.
std::string ProgressText(const std::string& what, const PrepareProgress& first,
                         const PrepareProgress& now, double seconds);

}  // namespace skerry
