// What was changed in run.toml after its run began.
#pragma once

#include <istream>
#include <string>

#include "common/run_config.h"

namespace skerry {

// "[run] steps was 100, is 200; …", by the configuration whose digest is `began_with` in a
// coordinator's events.jsonl; "" if the log does not have it.
std::string WhatChanged(std::istream& events, const std::string& began_with, const RunConfig& now);

}  // namespace skerry
