#include "wire/transport/connection_budget.h"

#include <catch2/catch.hpp>

#include "wire/transport/connection_reading.h"
#include "wire/transport/peer_address.h"

using namespace skerry;

namespace {

constexpr size_t kMany = 1'000'000;
const int kYoungMax = static_cast<int>(ConnectionBudget::kYoungMax);

Instant At(double seconds) {
  return Instant() + Duration::Seconds(seconds);
}

}  // namespace

TEST_CASE("Connections: an address holds so many young ones, and others have their own",
          "[wire][security]") {
  ConnectionBudget budget(kMany);
  for (int i = 0; i < kYoungMax; ++i) CHECK(budget.Accept(At(1), i, "10.0.0.1"));
  CHECK_FALSE(budget.Accept(At(2), kYoungMax, "10.0.0.1"));
  CHECK(budget.Accept(At(2), kYoungMax, "10.0.0.2"));
  CHECK(budget.refused() == 1);
  SECTION("one that ended makes room, once") {
    budget.End(7);
    budget.End(7);
    CHECK(budget.Accept(At(3), 7, "10.0.0.1"));
    CHECK_FALSE(budget.Accept(At(3), kYoungMax + 1, "10.0.0.1"));
  }
  SECTION("one whose number came again has ended, though nobody said so") {
    CHECK(budget.Accept(At(3), 7, "10.0.0.3"));
    CHECK(budget.Accept(At(3), kYoungMax + 1, "10.0.0.1"));
  }
  SECTION("those that have outlived a handshake are nobody's") {
    CHECK(budget.Accept(At(11), kYoungMax + 1, "10.0.0.1"));
    CHECK(budget.young() == 2);
  }
}

TEST_CASE("Connections: all addresses together hold no more than the process has files for",
          "[wire][security]") {
  ConnectionBudget budget(100);
  for (int i = 0; i < 100; ++i) CHECK(budget.Accept(At(1), i, "10.1.0." + std::to_string(i)));
  CHECK_FALSE(budget.Accept(At(1), 100, "10.2.0.1"));
  CHECK(budget.young() == 100);
  CHECK(budget.Accept(At(11), 100, "10.2.0.1"));
}

TEST_CASE("Connections: a subscriber's IPv6 network counts as one address", "[wire][security]") {
  CHECK(AddressBlock("2001:db8:1:2:3:4:5:6") == "2001:db8:1:2::/64");
  CHECK(AddressBlock("2001:db8:1:2::9") == "2001:db8:1:2::/64");
  CHECK(AddressBlock("2001:db8:1:3::9") == "2001:db8:1:3::/64");
  CHECK(AddressBlock("::ffff:192.0.2.7") == "192.0.2.7");
  CHECK(AddressBlock("192.0.2.7") == "192.0.2.7");
  CHECK(AddressBlock("no address") == "no address");
}

TEST_CASE("Connections: what is none has no other end", "[wire][security]") {
  CHECK(PeerBlock(-1).empty());
  CHECK(PeerBlock(0).empty());
  CHECK_FALSE(ReadConnection(-1));
  CHECK_FALSE(ReadConnection(0));
}
