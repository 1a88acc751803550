// What a person sees of a run: status.json and events as text, for a terminal or as plain lines.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "common/terminal.h"

namespace skerry {

// The whole picture, several lines: phase, step, loss, tokens/s, bytes, every node and what it
// waits for.
std::string StatusScreen(const nlohmann::json& status);

// One line: "step 48/256  loss 2.713  5.1 ktok/s  up 12.3 MB  down 12.1 MB  8 nodes".
std::string StatusLine(const nlohmann::json& status);

// A screen as lines that a terminal shows without wrapping or scrolling them: what is wider goes on
// in a line of its own, what is below its last row is counted.
std::vector<std::string> FrameOf(const std::string& screen, const TerminalSize& terminal);

// "3 of 8 wait, one for the gradient of microbatch 5 from 3fa9…", of those that hold a stage; "":
// nobody does.
std::string WaitingText(const nlohmann::json& status);

// Shows the present again and again: redrawn in place on a terminal, else a line when something
// changed.
class LiveScreen {
 public:
  void Show(const nlohmann::json& status);

 private:
  int lines_drawn_ = 0;
  std::string last_, last_phase_;
  double last_at_s_ = -1e9;
};

}  // namespace skerry
