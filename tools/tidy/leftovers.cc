#include <algorithm>
#include <cctype>

#include "tools/tidy/rules.h"

namespace skerry::tidy {
namespace {

// Written with escapes, so that this file passes its own rule.
constexpr std::string_view kNotes[] = {"\124ODO", "\106IXME", "\130XX"};
constexpr std::string_view kUnfinished[] = {"n\157t implemented", "unimpl\145mented"};
constexpr std::string_view kHomes[] = {"/w\157rk", "/h\157me", "/r\157ot", "/\125sers"};
constexpr std::string_view kConflictMarkers[] = {"\074<<<<<< ", "\076>>>>>> "};
constexpr std::string_view kConflictMiddle = "\075======";

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

// An absolute path below a directory that only its author has: "/x/…", not "net/x" and not "/xy".
bool HasOwnPath(std::string_view line, std::string_view home) {
  for (size_t at = line.find(home); at != std::string_view::npos; at = line.find(home, at + 1)) {
    const char before = at == 0 ? ' ' : line[at - 1];
    const size_t end = at + home.size();
    const bool starts = std::isalnum(static_cast<unsigned char>(before)) == 0 &&
                        std::string_view("._-/~}").find(before) == std::string_view::npos;
    if (starts && end < line.size() && line[end] == '/') return true;
  }
  return false;
}

bool IsConflictMarker(std::string_view line) {
  return line.starts_with(kConflictMarkers[0]) || line.starts_with(kConflictMarkers[1]) ||
         line == kConflictMiddle;
}

}  // namespace

void CheckLeftovers(const Source& source, Findings& findings) {
  for (size_t i = 0; i < source.lines.size(); ++i) {
    const std::string& line = source.lines[i];
    const auto found = [&](std::string message) {
      findings.push_back({source.path, static_cast<int>(i) + 1, "leftovers", std::move(message)});
    };
    for (const std::string_view word : kNotes) {
      if (HasWord(line, word)) found(std::string(word) + ": an issue keeps it, or it is done now");
    }
    const std::string lower = Lower(line);
    for (const std::string_view phrase : kUnfinished) {
      if (HasWord(lower, phrase)) found("something here is " + std::string(phrase));
    }
    for (const std::string_view home : kHomes) {
      if (HasOwnPath(line, home)) found("a path of somebody's own machine");
    }
    if (IsConflictMarker(line)) found("a conflict marker");
  }
}

}  // namespace skerry::tidy
