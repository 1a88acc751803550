// What a connection that broke has swallowed, and how soon it is there after all.
#include <catch2/catch.hpp>
#include <numeric>

#include "couriers.h"

namespace skerry {
namespace {

constexpr uint64_t kLost = 60;

Nonces UpTo(uint64_t count) {
  Nonces all(count);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// Alice has said so many things at 0 s; nothing of it arrived.
Sent LoseMany(Courier& alice, uint64_t count) {
  Sent lost;
  for (uint64_t i = 0; i < count; ++i) alice.Send(At(0), kBob, Share(Note(i)), lost);
  return lost;
}

// Each has heard of the other, and nothing is owed.
void Meet(Courier& alice, Courier& bob) {
  Hand(bob, kAlice, At(0), SendOne(alice, At(0), kBob, 99));
  Hand(alice, kBob, At(0), SendOne(bob, At(0), kAlice, 99));
}

// From now on all arrives, after 50 ms each way. What Bob is given, until nothing is on its way.
Nonces Talk(Courier& alice, Courier& bob, Instant& now, Sent to_bob) {
  Nonces given;
  Sent to_alice;
  while (!to_bob.empty() || !to_alice.empty()) {
    now = now + Duration::Millis(50);
    const Heard heard = Hand(bob, kAlice, now, to_bob);
    given.insert(given.end(), heard.nonces.begin(), heard.nonces.end());
    Sent answers = heard.answers;
    bob.Tick(now + Duration::Millis(20), answers);
    to_bob = Hand(alice, kBob, now, to_alice).answers;
    to_alice = answers;
  }
  return given;
}

TEST_CASE("Courier: a burst of losses is repeated as fast as acknowledgements come",
          "[wire][courier]") {
  Courier alice(Options(11)), bob(Options(22));
  LoseMany(alice, kLost);

  Instant now = *alice.NextDue();
  CHECK(now == At(8));
  Sent repeated;
  alice.Tick(now, repeated);
  CHECK(repeated.size() == 4);  // nobody knows whether there is a way
  CHECK(Talk(alice, bob, now, repeated) == UpTo(kLost));
  CHECK(now < At(9));
  CHECK(bob.refused() == 0);  // and nothing twice
}

TEST_CASE("Courier: a peer that speaks but acknowledges nothing for two seconds has not got it",
          "[wire][courier]") {
  Courier alice(Options(11)), bob(Options(22));
  Meet(alice, bob);
  LoseMany(alice, kLost);

  CHECK(Hand(alice, kBob, At(1.9), SendOne(bob, At(1.9), kAlice, 0)).answers.empty());
  Instant now = At(2.1);
  const Sent repeated = Hand(alice, kBob, now, SendOne(bob, now, kAlice, 1)).answers;
  CHECK(repeated.size() == 4);
  CHECK(Talk(alice, bob, now, repeated) == UpTo(kLost));
  CHECK(now < At(3));
}

TEST_CASE("Courier: who has backed off from a silent peer does not once it speaks again",
          "[wire][courier]") {
  Courier alice(Options(11)), bob(Options(22));
  Meet(alice, bob);
  LoseMany(alice, kLost);
  for (const double due : {8, 24}) {
    Sent out;
    alice.Tick(At(due), out);
    CHECK(out.size() == 4);
  }
  Instant now = At(30);  // the next would be at 54 s
  CHECK(Talk(alice, bob, now, Hand(alice, kBob, now, SendOne(bob, now, kAlice, 1)).answers) ==
        UpTo(kLost));
  CHECK(now < At(31));
}

TEST_CASE("Courier: what went another way is repeated at once when told so", "[wire][courier]") {
  Courier alice(Options(11)), bob(Options(22));
  LoseMany(alice, kLost);
  Sent repeated;
  Instant now = At(0.5);
  alice.RepeatLost(now, kBob, false, repeated);
  CHECK(Talk(alice, bob, now, repeated) == UpTo(kLost));
  CHECK(now < At(1.5));
}

TEST_CASE("Courier: bulk that is late is repeated four at a time, and all of it when it is lost",
          "[wire][courier]") {
  Courier alice(Options(11)), bob(Options(22));
  Meet(alice, bob);
  constexpr size_t kDeltas = 12;
  Sent lost;
  for (size_t i = 0; i < kDeltas; ++i) alice.Send(At(0), kBob, Share(Delta{}), lost);
  REQUIRE(lost.back().frame.header.lane != 0);

  const auto deltas_after = [&](Sent out) {
    size_t deltas = 0;
    for (Instant now = At(9); !out.empty();) {
      Sent acks;
      for (const auto& one : out) {
        deltas += one.frame.message != nullptr ? 1 : 0;
        bob.OnFrame(now, kAlice, one.frame, acks);
      }
      now = now + Duration::Millis(50);
      bob.Tick(now, acks);
      out = Hand(alice, kBob, now, acks).answers;
    }
    return deltas;
  };
  SECTION("late: what follows may still be under way") {
    Sent out;
    alice.Tick(At(8), out);
    CHECK(deltas_after(out) == 4);
  }
  SECTION("lost") {
    Sent out;
    alice.RepeatLost(At(1), kBob, true, out);
    CHECK(deltas_after(out) == kDeltas);
  }
}

}  // namespace
}  // namespace skerry
