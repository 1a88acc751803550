// `status`, `nodes` and `config check`: what a run and its configuration are now.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "common/run_config.h"

namespace skerry {

absl::Status PrintStatus(const std::string& directory, bool json);
absl::Status PrintNodes(const std::string& directory, bool json);
absl::Status CheckConfig(const std::string& file);

// What is allowed and hardly meant: "note: …"; "" where all is as usual.
std::string NotesOn(const RunConfig& config);
// Of the run in this directory, as a line.
std::string ConfigNote(const std::string& directory);

}  // namespace skerry
