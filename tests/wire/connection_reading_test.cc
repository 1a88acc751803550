// What the kernel is asked about a connection, with two real ones over loopback.
#include "wire/transport/connection_reading.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <string>

namespace skerry {
namespace {

struct Loopback {
  Loopback() {
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    REQUIRE(bind(listener, any, size) == 0);
    REQUIRE(listen(listener, 1) == 0);
    REQUIRE(getsockname(listener, any, &size) == 0);
    ours = socket(AF_INET, SOCK_STREAM, 0);
    REQUIRE(connect(ours, any, size) == 0);
    theirs = accept(listener, nullptr, nullptr);
    close(listener);
  }
  ~Loopback() {
    close(ours);
    close(theirs);
  }
  int ours = -1, theirs = -1;
};

TEST_CASE("Connection: what it may have under way is known, of what is none nothing",
          "[wire][connection]") {
  const Loopback loopback;
  const auto reading = ReadConnection(loopback.ours);
  REQUIRE(reading);
  CHECK(reading->in_flight == 0);
  CHECK(reading->unsent == 0);
  CHECK(reading->window > 0);
  int pipes[2];
  REQUIRE(pipe(pipes) == 0);
  CHECK_FALSE(ReadConnection(pipes[0]));
  AvoidPauses(pipes[0]);
  close(pipes[0]);
  close(pipes[1]);
  CHECK_FALSE(ReadConnection(-1));
}

TEST_CASE("Connection: one for signals is not BBR's", "[wire][connection]") {
  const Loopback loopback;
  AvoidPauses(loopback.ours);
  char name[16] = "";
  socklen_t size = sizeof name;
  REQUIRE(getsockopt(loopback.ours, IPPROTO_TCP, TCP_CONGESTION, name, &size) == 0);
  const std::string control = name;
  CHECK((control == "cubic" || control == "reno"));
}

}  // namespace
}  // namespace skerry
