// Who is put out because robust means leave its deltas out.
#include "coordinator/wild_senders.h"

#include <catch2/catch.hpp>
#include <utility>

using namespace skerry;

namespace {

constexpr uint32_t kWild = 3;

// A stage of four, of whom in each round `by` leave out what the last one sent.
struct Stage {
  RunState state;
  void Freeze(int64_t round, uint32_t by, int32_t covered = 1) {
    RoundCommit commit;
    commit.round = round;
    for (uint32_t i = 0; i < 4; ++i) commit.participants.push_back({TestNodeId(i), 8, {}});
    if (covered > 1) commit.covered = {1, 1, 1, covered};
    for (uint32_t i = 0; i < 4; ++i) {
      RoundApplied applied;
      applied.round = round;
      if (i < by) applied.screened = {TestNodeId(kWild)};
      state.applied[{0, round}].emplace(TestNodeId(i), applied);
    }
    state.commits.emplace(RunState::StageRound{0, round}, std::move(commit));
  }
};

const std::vector<NodeId> kNobody;

}  // namespace

TEST_CASE("Wild senders: whom most leave out in three rounds in a row is one",
          "[coordinator][robust]") {
  Stage stage;
  for (int64_t round = 0; round < 2; ++round) stage.Freeze(round, 2);
  CHECK(WildSenders(stage.state, 0, 1) == kNobody);
  stage.Freeze(2, 2);
  CHECK(WildSenders(stage.state, 0, 2) == std::vector{TestNodeId(kWild)});
}

TEST_CASE("Wild senders: one replica that slanders puts nobody out", "[coordinator][robust]") {
  Stage stage;
  for (int64_t round = 0; round < 8; ++round) stage.Freeze(round, 1);
  CHECK(WildSenders(stage.state, 0, 7) == kNobody);
}

TEST_CASE("Wild senders: who was believed once in between is none", "[coordinator][robust]") {
  Stage stage;
  for (int64_t round = 0; round < 8; ++round) stage.Freeze(round, round % 3 == 2 ? 0 : 3);
  CHECK(WildSenders(stage.state, 0, 7) == kNobody);
}

TEST_CASE("Wild senders: a message of several rounds may be long", "[coordinator][robust]") {
  Stage stage;
  for (int64_t round = 0; round < 6; ++round) stage.Freeze(round, 3, round % 2 == 0 ? 4 : 1);
  CHECK(WildSenders(stage.state, 0, 4) == kNobody);  // two of the usual kind so far
  CHECK(WildSenders(stage.state, 0, 5) == std::vector{TestNodeId(kWild)});
}
