#include <cctype>

#include "tools/tidy/rules.h"

namespace skerry::tidy {
namespace {

// Of "class Name … {" at the beginning of a line; "" of anything else, declarations included.
std::string DefinedClass(const std::string& line) {
  for (const std::string_view keyword : {"class ", "struct "}) {
    if (!line.starts_with(keyword) || line.find(';') != std::string::npos) continue;
    size_t begin = keyword.size();
    const std::string_view rest = std::string_view(line).substr(begin);
    if (rest.starts_with("alignas")) begin = line.find(") ", begin) + 2;
    size_t end = begin;
    while (end < line.size() && (std::isalnum(line[end]) != 0 || line[end] == ':')) ++end;
    return line.substr(begin, end - begin);
  }
  return "";
}

}  // namespace

void ClassNames::Check(const Source& source, Findings& findings) {
  const bool is_of_programs = !source.path.starts_with("tests/") &&
                              !source.path.starts_with("bench/") &&
                              !source.path.starts_with("tools/");
  if (!is_of_programs || !source.path.ends_with(".h")) return;
  std::string space;
  for (size_t i = 0; i < source.code.size(); ++i) {
    const std::string& line = source.code[i];
    if (line.starts_with("namespace ")) space = line.substr(0, line.find_first_of('{'));
    const std::string name = DefinedClass(line);
    if (name.empty()) continue;
    const auto [first, is_new] = defined_in_.try_emplace(space + name, source.path);
    if (is_new || first->second == source.path) continue;
    findings.push_back({source.path, static_cast<int>(i) + 1, "names",
                        name + " is a class of " + first->second + " too: in one program that is " +
                            "undefined, and no compiler says so"});
  }
}

}  // namespace skerry::tidy
