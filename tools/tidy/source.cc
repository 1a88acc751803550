#include "tools/tidy/source.h"

#include <cctype>

namespace skerry::tidy {
namespace {

bool IsIdentifier(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

std::vector<std::string> SplitLines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    lines.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return lines;
}

// Index just past the literal or comment that starts at `at`; `at` itself when none starts there.
size_t SkipNonCode(std::string_view text, size_t at) {
  const auto past = [&](std::string_view mark, size_t from) {
    const size_t found = text.find(mark, from);
    return found == std::string_view::npos ? text.size() : found + mark.size();
  };
  const std::string_view rest = text.substr(at);
  if (rest.starts_with("//")) return std::min(text.find('\n', at), text.size());
  if (rest.starts_with("/*")) return past("*/", at + 2);
  if (rest.starts_with("R\"") && (at == 0 || !IsIdentifier(text[at - 1]))) {
    const size_t open = text.find('(', at);
    if (open == std::string_view::npos) return text.size();
    const std::string close = ")" + std::string(text.substr(at + 2, open - at - 2)) + "\"";
    return past(close, open);
  }
  const bool digit_separator = at > 0 && IsIdentifier(text[at - 1]);
  if (rest[0] != '"' && (rest[0] != '\'' || digit_separator)) return at;
  for (size_t i = at + 1; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == rest[0] || text[i] == '\n') {
      return i + 1;
    }
  }
  return text.size();
}

std::string BlankNonCode(std::string_view text) {
  std::string code(text);
  for (size_t i = 0; i < text.size();) {
    const size_t end = SkipNonCode(text, i);
    for (size_t j = i; j < end; ++j) {
      if (code[j] != '\n') code[j] = ' ';
    }
    i = end == i ? i + 1 : end;
  }
  return code;
}

void ParseInclude(Source& source, size_t index) {
  std::string_view line = source.lines[index];
  if (!line.starts_with("#include")) return;
  const size_t open = line.find_first_of("<\"");
  if (open == std::string_view::npos) return;
  const size_t close = line.find_first_of(">\"", open + 1);
  source.includes.push_back(
      {static_cast<int>(index) + 1, std::string(line.substr(open + 1, close - open - 1))});
}

}  // namespace

bool Source::IsHeader() const {
  return path.ends_with(".h");
}

bool Source::IsCpp() const {
  return IsHeader() || path.ends_with(".cc") || path.ends_with(".cu");
}

Source ParseSource(std::string path, std::string_view text) {
  Source source;
  source.path = std::move(path);
  source.lines = SplitLines(text);
  if (!source.IsCpp()) return source;
  source.code = SplitLines(BlankNonCode(text));
  source.code.resize(source.lines.size());
  for (size_t i = 0; i < source.lines.size(); ++i) ParseInclude(source, i);
  return source;
}

std::string_view Stem(std::string_view path) {
  path.remove_prefix(path.rfind('/') + 1);  // npos + 1 is 0
  return path.substr(0, path.rfind('.'));
}

bool HasWord(std::string_view line, std::string_view word) {
  for (size_t at = line.find(word); at != std::string_view::npos; at = line.find(word, at + 1)) {
    const bool before = at > 0 && IsIdentifier(line[at - 1]) && IsIdentifier(word.front());
    const size_t end = at + word.size();
    const bool after = end < line.size() && IsIdentifier(line[end]) && IsIdentifier(word.back());
    if (!before && !after) return true;
  }
  return false;
}

}  // namespace skerry::tidy
