#include <algorithm>

#include "tools/tidy/rules.h"

namespace skerry::tidy {
namespace {

constexpr int kFileLinesMax = 400;
constexpr int kLineColumnsMax = 100;
constexpr int kFunctionLinesMax = 60;

int Columns(std::string_view line) {
  return static_cast<int>(
      std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string_view Trim(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\n") - first + 1);
}

// `template <…>` and access labels say nothing about what a brace opens.
std::string_view StripPrefixes(std::string_view head) {
  head = Trim(head);
  for (const std::string_view label : {"public:", "private:", "protected:", "inline "}) {
    if (head.starts_with(label)) return StripPrefixes(head.substr(label.size()));
  }
  if (!head.starts_with("template")) return head;
  int depth = 0;
  for (size_t i = 0; i < head.size(); ++i) {
    if (head[i] == '<') ++depth;
    if (head[i] == '>' && --depth == 0) return StripPrefixes(head.substr(i + 1));
  }
  return head;
}

enum class Scope { kContainer, kFunction, kOther };

// What a brace opens, from the text since the last `;`, `{` or `}`.
Scope Classify(std::string_view head, bool inside_containers) {
  if (!inside_containers) return Scope::kOther;
  head = StripPrefixes(head);
  for (const std::string_view word :
       {"namespace", "class ", "struct ", "union ", "enum ", "extern "}) {
    if (head.starts_with(word)) return Scope::kContainer;
  }
  if (head.ends_with("=") || head.ends_with(",") || head.ends_with("(")) return Scope::kOther;
  const bool is_table = !head.empty() && head.find('(') == std::string_view::npos;
  return is_table ? Scope::kOther : Scope::kFunction;
}

struct OpenScope {
  Scope kind;
  int first_line;
};

// Walks the braces of a file; approximate, but a function that is too long does not escape it.
class FunctionMeter {
 public:
  explicit FunctionMeter(const Source& source) : source_(source) {}

  void Measure(Findings& findings) {
    bool directive = false;
    for (size_t i = 0; i < source_.code.size(); ++i) {
      const std::string_view line = source_.code[i];
      directive = directive || Trim(line).starts_with('#');
      if (!directive) MeasureLine(line, static_cast<int>(i) + 1, findings);
      directive = directive && source_.lines[i].ends_with('\\');
    }
  }

 private:
  void MeasureLine(std::string_view line, int number, Findings& findings) {
    for (const char c : line) {
      if (c == '{') {
        Open(number);
      } else if (c == '}') {
        Close(number, findings);
      } else if (c == ';') {
        head_.clear();
      } else {
        if (Trim(head_).empty()) head_line_ = number;
        head_ += c;
      }
    }
    head_ += ' ';
  }

  void Open(int number) {
    const bool inside_containers = std::all_of(
        open_.begin(), open_.end(), [](const OpenScope& s) { return s.kind == Scope::kContainer; });
    const int first = Trim(head_).empty() ? number : head_line_;
    open_.push_back({Classify(head_, inside_containers), first});
    head_.clear();
  }

  void Close(int number, Findings& findings) {
    head_.clear();
    if (open_.empty()) return;
    const OpenScope scope = open_.back();
    open_.pop_back();
    const int lines = number - scope.first_line + 1;
    if (scope.kind != Scope::kFunction || lines <= kFunctionLinesMax) return;
    findings.push_back({source_.path, scope.first_line, "sizes",
                        "a function of " + std::to_string(lines) + " lines; at most " +
                            std::to_string(kFunctionLinesMax)});
  }

  const Source& source_;
  std::vector<OpenScope> open_;
  std::string head_;
  int head_line_ = 0;
};

void CheckHeader(const Source& source, Findings& findings) {
  if (source.lines.empty() || !source.lines.front().starts_with("//")) {
    findings.push_back({source.path, 1, "header", "begins with a comment that says what it is"});
  }
  if (std::find(source.lines.begin(), source.lines.end(), "#pragma once") == source.lines.end()) {
    findings.push_back({source.path, 1, "header", "lacks #pragma once"});
  }
}

}  // namespace

void CheckSizes(const Source& source, Findings& findings) {
  if (!source.IsCpp()) return;
  const int lines = static_cast<int>(source.lines.size());
  if (lines > kFileLinesMax) {
    findings.push_back({source.path, lines, "sizes",
                        std::to_string(lines) + " lines; at most " + std::to_string(kFileLinesMax) +
                            ": two ideas in one file"});
  }
  for (int i = 0; i < lines; ++i) {
    const int columns = Columns(source.lines[static_cast<size_t>(i)]);
    if (columns <= kLineColumnsMax) continue;
    findings.push_back(
        {source.path, i + 1, "sizes",
         std::to_string(columns) + " columns; at most " + std::to_string(kLineColumnsMax)});
  }
  FunctionMeter(source).Measure(findings);
  if (source.IsHeader()) CheckHeader(source, findings);
}

}  // namespace skerry::tidy
