#include "node/round_keeper.h"

#include <catch2/catch.hpp>

#include "common/digest.h"

using namespace skerry;

namespace {

const NodeId kSelf = TestNodeId(1);
const NodeId kOther = TestNodeId(2);

Delta MakeDelta(int64_t round, uint8_t content, int32_t stage = 3) {
  const Payload payload = MakePayload({content, content});
  return {stage, round, 100, DigestOf(View(payload)), payload};
}

RoundCommit CommitOf(int64_t round, const std::vector<std::pair<NodeId, Delta>>& deltas) {
  RoundCommit commit{3, round, {}};
  for (const auto& [node, delta] : deltas) {
    commit.participants.push_back({node, delta.tokens, delta.digest});
  }
  return commit;
}

}  // namespace

TEST_CASE("RoundKeeper: a round is ready when its commit and every participant's delta are here") {
  RoundKeeper keeper(3, kSelf);
  const Delta mine = MakeDelta(0, 1), theirs = MakeDelta(0, 2);
  const RoundCommit commit = CommitOf(0, {{kSelf, mine}, {kOther, theirs}});

  CHECK(keeper.Hold(kSelf, mine) == DeltaHeld{3, 0, kSelf, 100, mine.digest});
  CHECK(keeper.Commit(commit));
  CHECK_FALSE(keeper.Ready(0));
  CHECK(keeper.Missing(0) == "delta of " + kOther.Short() + " in round 0");
  CHECK(keeper.Hold(kOther, theirs).has_value());
  REQUIRE(keeper.Ready(0));

  const auto participants = keeper.Participants(0);
  REQUIRE(participants.size() == 2);
  CHECK(participants[0].own);
  CHECK_FALSE(participants[1].own);
}

TEST_CASE(
    "RoundKeeper: what is altered, repeated, stale, too far ahead or of another stage is not "
    "held") {
  RoundKeeper keeper(3, kSelf);
  Delta altered = MakeDelta(0, 1);
  altered.payload = MakePayload({9, 9});
  CHECK_FALSE(keeper.Hold(kOther, altered));
  CHECK_FALSE(keeper.Hold(kOther, MakeDelta(0, 1, 2)));
  CHECK_FALSE(keeper.Hold(kOther, MakeDelta(RoundKeeper::kRoundsAhead + 1, 1)));
  CHECK(keeper.Hold(kOther, MakeDelta(0, 1)));
  CHECK_FALSE(keeper.Hold(kOther, MakeDelta(0, 1)));
  keeper.Applied(0);
  CHECK_FALSE(keeper.Hold(kOther, MakeDelta(0, 1)));
}

TEST_CASE("RoundKeeper: a second, different set for the same round is refused") {
  RoundKeeper keeper(3, kSelf);
  const Delta mine = MakeDelta(0, 1), theirs = MakeDelta(0, 2);
  CHECK(keeper.Commit(CommitOf(0, {{kSelf, mine}})));
  CHECK(keeper.Commit(CommitOf(0, {{kSelf, mine}})));
  CHECK_FALSE(keeper.Commit(CommitOf(0, {{kSelf, mine}, {kOther, theirs}})));
}

TEST_CASE(
    "RoundKeeper: a delta that differs from the committed digest does not make a round ready") {
  RoundKeeper keeper(3, kSelf);
  keeper.Hold(kOther, MakeDelta(0, 1));
  keeper.Commit(CommitOf(0, {{kOther, MakeDelta(0, 2)}}));
  CHECK_FALSE(keeper.Ready(0));
}

TEST_CASE("RoundKeeper: what is not applied is said again to a coordinator that restarted") {
  RoundKeeper keeper(3, kSelf);
  keeper.Hold(kSelf, MakeDelta(0, 1));
  keeper.Hold(kOther, MakeDelta(0, 2));
  keeper.Hold(kOther, MakeDelta(1, 3));
  CHECK(keeper.HeldNow().size() == 3);
  keeper.Applied(0);
  CHECK(keeper.HeldNow().size() == 1);
  CHECK(keeper.next() == 1);
}

TEST_CASE(
    "RoundKeeper: a delta that cannot be decoded is told of, again if asked, and never used") {
  RoundKeeper keeper(3, kSelf);
  const Delta mine = MakeDelta(0, 1), theirs = MakeDelta(0, 2);
  const DeltaHeld refusal{3, 0, kOther, 100, {}};
  keeper.Hold(kSelf, mine);
  CHECK(keeper.Refuse(kOther, theirs) == refusal);
  CHECK_FALSE(keeper.Refuse(kOther, theirs));
  CHECK_FALSE(keeper.Hold(kOther, theirs));
  CHECK(keeper.HeldNow() == std::vector<DeltaHeld>{{3, 0, kSelf, 100, mine.digest}, refusal});
  keeper.Commit(CommitOf(0, {{kSelf, mine}, {kOther, theirs}}));
  CHECK_FALSE(keeper.Ready(0));
}

TEST_CASE("RoundKeeper: what was held before it could be looked at is refused afterwards") {
  RoundKeeper keeper(3, kSelf);
  const Delta good = MakeDelta(0, 1), bad = MakeDelta(0, 2);
  keeper.Hold(kSelf, good);
  keeper.Hold(kOther, bad);
  keeper.Commit(CommitOf(0, {{kOther, bad}}));
  CHECK(keeper.Ready(0));

  const auto decodes = [&](const Delta& delta) { return delta.digest == good.digest; };
  const std::vector<DeltaHeld> refused{{3, 0, kOther, 100, {}}};
  CHECK(keeper.RefuseUnless(decodes) == refused);

  CHECK_FALSE(keeper.Ready(0));
  CHECK(keeper.HeldNow() ==
        std::vector<DeltaHeld>{{3, 0, kSelf, 100, good.digest}, refused.front()});
}
