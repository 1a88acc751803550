#include "couriers.h"

#include <catch2/catch.hpp>

#include "common/rng.h"

namespace skerry {
namespace {

TEST_CASE("Courier: a message arrives once, however often its frame does", "[wire][courier]") {
  Courier alice(Options(11)), bob(Options(22));
  const Sent frames = SendOne(alice, At(0), kBob, 5);

  CHECK(Hand(bob, kAlice, At(0), frames).nonces == Nonces{5});
  CHECK(Hand(bob, kAlice, At(1), frames).nonces.empty());
  CHECK(bob.refused() == 1);
}

TEST_CASE("Courier: frames that come in another order are delivered in the order of sending",
          "[wire][courier]") {
  Courier alice(Options(11)), bob(Options(22));
  const Sent one = SendOne(alice, At(0), kBob, 1);
  const Sent two = SendOne(alice, At(0), kBob, 2);
  const Sent three = SendOne(alice, At(0), kBob, 3);

  CHECK(Hand(bob, kAlice, At(0), three).nonces.empty());
  CHECK(Hand(bob, kAlice, At(0), one).nonces == Nonces{1});
  CHECK(Hand(bob, kAlice, At(0), two).nonces == Nonces{2, 3});
}

TEST_CASE(
    "Courier: what is lost is repeated after 8, then 16, then 30 seconds, until it is "
    "acknowledged",
    "[wire][courier]") {
  Courier alice(Options(11)), bob(Options(22));
  SendOne(alice, At(0), kBob, 1);
  std::vector<double> repeats;
  for (int i = 0; i < 4; ++i) {
    const Instant due = *alice.NextDue();
    Sent out;
    alice.Tick(due, out);
    REQUIRE(out.size() == 1);
    repeats.push_back((due - Instant()).seconds());
    if (i < 3) continue;
    Hand(bob, kAlice, due, out);
    Sent acks;
    bob.Tick(*bob.NextDue(), acks);
    REQUIRE(acks.size() == 1);
    Hand(alice, kBob, due, acks);
  }
  CHECK(repeats == std::vector<double>{8, 24, 54, 84});
  CHECK(alice.Unacknowledged(kBob) == 0);
  CHECK_FALSE(alice.NextDue());
}

TEST_CASE("Courier: every sixteenth frame is acknowledged at once, a single one after 20 ms",
          "[wire][courier]") {
  Courier alice(Options(11)), bob(Options(22));
  Sent frames;
  for (uint64_t i = 0; i < 15; ++i) alice.Send(At(0), kBob, Share(Note(i)), frames);
  CHECK(Hand(bob, kAlice, At(0), frames).answers.empty());
  CHECK(*bob.NextDue() == At(0.02));

  const Heard heard = Hand(bob, kAlice, At(0.01), SendOne(alice, At(0), kBob, 15));
  REQUIRE(heard.answers.size() == 1);
  CHECK(heard.answers[0].frame.header.acknowledged == 16);
  CHECK_FALSE(heard.answers[0].frame.message);
  CHECK_FALSE(bob.NextDue());
}

TEST_CASE("Courier: what many peers are owed within 5 ms falls due at once", "[wire][courier]") {
  Courier bob(Options(22));
  constexpr int kPeers = 40;
  for (int i = 0; i < kPeers; ++i) {
    NodeId peer;
    peer.bytes[0] = static_cast<uint8_t>(i + 1);
    Courier alice(Options(11));
    const Instant now = At(0.001) + Duration::Micros(100) * i;
    CHECK(Hand(bob, peer, now, SendOne(alice, now, kBob, 1)).answers.empty());
  }
  CHECK(*bob.NextDue() == At(0.025));
  Sent acks;
  bob.Tick(At(0.025), acks);
  CHECK(acks.size() == kPeers);
  CHECK_FALSE(bob.NextDue());
}

TEST_CASE("Courier: frames of another run and without incarnation are refused",
          "[wire][courier][error]") {
  Courier bob(Options(22));
  Frame frame;
  frame.header = {kRun, 11, 0, 1, 0};
  frame.message = Share(Note(1));
  SECTION("another run") {
    frame.header.run = RunId();
  }
  SECTION("no incarnation") {
    frame.header.sender_incarnation = 0;
  }
  Sent out;
  CHECK(bob.OnFrame(At(0), kAlice, frame, out).messages.empty());
  CHECK(bob.refused() == 1);
  CHECK(out.empty());
}

TEST_CASE("Courier: neither a silent peer nor a hasty one makes it hold more than its bounds",
          "[wire][courier][error]") {
  Courier alice(Options(11)), bob(Options(22));
  Sent frames;
  for (uint64_t i = 0; i < Courier::kOutboxMax + 10; ++i)
    alice.Send(At(0), kBob, Share(Note(i)), frames);
  CHECK(alice.Unacknowledged(kBob) == Courier::kOutboxMax);
  CHECK(frames.size() == Courier::kOutboxMax);

  Frame far;
  far.header = {kRun, 11, 0, Courier::kEarlyMax + 1, 0};
  far.message = Share(Note(0));
  Sent out;
  bob.OnFrame(At(0), kAlice, far, out);
  CHECK(bob.refused() == 1);
}

// Both directions over a network that loses a third, doubles a third and shuffles.
TEST_CASE("Courier: everything arrives once and in order over a bad network", "[wire][courier]") {
  const uint64_t seed = GENERATE(1, 2, 3, 4, 5);
  Rng rng(seed, "bad network");
  Courier alice(Options(11)), bob(Options(22));
  constexpr uint64_t kMessages = 60;
  struct Flying {
    Instant due;
    bool to_bob;
    Frame frame;
  };
  std::vector<Flying> flying;
  Nonces at_alice, at_bob;
  Instant now = At(0);
  const auto launch = [&](const Sent& frames, bool to_bob) {
    for (const auto& outgoing : frames) {
      for (uint64_t copies = rng.Below(3); copies > 0; --copies)
        flying.push_back(
            {now + Duration::Millis(static_cast<int64_t>(rng.Below(200))), to_bob, outgoing.frame});
    }
  };
  for (uint64_t i = 0; i < kMessages; ++i) {
    launch(SendOne(alice, now, kBob, i), true);
    launch(SendOne(bob, now, kAlice, i), false);
  }
  for (int turn = 0; turn < 20000 && (at_alice.size() < kMessages || at_bob.size() < kMessages);
       ++turn) {
    now = now + Duration::Millis(50);
    std::vector<Flying> landed;
    std::erase_if(flying, [&](const Flying& f) {
      if (f.due <= now) landed.push_back(f);
      return f.due <= now;
    });
    for (const Flying& f : landed) {
      const Heard heard = Hand(f.to_bob ? bob : alice, f.to_bob ? kAlice : kBob, now,
                               {{f.to_bob ? kBob : kAlice, f.frame}});
      auto& list = f.to_bob ? at_bob : at_alice;
      list.insert(list.end(), heard.nonces.begin(), heard.nonces.end());
      launch(heard.answers, !f.to_bob);
    }
    Sent a, b;
    alice.Tick(now, a);
    bob.Tick(now, b);
    launch(a, true);
    launch(b, false);
  }
  Nonces all(kMessages);
  for (uint64_t i = 0; i < kMessages; ++i) all[i] = i;
  CHECK(at_alice == all);
  CHECK(at_bob == all);
}

Message Bulk(int64_t round) {
  Delta delta;
  delta.round = round;
  return delta;
}

// Both have heard from each other.
void Meet(Courier& alice, Courier& bob) {
  Hand(bob, kAlice, At(0), SendOne(alice, At(0), kBob, 1000));
  Hand(alice, kBob, At(0), SendOne(bob, At(0), kAlice, 1001));
}

TEST_CASE("Courier: a note does not wait for a delta that was sent before it", "[wire][courier]") {
  Courier alice(Options(11)), bob(Options(22));
  Meet(alice, bob);
  Sent delta;
  alice.Send(At(1), kBob, Share(Bulk(1)), delta);
  REQUIRE(delta.size() == 1);
  CHECK(delta[0].frame.header.lane == static_cast<uint8_t>(TrafficClass::kDelta));
  const Sent note = SendOne(alice, At(1), kBob, 2);
  CHECK(Hand(bob, kAlice, At(1), note).nonces == Nonces{2});
  Sent answers;
  CHECK(bob.OnFrame(At(1), kAlice, delta[0].frame, answers).messages.size() == 1);
}

TEST_CASE("Courier: order holds within a class, and each class is repeated by itself",
          "[wire][courier]") {
  Courier alice(Options(11)), bob(Options(22));
  Meet(alice, bob);
  Sent deltas, answers;
  for (int64_t i = 0; i < 3; ++i) alice.Send(At(1), kBob, Share(Bulk(i)), deltas);
  CHECK(bob.OnFrame(At(1), kAlice, deltas[2].frame, answers).messages.empty());
  CHECK(bob.OnFrame(At(1), kAlice, deltas[1].frame, answers).messages.empty());
  const auto delivered = bob.OnFrame(At(1), kAlice, deltas[0].frame, answers);
  REQUIRE(delivered.messages.size() == 3);
  for (size_t i = 0; i < 3; ++i)
    CHECK(std::get<Delta>(*delivered.messages[i]).round == static_cast<int64_t>(i));
  // Alice hears of none of it, and repeats deltas only: her note was acknowledged.
  Sent repeats;
  alice.Tick(At(9.5), repeats);
  REQUIRE_FALSE(repeats.empty());
  for (const auto& repeat : repeats) {
    if (repeat.frame.message) CHECK(repeat.frame.header.lane == deltas[0].frame.header.lane);
  }
}

TEST_CASE("Courier: to who is not known to understand lanes everything goes in the first",
          "[wire][courier]") {
  CourierOptions old = Options(22);
  old.speaks = 1;
  Courier alice(Options(11)), bob(old);
  Sent first;
  alice.Send(At(0), kBob, Share(Bulk(0)), first);
  CHECK(first[0].frame.header.lane == 0);
  Meet(alice, bob);
  CHECK(alice.FormatFor(kBob) == 1);
  Sent later;
  alice.Send(At(1), kBob, Share(Bulk(1)), later);
  CHECK(later[0].frame.header.lane == 0);
}

TEST_CASE("Courier: a lane that does not exist is refused", "[wire][courier][hostile]") {
  Courier alice(Options(11)), bob(Options(22));
  Sent frames = SendOne(alice, At(0), kBob, 1);
  frames[0].frame.header.lane = kTrafficClasses;
  CHECK(Hand(bob, kAlice, At(0), frames).nonces.empty());
  CHECK(bob.refused() == 1);
}

}  // namespace
}  // namespace skerry
