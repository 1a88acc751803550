#include "wire/transport/handshake_budget.h"

#include <catch2/catch.hpp>

using namespace skerry;

namespace {

Instant At(double seconds) {
  return Instant() + Duration::Seconds(seconds);
}

int TakenAtOnce(HandshakeBudget& budget, Instant now, const std::string& address) {
  int taken = 0;
  while (taken < 10'000 && budget.Take(now, address)) ++taken;
  return taken;
}

}  // namespace

TEST_CASE("Handshakes: an address has its burst, then so many a second, and others have their own",
          "[wire][security]") {
  HandshakeBudget budget;
  CHECK(TakenAtOnce(budget, At(1), "10.0.0.1") == static_cast<int>(HandshakeBudget::kBurst));
  CHECK_FALSE(budget.Take(At(1.1), "10.0.0.1"));
  CHECK(TakenAtOnce(budget, At(3), "10.0.0.1") ==
        static_cast<int>(2 * HandshakeBudget::kPerSecond));
  CHECK(budget.Take(At(3), "10.0.0.2"));
}

TEST_CASE("Handshakes: what is kept of addresses is bounded, quiet ones make room",
          "[wire][security]") {
  HandshakeBudget budget;
  const auto name = [](size_t i) { return "10.1." + std::to_string(i); };
  for (size_t i = 0; i < 2 * HandshakeBudget::kAddressesMax; ++i) budget.Take(At(1), name(i));
  CHECK(budget.addresses() == HandshakeBudget::kAddressesMax);
  CHECK_FALSE(budget.Take(At(1), "one more"));  // the shared bucket is spent
  CHECK(budget.Take(At(1 + HandshakeBudget::kBurst), "one more"));
  CHECK(budget.addresses() == 1);
}
