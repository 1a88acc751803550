// Changes of a run's configuration from the command line: "outer.codec=int4". Keys, ranges and
// choices are those of run.toml (wire/config_fields.h).
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/run_config.h"

namespace skerry {

// Applies one change. InvalidArgument: "there is no 'outer.codek'; nearest is 'outer.codec'", a
// value of another type, out of range, or no such choice (all are named). The configuration is
// unchanged then. Rules between values are not checked: there may be more changes to come.
absl::Status ApplyConfigChange(const std::string& change, RunConfig& config);

// All of them in order, then the rules between values.
absl::Status ApplyConfigChanges(const std::vector<std::string>& changes, RunConfig& config);

}  // namespace skerry
