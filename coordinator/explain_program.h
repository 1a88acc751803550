// `skerry-coordinator explain DIR`: where the time of a step or a round went.
#pragma once

#include <CLI/CLI.hpp>

namespace skerry {

void AddExplainCommand(CLI::App& app, int* exit_code);

}  // namespace skerry
