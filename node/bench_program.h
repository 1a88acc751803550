// `skerry-node bench`: what this machine reaches in every operation of training, beside what its
// processor and memory could do at most, and what it would announce to a coordinator.
#pragma once

#include "absl/status/status.h"

namespace skerry {

struct BenchOptions {
  int threads = 0;  // as for `join`: 0 is all
  bool json = false;
};

// Takes some seconds. ResourceExhausted without a gigabyte of free memory.
absl::Status BenchMachine(BenchOptions options);

}  // namespace skerry
