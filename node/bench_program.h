// `skerry-node bench`: what this machine reaches in every operation of training, beside what its
// processor and memory could do at most, and what it would announce to a coordinator.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "node/device_choice.h"

namespace skerry {

struct BenchOptions {
  DeviceWish device = DeviceWish::kAuto;
  std::string devices;  // several as one, as for `join`
  int threads = 0;      // as for `join`: 0 is all
  bool json = false;
};

// Takes half a minute. Unavailable: a GPU was wished for and there is none. ResourceExhausted
// without a gigabyte of free memory.
absl::Status BenchMachine(BenchOptions options);

}  // namespace skerry
