// What the three programs' command lines have in common: names, versions, `help CODE`, examples,
// suggestions for mistyped words, shell completions and manual pages, all from the one CLI11 tree.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace skerry {

// Shown under --help of a command and in the manual.
struct CliExample {
  std::string command;  // "join", "config check"
  std::string line;     // without the program's name: "join skerry1-…"
  std::string what;
};

// Adds what all programs have, then parses and runs the callbacks. `exit_code` is what they set.
// Returns the process's exit code: that, or CLI11's (≥ 100) for a command line that is wrong.
int RunCommandLine(CLI::App& app, int argc, char** argv, const std::vector<CliExample>& examples,
                   const int* exit_code);

// 0, or 1 after the error was printed: what is wrong, and how to read more.
int EndedWith(const char* program, const absl::Status& status);

// Among `words` the one that `word` was probably meant to be; "" when none is near.
std::string NearestWord(const std::string& word, const std::vector<std::string>& words);

// What CLI11 says of an option's values, "ENUM:value in {auto->0,cpu->1} OR {0,1}" and "0", as a
// person reads it: "auto|cpu", "auto".
struct CliValues {
  std::string values, usual;
};
CliValues ShownValues(const std::string& type, const std::string& usual);
// Has --help show all options so, and what is wrong with a command line told with the command.
void ShowPlainly(CLI::App& app);

std::string CompletionsFor(const CLI::App& app, const std::string& shell);  // bash, zsh, fish
std::string ManualFor(const CLI::App& app, const std::vector<CliExample>& examples);

}  // namespace skerry
