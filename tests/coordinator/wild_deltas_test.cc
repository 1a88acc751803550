// Who is put out for wild deltas, of a journal's state alone; tests/coordinator/rounds_test.cc has
// it in a run.
#include "coordinator/wild_deltas.h"

#include <catch2/catch.hpp>

#include "common/ids.h"

namespace skerry {
namespace {

constexpr int64_t kRound = 40;

// Three rounds up to kRound in which both others leave out the first of three replicas; these have
// taken part since `others_since`, it since the beginning.
RunState LeftOutThrice(int64_t others_since) {
  RunState state;
  state.plan.emplace();
  StageAssignment stage;
  stage.last_layer = 1;
  for (uint32_t n = 1; n <= 3; ++n) stage.replicas.push_back(TestNodeId(n));
  state.plan->stages = {stage};
  for (uint32_t n = 2; n <= 3; ++n)
    state.plan->joining.push_back({TestNodeId(n), 1, 0, others_since, others_since});
  for (int64_t round = kRound - 2; round <= kRound; ++round) {
    RoundCommit& commit = state.commits[{0, round}];
    commit.round = round;
    for (const NodeId& node : stage.replicas) commit.participants.emplace_back().node = node;
    for (uint32_t n = 2; n <= 3; ++n) {
      RoundApplied& said = state.applied[{0, round}][TestNodeId(n)];
      said.round = round;
      said.screened = {TestNodeId(1)};
    }
  }
  return state;
}

bool IsPutOut(const RunState& state) {
  const auto wild = FindWildSender(state, state.applied.at({0, kRound}).at(TestNodeId(2)));
  return wild && wild->node == TestNodeId(1);
}

}  // namespace

TEST_CASE("Wild deltas: the word of replicas that are much newer is none", "[coordinator]") {
  CHECK(IsPutOut(LeftOutThrice(0)));
  CHECK(IsPutOut(LeftOutThrice(kRound / 2)));
  CHECK_FALSE(IsPutOut(LeftOutThrice(kRound - 2)));
  // Of who joins again later nobody knows how long it was there before.
  CHECK_FALSE(IsPutOut(LeftOutThrice(kRound + 5)));
}

}  // namespace skerry
