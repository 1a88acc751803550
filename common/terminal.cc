#include "common/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

namespace skerry {
namespace {

bool BeginsCharacter(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0) != 0x80;
}

// The bytes that the first characters take.
size_t BytesOf(const std::string& text, int characters) {
  int seen = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (BeginsCharacter(text[i]) && ++seen > characters) return i;
  }
  return text.size();
}

}  // namespace

std::optional<TerminalSize> TerminalAt(int file) {
  if (isatty(file) != 1) return std::nullopt;
  winsize size{};
  const bool known = ioctl(file, TIOCGWINSZ, &size) == 0;
  TerminalSize terminal;
  if (known && size.ws_col > 0) terminal.columns = size.ws_col;
  if (known && size.ws_row > 0) terminal.rows = size.ws_row;
  return terminal;
}

int ColumnsOf(const std::string& text) {
  return static_cast<int>(std::count_if(text.begin(), text.end(), BeginsCharacter));
}

std::string CutTo(const std::string& text, int columns) {
  if (ColumnsOf(text) <= columns) return text;
  return text.substr(0, BytesOf(text, std::max(columns - 1, 0))) + "…";
}

std::vector<std::string> WrappedTo(const std::string& line, int columns) {
  constexpr size_t kIndent = 4;
  std::vector<std::string> parts;
  std::string rest = line;
  while (ColumnsOf(rest) > std::max(columns, 2 * static_cast<int>(kIndent))) {
    const size_t fits = BytesOf(rest, std::max(columns, 2 * static_cast<int>(kIndent)));
    const size_t indent = rest.find_first_not_of(' ');
    size_t cut = rest.rfind(' ', fits);
    if (cut == std::string::npos || cut <= indent) cut = fits;
    parts.push_back(rest.substr(0, rest.find_last_not_of(' ', cut - 1) + 1));
    const size_t next = rest.find_first_not_of(' ', cut);
    if (next == std::string::npos) return parts;
    rest = std::string(kIndent, ' ') + rest.substr(next);
  }
  parts.push_back(std::move(rest));
  return parts;
}

}  // namespace skerry
