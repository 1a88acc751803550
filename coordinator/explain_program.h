// `skerry-coordinator explain DIR`: where the time of a step or a round went; `trace DIR`: what
// every device did in them, for a viewer of traces.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>

#include "absl/status/statusor.h"

namespace skerry {

// events.jsonl in a run's directory, or in that of a demo, which holds one. NotFound: no run is
// there, or it was never served.
absl::StatusOr<std::filesystem::path> EventLogOf(const std::string& directory);

void AddExplainCommand(CLI::App& app, int* exit_code);

}  // namespace skerry
