// A command of this program, run for the dashboard's operator in a process of its own: the web
// server neither holds the coordinator's key nor reads the journal.
#pragma once

#include <string>
#include <vector>

namespace skerry {

struct CommandAnswer {
  bool ok = false;   // exit code 0
  std::string text;  // what it printed, on stdout and stderr; at most kAnswerBytesMax
};
inline constexpr size_t kAnswerBytesMax = 64 << 10;

// `arguments` without the program's name. Waits for its end, at most 20 s, then kills it. May be
// called on any thread.
CommandAnswer RunOwnCommand(const std::vector<std::string>& arguments);

}  // namespace skerry
