// Which addresses everybody reaches. A program that fetches what another one names must not be led
// to machines that only it reaches: those of its home, its office, the cloud it runs in.
#pragma once

#include <sys/socket.h>

#include <string>

namespace skerry {

// False for this machine's own, private (RFC 1918, 4193, 6598), of one link only, multicast,
// reserved, and what is neither IPv4 nor IPv6; an IPv4 address within an IPv6 one is judged itself.
bool IsPublicAddress(const sockaddr& address);

// Whether the host of "tcp://host:port" is one that only some reach. False for a name that cannot
// be resolved. Asks the resolver: may take seconds.
bool IsPrivateEndpoint(const std::string& endpoint);

}  // namespace skerry
