// A scenario for `emulate`: who takes part, where, over which network, training what.
//
// A directory with scenario.toml (names the other two), wan.toml (wire/shape_config.h) and run.toml
// (wire/config.h).
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/run_config.h"
#include "wire/shape_config.h"

namespace skerry {

struct Scenario {
  std::string name;
  std::string wan_file;  // absolute path
  WanShape wan;
  RunConfig run;
  std::string text_file;                    // training text
  std::vector<std::string> region_of_node;  // one entry a node
};

// `path` is a scenario.toml or its directory. InvalidArgument with file and line for what is
// unknown or wrong.
absl::StatusOr<Scenario> LoadScenario(const std::string& path);

}  // namespace skerry
