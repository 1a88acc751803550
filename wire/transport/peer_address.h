// Who is at the other end of a connection that somebody else owns.
#pragma once

#include <string>

namespace skerry {

// What a budget for addresses counts by: "1.2.3.4", or the /64 network of an IPv6 address, which is
// what one subscriber gets, as "2001:db8:0:1::/64". What is no address comes back as it is.
std::string AddressBlock(const std::string& address);

// The AddressBlock of the TCP connection's other end; "" if it is none, or has ended.
std::string PeerBlock(int descriptor);

// Ends the connection for both sides and leaves the descriptor to its owner.
void EndConnection(int descriptor);

}  // namespace skerry
