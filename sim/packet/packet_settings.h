// A setting of the calling thread's network namespace, by its name below /proc/sys/net/ipv4/.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace skerry {

absl::Status SetNetwork(const std::string& name, const std::string& value);

}  // namespace skerry
