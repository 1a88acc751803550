#include "wire/transport/peer_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>

namespace skerry {
namespace {

constexpr size_t kNetworkBytes = 8;  // of the 16 of an IPv6 address

std::string BlockOf(in6_addr address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (IN6_IS_ADDR_V4MAPPED(&address)) {
    return inet_ntop(AF_INET, address.s6_addr + 12, text, sizeof text);
  }
  std::fill(address.s6_addr + kNetworkBytes, address.s6_addr + sizeof address.s6_addr, uint8_t{0});
  return std::string(inet_ntop(AF_INET6, &address, text, sizeof text)) + "/64";
}

}  // namespace

std::string AddressBlock(const std::string& address) {
  in6_addr v6;
  if (inet_pton(AF_INET6, address.c_str(), &v6) != 1) return address;
  return BlockOf(v6);
}

std::string PeerBlock(int descriptor) {
  sockaddr_storage peer{};
  socklen_t size = sizeof peer;
  if (getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer), &size) != 0) return "";
  char text[INET_ADDRSTRLEN] = "";
  if (peer.ss_family == AF_INET) {
    sockaddr_in v4;
    std::memcpy(&v4, &peer, sizeof v4);
    return inet_ntop(AF_INET, &v4.sin_addr, text, sizeof text);
  }
  if (peer.ss_family != AF_INET6) return "";
  sockaddr_in6 v6;
  std::memcpy(&v6, &peer, sizeof v6);
  return BlockOf(v6.sin6_addr);
}

void EndConnection(int descriptor) {
  shutdown(descriptor, SHUT_RDWR);
}

}  // namespace skerry
