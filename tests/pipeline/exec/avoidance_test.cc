// Who is avoided, and when it is trusted again.

#include "pipeline/exec/avoidance.h"

#include <catch2/catch.hpp>

using namespace skerry;

namespace {

const NodeId kNode = TestNodeId(7);

Instant At(double s) {
  return Instant() + Duration::Seconds(s);
}

// Found late at 10 s: avoided until 20 s.
Avoidance OneLate() {
  Avoidance avoidance(Duration::Seconds(10));
  avoidance.OnLate(kNode, 3, At(0), At(10));
  return avoidance;
}

}  // namespace

TEST_CASE("Avoidance: who was late is avoided for a while, nobody else is", "[exec]") {
  Avoidance avoidance = OneLate();
  CHECK(avoidance.Avoids(kNode, {1, 0}, At(19)));
  CHECK_FALSE(avoidance.Avoids(TestNodeId(8), {1, 0}, At(19)));
}

TEST_CASE("Avoidance: then one microbatch tries it, the others wait for how that ends", "[exec]") {
  Avoidance avoidance = OneLate();
  CHECK_FALSE(avoidance.Avoids(kNode, {5, 1}, At(20)));
  CHECK(avoidance.Avoids(kNode, {5, 2}, At(20)));
  CHECK_FALSE(avoidance.Avoids(kNode, {5, 1}, At(21)));

  SECTION("over in time: trusted again") {
    avoidance.OnOver({5, 1}, At(22));
    CHECK_FALSE(avoidance.Avoids(kNode, {5, 2}, At(22)));
  }
  SECTION("late again: avoided for twice as long") {
    avoidance.OnLate(kNode, 3, At(20), At(30));
    CHECK(avoidance.Avoids(kNode, {5, 2}, At(49)));
    CHECK_FALSE(avoidance.Avoids(kNode, {5, 2}, At(50)));
  }
  SECTION("given up for another reason: another tries it") {
    avoidance.OnGivenUp({5, 1});
    CHECK_FALSE(avoidance.Avoids(kNode, {5, 2}, At(22)));
  }
}

TEST_CASE("Avoidance: what was under way when a node was found late says nothing new", "[exec]") {
  Avoidance avoidance = OneLate();
  avoidance.OnLate(kNode, 3, At(9), At(15));
  CHECK_FALSE(avoidance.Avoids(kNode, {5, 1}, At(20)));
}

TEST_CASE("Avoidance: late soon after it was trusted again counts double, later anew", "[exec]") {
  Avoidance avoidance = OneLate();
  CHECK_FALSE(avoidance.Avoids(kNode, {5, 1}, At(20)));
  avoidance.OnOver({5, 1}, At(22));
  SECTION("soon") {
    avoidance.OnLate(kNode, 3, At(30), At(40));
    CHECK(avoidance.Avoids(kNode, {9, 0}, At(40 + 19)));
  }
  SECTION("later") {
    avoidance.OnLate(kNode, 3, At(190), At(200));
    CHECK(avoidance.Avoids(kNode, {9, 0}, At(200 + 9)));
    CHECK_FALSE(avoidance.Avoids(kNode, {9, 0}, At(200 + 10)));
  }
}

TEST_CASE("Avoidance: it knows how far back who is avoided may be", "[exec]") {
  Avoidance avoidance = OneLate();
  CHECK(avoidance.OldestStep() == 3);
  avoidance.OnLate(kNode, 9, At(60), At(70));
  CHECK(avoidance.OldestStep() == 3);
  CHECK_FALSE(avoidance.Avoids(kNode, {20, 1}, At(1000)));
  avoidance.OnOver({20, 1}, At(1001));
  CHECK(avoidance.OldestStep() > 1'000'000);
  avoidance.OnLate(kNode, 21, At(1010), At(1020));
  CHECK(avoidance.OldestStep() == 21);
}

TEST_CASE("Avoidance: it is bounded", "[exec]") {
  Avoidance avoidance(Duration::Seconds(1));
  double now = 0;
  for (int i = 0; i < 40; ++i) {
    avoidance.OnLate(kNode, 3, At(now), At(now));
    now += 300;
    CHECK_FALSE(avoidance.Avoids(kNode, {i, 0}, At(now)));
  }
}

TEST_CASE("Avoidance: who was moved or declared dead is forgotten", "[exec]") {
  Avoidance avoidance = OneLate();
  avoidance.ForgetIf([](const NodeId& node) { return node == kNode; });
  CHECK_FALSE(avoidance.Avoids(kNode, {1, 0}, At(11)));
}
