// `skerry-coordinator explain DIR`: where the time of a step or a round went; `trace DIR`: what
// every device did in them, for a viewer of traces.
#pragma once

#include <CLI/CLI.hpp>

namespace skerry {

void AddExplainCommand(CLI::App& app, int* exit_code);

}  // namespace skerry
