// Records of the network: LinkRecord, LineRecord (run_state.h).
#pragma once

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "coordinator/run_state.h"

namespace skerry {

// Throw what nlohmann::json throws of a record that lacks something.
void ApplyLinkRecord(const nlohmann::json& json, RunState& state);
absl::Status ApplyLineRecord(const nlohmann::json& json, RunState& state);

}  // namespace skerry
