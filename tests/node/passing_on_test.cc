#include "node/passing_on.h"

#include <catch2/catch.hpp>

using namespace skerry;

namespace {

const NodeId kSender = TestNodeId(1), kSecond = TestNodeId(2), kThird = TestNodeId(3);

}  // namespace

TEST_CASE("PassingOn: whoever is heard is asked in turn, the sender never", "[node][cohorts]") {
  PassingOn passing;
  passing.Lost(kSender);
  CHECK(!passing.HearsAll());
  const std::vector<NodeId> candidates = {kSecond, kSender, kThird};
  CHECK(!passing.HasAsked(kSender, 5));
  CHECK(passing.AskNext(kSender, 5, candidates) == kSecond);
  CHECK(passing.HasAsked(kSender, 5));
  CHECK(passing.HasAsked(kSecond, kSender, 5));
  CHECK(!passing.HasAsked(kThird, kSender, 5));
  CHECK(!passing.HasAsked(kSecond, kSender, 6));
  CHECK(passing.AskNext(kSender, 5, candidates) == kThird);
  CHECK(passing.AskNext(kSender, 5, candidates) == kSecond);
  CHECK(passing.HasAsked(kThird, kSender, 5));  // its answer may be on its way
  passing.Lost(kSecond);
  passing.Lost(kThird);
  CHECK(!passing.AskNext(kSender, 5, candidates));
  passing.Heard(kThird);
  CHECK(passing.AskNext(kSender, 5, candidates) == kThird);
}

TEST_CASE("PassingOn: each who asks is given a delta once", "[node][cohorts]") {
  PassingOn passing;
  CHECK(passing.Wants(kSecond, kSender, 5));
  CHECK(!passing.Wants(kSecond, kSender, 5));
  CHECK(passing.Wants(kThird, kSender, 5));
  CHECK(passing.TakeAskers(kSender, 4).empty());
  CHECK(passing.TakeAskers(kSender, 5) == std::vector<NodeId>{kSecond, kThird});
  CHECK(passing.TakeAskers(kSender, 5).empty());
  CHECK(!passing.Wants(kSecond, kSender, 5));
  CHECK(passing.TakeAskers(kSender, 5).empty());
}

TEST_CASE("PassingOn: what is over is forgotten, and so much may be asked", "[node][cohorts]") {
  PassingOn passing;
  for (size_t i = 0; i < PassingOn::kAskersMax; ++i)
    CHECK(passing.Wants(TestNodeId(static_cast<uint32_t>(10 + i)), kSender, 5));
  CHECK(!passing.Wants(kSecond, kSender, 5));
  CHECK(!passing.Wants(kSecond, kSender, 6));
  passing.ForgetBelow(6);
  CHECK(passing.Wants(kSecond, kSender, 6));
  CHECK(passing.TakeAskers(kSender, 5).empty());
}
