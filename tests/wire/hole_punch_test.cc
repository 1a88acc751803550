// Two behind routers that dial each other: when they try and give up, from which ports, to where;
// and the relay that introduces them. That it works through real routers: tests/sim/nat_test.cc.
#include "wire/transport/hole_punch.h"

#include <catch2/catch.hpp>
#include <set>

#include "wire/transport/relay_desk.h"
#include "wire/transport/relay_message.h"

namespace skerry {
namespace {

using State = HolePunch::State;
const NodeId kAnn = TestNodeId(1), kBob = TestNodeId(2), kEve = TestNodeId(3);

Instant At(double seconds) {
  return Instant() + Duration::Seconds(seconds);
}

TEST_CASE("HolePunch: one end asks, both dial, an answer makes it stand", "[relay]") {
  HolePunch asks(true), waits(false);
  CHECK(asks.WantsMeeting(At(0)));
  CHECK_FALSE(asks.WantsMeeting(At(1)));  // once
  CHECK_FALSE(waits.WantsMeeting(At(0)));
  CHECK_FALSE(waits.OnHeard(At(0)));  // of what was never dialled
  for (HolePunch* end : {&asks, &waits}) {
    CHECK(end->OnMeet(At(1)));
    CHECK(end->state() == State::kDialling);
    CHECK(end->KnocksNow(At(1)));
    CHECK_FALSE(end->KnocksNow(At(1.1)));
    CHECK(end->OnHeard(At(2)));
    CHECK(end->stands());
    CHECK_FALSE(end->OnHeard(At(3)));
    CHECK_FALSE(end->Tick(At(9)));
    CHECK_FALSE(end->WantsMeeting(At(9)));
  }
}

TEST_CASE("HolePunch: where routers refuse it is given up, and tried again much later", "[relay]") {
  HolePunch punch(true);
  CHECK(punch.WantsMeeting(At(0)));
  CHECK(punch.OnMeet(At(0.1)));
  CHECK_FALSE(punch.Tick(At(10)));
  CHECK(punch.Tick(At(10.2)));
  CHECK(punch.state() == State::kNone);
  CHECK_FALSE(punch.Tick(At(11)));
  CHECK_FALSE(punch.KnocksNow(At(12)));
  CHECK_FALSE(punch.WantsMeeting(At(599)));
  CHECK(punch.WantsMeeting(At(601)));
}

TEST_CASE("HolePunch: one that falls silent, or lets nothing through, is given up for the relay",
          "[relay]") {
  for (const bool stalls : {false, true}) {
    HolePunch punch(true);
    CHECK(punch.WantsMeeting(At(0)));
    CHECK(punch.OnMeet(At(0)));
    CHECK_FALSE(punch.OnStalled(At(1)));  // the relay stalls then
    CHECK(punch.OnHeard(At(1)));
    CHECK((stalls ? punch.OnStalled(At(8.5)) : punch.Tick(At(8.5))));
    CHECK(punch.state() == State::kNone);
    CHECK_FALSE(punch.WantsMeeting(At(20)));
    CHECK(punch.WantsMeeting(At(24)));
  }
}

TEST_CASE("HolePunch: a relay that introduces all the time is not followed", "[relay]") {
  HolePunch punch(false);
  CHECK(punch.OnMeet(At(0)));
  CHECK_FALSE(punch.OnMeet(At(1)));
  CHECK(punch.OnHeard(At(1)));
  CHECK(punch.OnStalled(At(2)));
  CHECK_FALSE(punch.OnMeet(At(3)));
  CHECK(punch.OnMeet(At(6)));
}

TEST_CASE("PunchPort: both ends work out the same, every stripe and direction has its own",
          "[relay]") {
  std::set<uint16_t> ports;
  for (StripeId stripe = 0; stripe <= kControlWire; ++stripe) {
    for (const auto& [from, to] : {std::pair(kAnn, kBob), std::pair(kBob, kAnn)}) {
      const uint16_t port = PunchPort(from, to, stripe);
      CHECK(port >= 20'000);
      CHECK(port < 32'768);
      CHECK(ports.insert(port).second);
    }
  }
  std::set<uint16_t> others;
  for (uint32_t i = 10; i < 30; ++i) others.insert(PunchPort(kAnn, TestNodeId(i), 0));
  CHECK(others.size() > 15);
}

TEST_CASE("PunchEndpoint: dials addresses of other machines only", "[relay]") {
  CHECK(PunchEndpoint("203.0.113.7", 20'001, 20'002) == "tcp://0.0.0.0:20001;203.0.113.7:20002");
  CHECK(PunchEndpoint("::ffff:203.0.113.7", 1, 2) == "tcp://0.0.0.0:1;203.0.113.7:2");
  CHECK(PunchEndpoint("2001:db8::7", 1, 2) == "tcp://[::]:1;[2001:db8::7]:2");
  for (const char* bad : {"", "host.example", "127.0.0.1", "127.9.9.9", "0.0.0.0", "224.0.0.1",
                          "255.255.255.255", "169.254.1.1", "::1", "::", "fe80::1", "ff02::1",
                          "::ffff:127.0.0.1", "203.0.113.7:80", "203.0.113.7;1.2.3.4"}) {
    INFO(bad);
    CHECK_FALSE(PunchEndpoint(bad, 1, 2));
  }
}

TEST_CASE("RelayMeet: decoded as encoded, nothing longer than an address", "[relay]") {
  for (const std::string seen : {"", "203.0.113.7", "2001:db8::7"}) {
    const Bytes part = EncodeRelay(RelayMeet{kAnn, seen});
    const auto message = DecodeRelay(part);
    REQUIRE(message);
    CHECK(std::get<RelayMeet>(*message) == RelayMeet{kAnn, seen});
  }
  CHECK(DecodeRelay(EncodeRelay(RelayMeet{kAnn, std::string(kSeenBytesMax, '1')})));
  CHECK_FALSE(DecodeRelay(EncodeRelay(RelayMeet{kAnn, std::string(kSeenBytesMax + 1, '1')})));
  CHECK_FALSE(DecodeRelay(EncodeRelay(RelayMeet{NodeId(), "203.0.113.7"})));
}

TEST_CASE("RelayDesk: introduces the ends of a pair, now and then, and nobody else", "[relay]") {
  RelayDesk desk;
  std::vector<RelayDesk::Notice> said;
  desk.Attach(At(0), kAnn, "ann", {kBob, kControlWire}, said);
  CHECK_FALSE(desk.Meet(At(0), kAnn, "ann", kBob));  // Bob is not there
  desk.Attach(At(1), kBob, "bob", {kAnn, kControlWire}, said);
  desk.Attach(At(1), kBob, "bulk", {kAnn, 0}, said);
  CHECK(desk.Meet(At(1), kAnn, "ann", kBob) == "bob");
  CHECK_FALSE(desk.Meet(At(2), kAnn, "ann", kBob));
  CHECK(desk.Meet(At(2), kBob, "bob", kAnn) == "ann");
  CHECK(desk.Meet(At(7), kAnn, "ann", kBob) == "bob");
  CHECK(desk.refused() == 0);
  CHECK_FALSE(desk.Meet(At(20), kEve, "ann", kBob));
  CHECK_FALSE(desk.Meet(At(20), kAnn, "ann", kEve));
  CHECK_FALSE(desk.Meet(At(20), kBob, "bulk", kAnn));
  CHECK_FALSE(desk.Meet(At(20), kEve, "eve", kBob));
  CHECK(desk.refused() == 4);
}

}  // namespace
}  // namespace skerry
