// When a wait is late.

#include "pipeline/exec/lateness.h"

#include <catch2/catch.hpp>

using namespace skerry;

namespace {

Instant At(double s) {
  return Instant() + Duration::Seconds(s);
}

Lateness Fresh() {
  return Lateness({Duration::Seconds(4), Duration::Seconds(1), 10});
}

}  // namespace

TEST_CASE("Lateness: never before the floor, however fast the answers were", "[exec]") {
  Lateness lateness = Fresh();
  lateness.Note(0, Duration::Millis(20));
  CHECK(lateness.Patience().seconds() == 4);
  CHECK(lateness.ReportAfter().seconds() == 2);
}

TEST_CASE("Lateness: four times the longest answer, of two stretches of steps", "[exec]") {
  Lateness lateness = Fresh();
  lateness.Note(3, Duration::Seconds(2));
  lateness.Note(9, Duration::Seconds(1));
  CHECK(lateness.Patience().seconds() == 8);
  lateness.Note(19, Duration::Seconds(0.1));
  CHECK(lateness.Patience().seconds() == 8);
  lateness.Note(20, Duration::Seconds(0.1));
  CHECK(lateness.Patience().seconds() == 4);
}

TEST_CASE("Lateness: patience grows by a quarter from stretch to stretch at most", "[exec]") {
  Lateness lateness = Fresh();
  lateness.Note(3, Duration::Seconds(2));
  lateness.Note(12, Duration::Seconds(60));
  CHECK(lateness.Patience().seconds() == 10);
  lateness.Note(23, Duration::Seconds(60));
  CHECK(lateness.Patience().seconds() == 12.5);
}

// Seed 95 of the fourth draw: a link was slow before anything had been answered, and its 36 s made
// a patience of 145 s with microbatches that take one second.
TEST_CASE("Lateness: what is slow from the beginning counts for four times the shortest answer",
          "[exec]") {
  Lateness lateness = Fresh();
  lateness.Note(0, Duration::Seconds(36));
  CHECK(lateness.Patience().seconds() == 4 * 36);
  lateness.Note(0, Duration::Seconds(1));
  CHECK(lateness.Patience().seconds() == 4 * 4);
  lateness.Note(5, Duration::Seconds(36));
  CHECK(lateness.Patience().seconds() == 4 * 4);
  lateness.Note(10, Duration::Seconds(36));
  CHECK(lateness.Patience().seconds() == 4 * 5);
}

TEST_CASE("Lateness: what nothing is known of is waited for longer, by who decides", "[exec]") {
  const Lateness lateness = Fresh();
  CHECK(lateness.Patience().seconds() == 48);
  CHECK(lateness.ReportAfter().seconds() == 2);
}

TEST_CASE("Lateness: what the plan says to take long is not late before there are answers",
          "[exec]") {
  const Lateness slow({Duration::Seconds(4), Duration::Seconds(1), 10, Duration::Seconds(90)});
  CHECK(slow.Patience().seconds() == 4 * 90);
  const Lateness fast({Duration::Seconds(4), Duration::Seconds(1), 10, Duration::Seconds(2)});
  CHECK(fast.Patience().seconds() == 48);
  Lateness known = slow;
  known.Note(0, Duration::Seconds(3));
  CHECK(known.Patience().seconds() == 12);
}

TEST_CASE("Lateness: every attempt given up doubles the patience with the next", "[exec]") {
  Lateness lateness = Fresh();
  lateness.Note(0, Duration::Millis(20));
  CHECK(lateness.Patience(1).seconds() == 8);
  CHECK(lateness.Patience(3).seconds() == 32);
  CHECK(lateness.Patience(1000).seconds() == 4 * 64);
}

TEST_CASE("Lateness: time in which the process stood still is no waiting", "[exec]") {
  Lateness lateness = Fresh();
  lateness.Tick(At(1));
  lateness.Tick(At(2.3));
  CHECK(lateness.Clock(At(2.3)) == At(2.3));

  lateness.Tick(At(32.3));

  CHECK(lateness.Clock(At(32.3)) == At(3.3));
  lateness.Tick(At(33.3));
  CHECK(lateness.Clock(At(33.3)) == At(4.3));
}

TEST_CASE("Lateness: a clock that is set back does not undo a wait", "[exec]") {
  Lateness lateness = Fresh();
  lateness.Tick(At(100));
  lateness.Tick(At(41));
  CHECK(lateness.Clock(At(41)) == At(101));
}
