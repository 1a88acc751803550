// Text on a terminal: its size, and lines that fit it. Counts characters, not bytes, of UTF-8.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace skerry {

struct TerminalSize {
  int columns = 80, rows = 24;
};
// Of the terminal behind a file descriptor; nothing where there is none.
std::optional<TerminalSize> TerminalAt(int file);

int ColumnsOf(const std::string& text);
// Where something is cut off it says so.
std::string CutTo(const std::string& text, int columns);
// A line in parts that fit, broken between words where there are any; what is continued is
// indented.
std::vector<std::string> WrappedTo(const std::string& line, int columns);

}  // namespace skerry
