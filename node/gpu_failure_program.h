// What `join` does when a GPU fails while it trains (it falls off the bus, its memory is damaged, a
// kernel goes wrong). CUDA keeps such an error for as long as the process lives, so the process is
// started anew in its own place, with the same command, without that GPU: it joins again as after
// any crash. Where it was the only device the program ends with an error and says which.
//
// Which GPUs have failed stands in the environment of the new process, so they are tried again when
// the node is started by hand or by its service.
#pragma once

#include <set>
#include <span>
#include <string>

#include "node/device_choice.h"

namespace skerry {

// GPUs that have failed since the node was started, and why it was started anew ("" if it was not).
std::set<int> FailedGpus();
std::string LastGpuFailure();

// From now on. Before a device is used.
void JoinAnewWithoutFailedGpu(std::span<const DeviceChoice> devices);

}  // namespace skerry
