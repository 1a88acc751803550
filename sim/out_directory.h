// The directory of an emulation or a soak, of which the next one with the same --out takes what the
// last one left: never what somebody else keeps there.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace skerry {

struct OutDirectory {
  std::string maker;                // "emulate", as the command is called
  std::vector<std::string> theirs;  // what only an earlier one of its kind leaves, of any version
  std::vector<std::string> removed;
};

// Makes `out`, or takes from it what is `removed`. InvalidArgument, and nothing is touched, where
// it holds something and no earlier one was there.
absl::Status PrepareOut(const std::filesystem::path& out, const OutDirectory& of);

}  // namespace skerry
