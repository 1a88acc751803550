// `skerry-sim soak`: arguments, table, JSON, verdict.
#pragma once

#include <CLI/CLI.hpp>

#include "absl/status/status.h"
#include "sim/soak.h"

namespace skerry {

struct SoakProgramOptions {
  SoakOptions soak;
  bool json = false;
};

CLI::App* AddSoakCommand(CLI::App& app, SoakProgramOptions& options);

// Internal if a goal was missed, naming it.
absl::Status RunSoak(const SoakProgramOptions& options, const volatile bool& interrupted);

}  // namespace skerry
