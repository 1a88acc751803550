// Processes that forget, are replaced, or come back.
#include <catch2/catch.hpp>

#include "common/rng.h"
#include "couriers.h"

namespace skerry {
namespace {

TEST_CASE(
    "Courier: a restarted peer is reported once, and notes that the old one had not acknowledged "
    "are dropped",
    "[wire][courier]") {
  Courier alice(Options(11)), bob(Options(22));
  Hand(bob, kAlice, At(0), SendOne(alice, At(0), kBob, 1));
  Hand(alice, kBob, At(0), SendOne(bob, At(0), kAlice, 2));
  const Sent late_from_old_bob = SendOne(bob, At(0), kAlice, 3);
  SendOne(alice, At(0), kBob, 4);

  Courier bob_again(Options(33));
  const Heard heard = Hand(alice, kBob, At(1), SendOne(bob_again, At(1), kAlice, 5));
  CHECK(heard.restarts == 1);
  CHECK(heard.nonces == Nonces{5});
  CHECK(alice.Unacknowledged(kBob) == 0);

  const Heard stale = Hand(alice, kBob, At(2), late_from_old_bob);
  CHECK(stale.restarts == 0);
  CHECK(stale.nonces.empty());
  CHECK(Hand(bob_again, kAlice, At(2), SendOne(alice, At(2), kBob, 6)).nonces == Nonces{6});
}

TEST_CASE("Courier: who was replaced and lives can be told, as the next that it waits for",
          "[wire][courier]") {
  Courier alice(Options(kConversations)), bob(Options(2 * kConversations));
  Hand(bob, kAlice, At(0), SendOne(alice, At(0), kBob, 1));
  Hand(alice, kBob, At(0), SendOne(bob, At(0), kAlice, 2));
  Courier twin(Options(3 * kConversations));
  const Sent of_twin = SendOne(twin, At(1), kAlice, 3);
  Hand(alice, kBob, At(1), of_twin);
  CHECK_FALSE(alice.SessionWith(kBob)->IsOfReplaced(of_twin[0].frame.header));

  const Sent of_bob = SendOne(bob, At(2), kAlice, 4);
  REQUIRE(alice.SessionWith(kBob)->IsOfReplaced(of_bob[0].frame.header));
  const Sent told = {
      {kBob, alice.SessionWith(kBob)->AnswerReplaced(of_bob[0].frame.header, Share(Note(5)))}};

  CHECK(Hand(twin, kAlice, At(2), told).nonces.empty());  // where it comes to the wrong one
  CHECK(Hand(bob, kAlice, At(2), told).nonces == Nonces{5});
  CHECK(Hand(twin, kAlice, At(3), SendOne(alice, At(3), kBob, 6)).nonces == Nonces{6});
}

TEST_CASE("Courier: who was replaced and had not heard of who knows can be told, too",
          "[wire][courier]") {
  Courier alice(Options(kConversations)), bob(Options(2 * kConversations)),
      twin(Options(3 * kConversations));
  Hand(alice, kBob, At(0), SendOne(bob, At(0), kAlice, 1));
  Hand(alice, kBob, At(0), SendOne(twin, At(0), kAlice, 2));
  const Sent of_bob = SendOne(bob, At(1), kAlice, 3);
  REQUIRE(alice.SessionWith(kBob)->IsOfReplaced(of_bob[0].frame.header));
  const Sent told = {
      {kBob, alice.SessionWith(kBob)->AnswerReplaced(of_bob[0].frame.header, Share(Note(4)))}};
  CHECK(Hand(bob, kAlice, At(1), told).nonces == Nonces{4});
}

TEST_CASE("Courier: work sent to a process that was replaced meanwhile reaches the new one",
          "[wire][courier]") {
  Courier alice(Options(11)), bob(Options(22));
  Hand(bob, kAlice, At(0), SendOne(alice, At(0), kBob, 1));
  Hand(alice, kBob, At(0), SendOne(bob, At(0), kAlice, 2));
  Courier bob_again(Options(33));
  Sent for_old_bob;
  alice.Send(At(1), kBob, Share(MicrobatchVoid{.step = 7}), for_old_bob);
  alice.Send(At(1), kBob, Share(Note(3)), for_old_bob);
  alice.Send(At(1), kBob, Share(MicrobatchVoid{.step = 8}), for_old_bob);

  Sent refused, for_new_bob;
  for (const auto& sent : for_old_bob) bob_again.OnFrame(At(1), kAlice, sent.frame, refused);
  int restarts = 0;
  for (const auto& sent : refused) {
    restarts += alice.OnFrame(At(2), kBob, sent.frame, for_new_bob).restarted ? 1 : 0;
  }
  std::vector<int64_t> steps;
  for (const auto& sent : for_new_bob) {
    const auto delivered = bob_again.OnFrame(At(2), kAlice, sent.frame, refused);
    for (const SharedMessage& message : delivered.messages)
      steps.push_back(std::get<MicrobatchVoid>(*message).step);
  }

  CHECK(restarts == 1);
  CHECK(steps == std::vector<int64_t>{7, 8});
}

TEST_CASE(
    "Courier: frames meant for the process before are answered, so that the sender learns of "
    "the new one",
    "[wire][courier]") {
  Courier alice(Options(11)), bob(Options(22));
  Hand(bob, kAlice, At(0), SendOne(alice, At(0), kBob, 1));
  Hand(alice, kBob, At(0), SendOne(bob, At(0), kAlice, 2));

  Courier bob_again(Options(33));
  const Heard at_bob = Hand(bob_again, kAlice, At(1), SendOne(alice, At(1), kBob, 3));
  CHECK(at_bob.nonces.empty());
  REQUIRE(at_bob.answers.size() == 1);
  CHECK(Hand(alice, kBob, At(1), at_bob.answers).restarts == 1);
  CHECK(Hand(bob_again, kAlice, At(1), SendOne(alice, At(1), kBob, 4)).nonces == Nonces{4});
}

TEST_CASE("Courier: two that forgot each other half-way can talk again", "[wire][courier]") {
  Courier alice(Options(11)), bob(Options(22));
  Hand(bob, kAlice, At(0), SendOne(alice, At(0), kBob, 1));
  Hand(alice, kBob, At(0), SendOne(bob, At(0), kAlice, 2));

  alice.Forget(kBob);
  const Heard at_bob = Hand(bob, kAlice, At(1), SendOne(alice, At(1), kBob, 3));

  CHECK(at_bob.restarts == 1);
  CHECK(at_bob.nonces == Nonces{3});
  CHECK(Hand(alice, kBob, At(1), SendOne(bob, At(1), kAlice, 4)).nonces == Nonces{4});
}

TEST_CASE("Courier: of processes that take turns, one of an older epoch is not listened to",
          "[wire][courier]") {
  const uint64_t first = LedIncarnation(1, 0xffffffff12345678), second = LedIncarnation(2, 7);
  CHECK(EpochOf(first) == 1);
  CHECK(EpochOf(second) == 2);
  CHECK(EpochOf(12345) == 0);
  Courier node(Options(5)), old_leader(Options(first)), new_leader(Options(1));
  new_leader.SetIncarnation(second);
  CHECK(Hand(node, kAlice, At(0), SendOne(old_leader, At(0), kBob, 1)).nonces ==
        std::vector<uint64_t>{1});
  const Heard taken_over = Hand(node, kAlice, At(1), SendOne(new_leader, At(1), kBob, 2));
  CHECK(taken_over.restarts == 1);
  CHECK(taken_over.nonces == std::vector<uint64_t>{2});
  CHECK(Hand(node, kAlice, At(2), SendOne(old_leader, At(2), kBob, 3)).nonces.empty());
  // Not even as a process that this one has never heard of: it forgot its peer, or it is a third.
  old_leader.Forget(kBob);
  CHECK(EpochOf(old_leader.IncarnationFor(kBob)) == 1);
  CHECK(Hand(node, kAlice, At(3), SendOne(old_leader, At(3), kBob, 4)).nonces.empty());
  Courier unled(Options(99));
  CHECK(Hand(node, kAlice, At(4), SendOne(unled, At(4), kBob, 5)).nonces.empty());
  CHECK(Hand(node, kAlice, At(5), SendOne(new_leader, At(5), kBob, 6)).nonces ==
        std::vector<uint64_t>{6});
}

TEST_CASE("Courier: what comes late from before both forgot each other replaces nothing newer",
          "[wire][courier]") {
  Courier alice(Options(ProcessBits(11))), bob(Options(ProcessBits(Mix64(22))));
  REQUIRE(Hand(bob, kAlice, At(0), SendOne(alice, At(0), kBob, 1)).nonces.size() == 1);
  const Sent late = SendOne(alice, At(1), kBob, 2);
  alice.Forget(kBob);
  bob.Forget(kAlice);
  REQUIRE(Hand(bob, kAlice, At(2), SendOne(alice, At(2), kBob, 3)).nonces.size() == 1);

  const Heard heard = Hand(bob, kAlice, At(3), late);

  CHECK(heard.restarts == 0);
  CHECK(heard.nonces.empty());
  CHECK(Hand(bob, kAlice, At(4), SendOne(alice, At(4), kBob, 4)).nonces == Nonces{4});
}

TEST_CASE("Courier: incarnations of a process ascend, however often it forgets",
          "[wire][courier]") {
  const uint64_t first = ProcessBits(Mix64(1));
  CHECK(first % kConversations == 0);
  CHECK(ProcessBits(0) > 0);
  CHECK(CourierSession::IncarnationAfter(first, 0) == first);
  CHECK(CourierSession::IncarnationAfter(first, 1) == first + 1);
  const uint64_t wrapped = CourierSession::IncarnationAfter(first, kConversations);
  CHECK(wrapped / kConversations != first / kConversations);
  CHECK(EpochOf(wrapped) == 0);
  CHECK(EpochOf(CourierSession::IncarnationAfter(LedIncarnation(3, first), kConversations)) == 3);
}

}  // namespace
}  // namespace skerry
