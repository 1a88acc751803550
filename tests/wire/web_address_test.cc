#include "wire/web_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <catch2/catch.hpp>

namespace skerry {
namespace {

bool IsPublic(const std::string& text) {
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  if (inet_pton(AF_INET, text.c_str(), &v4.sin_addr) == 1) {
    return IsPublicAddress(reinterpret_cast<const sockaddr&>(v4));
  }
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  REQUIRE(inet_pton(AF_INET6, text.c_str(), &v6.sin6_addr) == 1);
  return IsPublicAddress(reinterpret_cast<const sockaddr&>(v6));
}

}  // namespace

TEST_CASE("addresses that everybody reaches", "[wire]") {
  const std::string address =
      GENERATE("1.1.1.1", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0",
               "172.15.255.255", "172.32.0.0", "192.167.255.255", "192.169.0.0", "223.255.255.255",
               "2001:4860:4860::8888", "2a00::1", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8");
  CAPTURE(address);
  CHECK(IsPublic(address));
}

TEST_CASE("addresses that only some reach, or nobody", "[wire]") {
  const std::string address = GENERATE(
      "0.0.0.0", "10.0.0.0", "10.255.255.255", "100.64.0.1", "100.127.255.255", "127.0.0.1",
      "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.1", "192.168.1.1", "198.18.0.1",
      "224.0.0.1", "255.255.255.255", "::", "::1", "fe80::1", "fd00::1", "ff02::1",
      "::ffff:127.0.0.1", "::ffff:192.168.1.1", "64:ff9b::10.0.0.1", "2002:a00:1::1");
  CAPTURE(address);
  CHECK_FALSE(IsPublic(address));
}

TEST_CASE("a socket of another kind is no public address", "[wire]") {
  sockaddr local{};
  local.sa_family = AF_UNIX;
  CHECK_FALSE(IsPublicAddress(local));
}

TEST_CASE("endpoints within a private network", "[wire]") {
  CHECK(IsPrivateEndpoint("tcp://127.0.0.1:7700"));
  CHECK(IsPrivateEndpoint("tcp://[::1]:7700"));
  CHECK(IsPrivateEndpoint("tcp://192.168.7.7:1"));
  CHECK_FALSE(IsPrivateEndpoint("tcp://9.9.9.9:7700"));
  CHECK_FALSE(IsPrivateEndpoint("tcp://[2a00::1]:7700"));
  CHECK_FALSE(IsPrivateEndpoint("tcp://no-such-name.invalid:7700"));
  CHECK_FALSE(IsPrivateEndpoint(""));
}

}  // namespace skerry
