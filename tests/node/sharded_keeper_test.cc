// What a replica holds of sharded rounds, and pieces on their way.
#include <catch2/catch.hpp>
#include <set>

#include "common/digest.h"
#include "node/round_keeper.h"

using namespace skerry;

namespace {

const NodeId kSelf = TestNodeId(1), kOther = TestNodeId(2), kThird = TestNodeId(3);

Piece PieceOf(int32_t index, uint8_t content) {
  return {index, MakePayload({content, content})};
}

const RoundShape kBoth = {{kSelf, kOther}, 77};

DeltaSum SumOf(const std::vector<Piece>& pieces, const RoundShape& shape = kBoth) {
  const Payload packed = PackPieces(pieces);
  return {3, 0, shape.id, 10, DigestOf(View(packed)), packed, 1};
}

RoundCommit CommitOf(const RoundShape& shape, const std::vector<DeltaSum>& sums) {
  RoundCommit commit{3, 0, {}, shape.id};
  for (size_t i = 0; i < sums.size(); ++i) {
    commit.participants.push_back({shape.participants[i], 10, sums[i].digest});
  }
  return commit;
}

}  // namespace

TEST_CASE("Pieces: packed and unpacked they are what they were, hollow ones by size") {
  const std::vector<Piece> pieces = {
      PieceOf(2, 1), {5, MakeHollowPayload({9}, 1000)}, PieceOf(7, 3)};
  const Payload packed = PackPieces(pieces);
  CHECK(packed.size() == 4 + 3 * 8 + 2 + 1000 + 2);
  const auto back = UnpackPieces(packed);
  REQUIRE(back.ok());
  REQUIRE(back->size() == 3);
  for (size_t i = 0; i < 3; ++i) {
    CHECK((*back)[i].index == pieces[i].index);
    CHECK(*(*back)[i].message == *pieces[i].message);
  }
  CHECK(UnpackPieces(PackPieces({}))->empty());
}

TEST_CASE("Pieces: whatever the bytes, unpacking gives pieces or an error") {
  const Bytes good = *PackPieces(std::vector{PieceOf(2, 1), PieceOf(7, 3)});
  for (size_t length = 0; length < good.size(); ++length) {
    CHECK_FALSE(
        UnpackPieces(MakePayload(Bytes(good.begin(), good.begin() + static_cast<int64_t>(length))))
            .ok());
  }
  Bytes longer = good;
  longer.push_back(0);
  CHECK_FALSE(UnpackPieces(MakePayload(longer)).ok());
  CHECK_FALSE(UnpackPieces(MakePayload(Bytes(64, 0xff))).ok());
  Bytes twice = *PackPieces(std::vector{PieceOf(2, 1), PieceOf(2, 3)});
  CHECK_FALSE(UnpackPieces(MakePayload(twice)).ok());
}

TEST_CASE("RoundKeeper: a part is to be summed when everybody's pieces of it are held") {
  RoundKeeper keeper(3, kSelf);
  keeper.HoldOwn(0, 10, {PieceOf(0, 1).message, PieceOf(1, 2).message});
  CHECK_FALSE(keeper.ReductionOf(0, kBoth.participants, {0}));
  CHECK(keeper.HoldPieces(kOther, 0, 20, {PieceOf(0, 3)}));
  const auto reduction = keeper.ReductionOf(0, kBoth.participants, {0});
  REQUIRE(reduction);
  REQUIRE(reduction->messages[0].size() == 2);
  CHECK(reduction->messages[0][0].own);
  CHECK(reduction->messages[0][1].tokens == 20);
  // Another piece was the part of somebody who died.
  CHECK_FALSE(keeper.ReductionOf(0, kBoth.participants, {0, 1}));
  CHECK(keeper.HoldPieces(kOther, 0, 20, {PieceOf(0, 99), PieceOf(1, 4)}));
  const auto both = keeper.ReductionOf(0, kBoth.participants, {0, 1});
  REQUIRE(both);
  CHECK(*both->messages[0][1].payload == Bytes{3, 3});  // what was held first
  CHECK_FALSE(keeper.HoldPieces(kOther, 3, 20, {}));    // too far ahead
}

TEST_CASE(
    "RoundKeeper: sums are reported when all of one shape are held, and landed when that one "
    "is committed") {
  RoundKeeper keeper(3, kSelf);
  keeper.HoldOwn(0, 10, {PieceOf(0, 1).message, PieceOf(1, 2).message});
  keeper.HoldPieces(kOther, 0, 20, {PieceOf(0, 3), PieceOf(1, 4)});
  const std::vector<Piece> mine = {PieceOf(0, 7)}, theirs = {PieceOf(1, 8)};
  const DeltaSum own = SumOf(mine), other = SumOf(theirs);
  CHECK(keeper.HoldSum(kSelf, own, kBoth, mine));
  CHECK_FALSE(keeper.AllSums(0, kBoth.id));
  CHECK(keeper.HoldSum(kOther, other, kBoth, theirs));
  CHECK_FALSE(keeper.HoldSum(kOther, other, kBoth, theirs));
  const auto report = keeper.AllSums(0, kBoth.id);
  REQUIRE(report);
  CHECK(report->sums[1] == Participant{kOther, 10, other.digest});

  // The other dies before the commit: what is summed alone is of another shape.
  const RoundShape alone = {{kSelf}, 78};
  const std::vector<Piece> all = {PieceOf(0, 5), PieceOf(1, 6)};
  CHECK_FALSE(keeper.AllSums(0, alone.id));
  CHECK(keeper.HoldSum(kSelf, SumOf(all, alone), alone, all));
  SECTION("that one is committed") {
    REQUIRE(keeper.Commit(CommitOf(alone, {SumOf(all, alone)})));
    REQUIRE(keeper.Ready(0));
    const auto landing = keeper.LandingOf(0, 2);
    REQUIRE(landing.ok());
    CHECK(*landing->sums[1] == Bytes{6, 6});
    CHECK(landing->own_accepted);
    CHECK(landing->own.pieces == std::vector<int32_t>{0, 1});
    CHECK(landing->own.messages[0].size() == 1);
  }
  SECTION("the first was committed after all, before the death") {
    REQUIRE(keeper.Commit(CommitOf(kBoth, {own, other})));
    REQUIRE(keeper.Ready(0));
    const auto landing = keeper.LandingOf(0, 2);
    REQUIRE(landing.ok());
    CHECK(*landing->sums[1] == Bytes{8, 8});
    CHECK(landing->own.pieces == std::vector<int32_t>{0});
  }
  SECTION("a commit of a sum that is not held waits") {
    DeltaSum unknown = other;
    unknown.digest.bytes[0] ^= 1;
    REQUIRE(keeper.Commit(CommitOf(kBoth, {own, unknown})));
    CHECK_FALSE(keeper.Ready(0));
  }
}

TEST_CASE("RoundKeeper: a joiner lands sums without having summed anything") {
  RoundKeeper keeper(3, kThird, 0, RoundKeeper::kJoinersRoundsAhead);
  const std::vector<Piece> mine = {PieceOf(0, 7)}, theirs = {PieceOf(1, 8)};
  keeper.HoldSum(kSelf, SumOf(mine), kBoth, mine);
  keeper.HoldSum(kOther, SumOf(theirs), kBoth, theirs);
  REQUIRE(keeper.Commit(CommitOf(kBoth, {SumOf(mine), SumOf(theirs)})));
  const auto landing = keeper.LandingOf(0, 2);
  REQUIRE(landing.ok());
  CHECK_FALSE(landing->own_accepted);
  CHECK(landing->own.pieces.empty());
  CHECK_FALSE(keeper.LandingOf(0, 3).ok());  // a piece is missing
  CHECK_FALSE(keeper.LandingOf(0, 1).ok());  // one is too many
}

// What its speaker's message is it knows by the digest that the commit names.
TEST_CASE("RoundKeeper: a member's message is in a sharded round when its speaker's is the same") {
  RoundKeeper keeper(3, kSelf);
  const RoundShape others = {{kOther, kThird}, 79};
  const std::vector<Piece> first = {PieceOf(0, 7)}, second = {PieceOf(1, 8)};
  const DeltaSum of_other = SumOf(first, others), of_third = SumOf(second, others);
  const Digest made = DigestOf(View(PieceOf(0, 1).message));
  keeper.HoldOwn(0, 10, {PieceOf(0, 1).message, PieceOf(1, 2).message});
  keeper.Share({3, 0, 10, made, {}}, {kOther, kSelf});
  keeper.HoldSum(kOther, of_other, others, first);
  keeper.HoldSum(kThird, of_third, others, second);
  RoundCommit commit = CommitOf(others, {of_other, of_third});
  bool is_own = true;
  SECTION("the same") {
    commit.messages = {made, Digest()};
  }
  SECTION("the speaker has made another one") {
    commit.messages = {of_other.digest, made};
    is_own = false;
  }
  SECTION("a coordinator that knows no cohorts in sharded rounds") {
    is_own = false;
  }
  REQUIRE(keeper.Commit(commit));
  const auto landing = keeper.LandingOf(0, 2);
  REQUIRE(landing.ok());
  CHECK(landing->own_accepted == is_own);
  CHECK(landing->own.pieces.empty());
  CHECK(keeper.SumsNow(0, others.id).size() == 2);
  CHECK(keeper.SumsNow(0, kBoth.id).empty());
}

TEST_CASE("RoundKeeper: sums held before they could be looked at are refused afterwards") {
  RoundKeeper keeper(3, kThird, 0, RoundKeeper::kJoinersRoundsAhead);
  const RoundShape alone = {{kOther}, 78};
  const std::vector<Piece> good = {PieceOf(0, 5)}, bad = {PieceOf(0, 6)};
  DeltaSum first = SumOf(good, alone), second = SumOf(bad, alone);
  second.round = 1;
  keeper.HoldSum(kOther, first, alone, good);
  keeper.HoldSum(kOther, second, alone, bad);
  RoundCommit commit = CommitOf(alone, {second});
  commit.round = 1;
  REQUIRE(keeper.Commit(commit));
  REQUIRE(keeper.Ready(1));

  const auto are_sums = [&](int64_t, const RoundShape& shape, const std::vector<Piece>& sums) {
    return shape == alone && *sums.front().message == *good.front().message;
  };
  CHECK(keeper.RefuseSumsUnless(are_sums) == std::set<int64_t>{1});

  CHECK_FALSE(keeper.Ready(1));
  CHECK(keeper.AllSums(0, alone.id)->sums.front().digest == first.digest);
  CHECK(keeper.AllSums(1, alone.id)->sums.front() == Participant{kOther, 0, {}});
}
