// The addresses that this machine has.
#pragma once

#include <string>
#include <vector>

namespace skerry {

// IPv4 first, then IPv6, without those of the machine itself or of one link only; as the system
// lists them. Empty if it does not say.
std::vector<std::string> OwnAddresses();

}  // namespace skerry
