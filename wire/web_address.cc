#include "wire/web_address.h"

#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <memory>

namespace skerry {
namespace {

struct Block {
  uint32_t first;
  int bits;
};

// RFC 6890, and all from multicast on.
constexpr Block kPrivate[] = {
    {0x00000000, 8},   // 0.0.0.0: this host
    {0x0a000000, 8},   // 10.0.0.0
    {0x64400000, 10},  // 100.64.0.0: behind a provider's NAT
    {0x7f000000, 8},   // 127.0.0.0
    {0xa9fe0000, 16},  // 169.254.0.0: one link; clouds answer here with what they know of a machine
    {0xac100000, 12},  // 172.16.0.0
    {0xc0000000, 24},  // 192.0.0.0
    {0xc0a80000, 16},  // 192.168.0.0
    {0xc6120000, 15},  // 198.18.0.0: benchmarks
    {0xe0000000, 3},   // 224.0.0.0 and on
};

bool IsPublicV4(uint32_t address) {
  return std::none_of(std::begin(kPrivate), std::end(kPrivate), [&](const Block& block) {
    return (address ^ block.first) >> (32 - block.bits) == 0;
  });
}

uint32_t Last32(const std::array<uint8_t, 16>& bytes) {
  return uint32_t{bytes[12]} << 24 | uint32_t{bytes[13]} << 16 | uint32_t{bytes[14]} << 8 |
         uint32_t{bytes[15]};
}

bool IsPublicV6(const in6_addr& address) {
  std::array<uint8_t, 16> bytes;
  std::memcpy(bytes.data(), &address, sizeof bytes);
  constexpr std::array<uint8_t, 12> kNat64 = {0, 0x64, 0xff, 0x9b};
  if (IN6_IS_ADDR_V4MAPPED(&address) || std::equal(kNat64.begin(), kNat64.end(), bytes.begin())) {
    return IsPublicV4(Last32(bytes));
  }
  // 2000::/3 is all that is given out; of it 2002::/16 carries an IPv4 address.
  if (bytes[0] == 0x20 && bytes[1] == 0x02) {
    return IsPublicV4(uint32_t{bytes[2]} << 24 | uint32_t{bytes[3]} << 16 |
                      uint32_t{bytes[4]} << 8 | uint32_t{bytes[5]});
  }
  return bytes[0] >> 5 == 1;
}

std::string HostOf(const std::string& endpoint) {
  const size_t scheme = endpoint.find("://");
  const size_t begin = scheme == std::string::npos ? 0 : scheme + 3;
  const size_t colon = endpoint.rfind(':');
  if (colon == std::string::npos || colon < begin) return endpoint.substr(begin);
  std::string host = endpoint.substr(begin, colon - begin);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  return host;
}

bool IsPrivateHost(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (host.empty() || getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return false;
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> list(found, freeaddrinfo);
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    if (IsPublicAddress(*at->ai_addr)) return false;
  }
  return found != nullptr;
}

}  // namespace

bool IsPublicAddress(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    return IsPublicV4(ntohl(reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr));
  }
  if (address.sa_family == AF_INET6) {
    return IsPublicV6(reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
  }
  return false;
}

bool IsPrivateEndpoint(const std::string& endpoint) {
  return IsPrivateHost(HostOf(endpoint));
}

}  // namespace skerry
