// One file as the rules see it: its lines as written, and its code without comments, string
// contents and preprocessor bodies, so that a rule about code is not disturbed by prose.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace skerry::tidy {

struct Include {
  int line = 0;  // 1-based
  std::string target;
};

// A value type. All line numbers shown to people are 1-based; index i of `lines` and `code` is line
// i + 1.
struct Source {
  std::string path;                // relative to the repository's root, with '/'
  std::vector<std::string> lines;  // as written
  std::vector<std::string> code;   // C++ only: same shape, comments and literals are blanks
  std::vector<Include> includes;   // C++ only

  bool IsCpp() const;
  bool IsHeader() const;
};

// Never fails: any bytes are a source.
Source ParseSource(std::string path, std::string_view text);

// "coordinator/journal_sqlite.cc" → "journal_sqlite".
std::string_view Stem(std::string_view path);

// Is `word` in `line`, not as a part of a longer identifier?
bool HasWord(std::string_view line, std::string_view word);

}  // namespace skerry::tidy
