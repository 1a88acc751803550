// The addresses that this machine has.
#pragma once

#include <string>
#include <vector>

namespace skerry {

// IPv4 first, then IPv6, without those of the machine itself or of one link only; as the system
// lists them. Empty if it does not say.
std::vector<std::string> OwnAddresses();

// The network interface that has the connection's own address; "" if there is none.
std::string InterfaceTowards(int socket);

}  // namespace skerry
