#include "wire/transport/handshake_budget.h"

#include <catch2/catch.hpp>

using namespace skerry;

namespace {

Instant At(double seconds) {
  return Instant() + Duration::Seconds(seconds);
}

int TakenAtOnce(HandshakeBudget& budget, Instant now, const std::string& address) {
  int taken = 0;
  for (; taken < 10'000 && budget.Allows(now, address); ++taken) budget.Charge(now, address);
  return taken;
}

}  // namespace

TEST_CASE("Handshakes: an address has its burst, then so many a second, and others have their own",
          "[wire][security]") {
  HandshakeBudget budget;
  CHECK(TakenAtOnce(budget, At(1), "10.0.0.1") == static_cast<int>(HandshakeBudget::kBurst));
  CHECK_FALSE(budget.Allows(At(1.1), "10.0.0.1"));
  CHECK(TakenAtOnce(budget, At(3), "10.0.0.1") ==
        static_cast<int>(2 * HandshakeBudget::kPerSecond));
  CHECK(budget.Allows(At(3), "10.0.0.2"));
}

TEST_CASE("Handshakes: what was asked about and never came to its end costs nothing",
          "[wire][security]") {
  HandshakeBudget budget;
  for (int i = 0; i < 10'000; ++i) CHECK(budget.Allows(At(1), "10.0.0.1"));
}

TEST_CASE("Handshakes: those under way when the bucket is empty are owed", "[wire][security]") {
  constexpr double kDebt = 40;
  HandshakeBudget budget;
  for (double i = 0; i < HandshakeBudget::kBurst + kDebt; ++i) budget.Charge(At(1), "10.0.0.1");
  CHECK_FALSE(budget.Allows(At(1 + kDebt / HandshakeBudget::kPerSecond), "10.0.0.1"));
  CHECK(budget.Allows(At(1 + (kDebt + 1) / HandshakeBudget::kPerSecond), "10.0.0.1"));
}

TEST_CASE("Handshakes: what is kept of addresses is bounded, quiet ones make room",
          "[wire][security]") {
  HandshakeBudget budget;
  const auto name = [](size_t i) { return "10.1." + std::to_string(i); };
  for (size_t i = 0; i < 2 * HandshakeBudget::kAddressesMax; ++i) budget.Charge(At(1), name(i));
  CHECK(budget.addresses() == HandshakeBudget::kAddressesMax);
  CHECK_FALSE(budget.Allows(At(1), "one more"));  // the shared bucket is spent
  CHECK(budget.Allows(At(1 + 2 * HandshakeBudget::kBurst), "one more"));
  CHECK(budget.addresses() == 1);
}
