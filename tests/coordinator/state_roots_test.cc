// What a joiner is told that the state of its stage is, and who held another (docs/PROTOCOL.md,
// 17).

#include "pipeline/plan/handover.h"
#include "pipeline/plan/route.h"
#include "tests/coordinator/served_run.h"

using namespace skerry;
using skerry::testing::Node;
using skerry::testing::ServedRun;
using skerry::testing::SmallRun;

namespace {

RunConfig EightNodes() {
  RunConfig config = SmallRun();
  config.steps = 40;
  config.nodes_min = 8;
  config.pipeline.microbatches_per_step = 4;
  return config;
}

const Digest kTrue{{1}}, kFalse{{2}};

// Two stages of four; one of stage 1 died, came back, and joins.
struct Fleet : ServedRun {
  Fleet() : ServedRun(EightNodes()) {
    ticket_uses = 8;
    Restart();
    Gather(8);
    for (int i = 0; i < 8; ++i) From(i, Beat(Phase::kTraining));
    gone = Live(1)[0];
    for (int i = 0; i < 8; ++i) {
      if (Node(i) == gone) number = i;
    }
    From(gone, HelloOf(number));
    for (int second = 0; second < 20; ++second) {
      for (int i = 0; i < 8; ++i) {
        From(i, Beat(Node(i) == gone ? Phase::kStandby : Phase::kTraining));
      }
      Pass(1);
      RunJobs();
    }
    REQUIRE(JoinerOf(*state().plan, gone) != nullptr);
    donors = LiveReplicas(*state().plan, 1);
    REQUIRE(donors.size() == 3);
    TakeSends();
  }
  static Heartbeat Beat(Phase phase) {
    Heartbeat beat;
    beat.phase = phase;
    return beat;
  }
  void Say(const NodeId& donor, const Digest& root) { From(donor, StateRoot{1, 0, root, 7}); }
  std::vector<StateRoot> Told() const { return SentTo<StateRoot>(gone); }

  NodeId gone;
  int number = 0;
  std::vector<NodeId> donors;
};

}  // namespace

TEST_CASE("StateRoots: the joiner is told what more than half say, once", "[coordinator][join]") {
  Fleet fleet;
  fleet.Say(fleet.donors[0], kTrue);
  CHECK(fleet.Told().empty());
  fleet.Say(fleet.donors[1], kTrue);
  REQUIRE(fleet.Told().size() == 1);
  CHECK(fleet.Told().front() == StateRoot{1, 0, kTrue, 0});
  fleet.Say(fleet.donors[2], kTrue);
  fleet.Say(fleet.donors[0], kTrue);
  CHECK(fleet.Told().size() == 1);
  CHECK(fleet.LastEvent("state_root")["version"] == 0);
  CHECK(fleet.Live(1).size() == 4);
}

TEST_CASE("StateRoots: a replica of another root is put out, whenever it speaks",
          "[coordinator][join]") {
  Fleet fleet;
  const size_t when = GENERATE(size_t{0}, size_t{1}, size_t{2});
  for (size_t i = 0; i < 3; ++i) {
    fleet.Say(fleet.donors[i], i == when ? kFalse : kTrue);
  }
  REQUIRE(fleet.Told().size() == 1);
  CHECK(fleet.Told().front().root == kTrue);
  CHECK(fleet.LastEvent("state_mismatch")["node"] == fleet.donors[when].Short());
  CHECK(IsDead(*fleet.state().plan, fleet.donors[when]));
}

TEST_CASE("StateRoots: a word is a word", "[coordinator][join]") {
  Fleet fleet;
  fleet.Say(fleet.donors[0], kFalse);
  fleet.Say(fleet.donors[0], kTrue);
  fleet.Say(fleet.donors[1], kTrue);
  CHECK(fleet.Told().empty());
}

TEST_CASE("StateRoots: who has not that version has no vote, who dies has none either",
          "[coordinator][join]") {
  Fleet fleet;
  fleet.Say(fleet.donors[0], Digest());
  fleet.Say(fleet.donors[1], kTrue);
  CHECK(fleet.Told().empty());
  if (GENERATE(false, true)) {
    fleet.Say(fleet.donors[2], Digest());
  } else {
    fleet.From(fleet.donors[2], Leave{"enough"});
    fleet.Pass(3);
  }
  CHECK(fleet.Told().size() == 1);
}

TEST_CASE("StateRoots: a joiner of replicas that do not agree is given up", "[coordinator][join]") {
  Fleet fleet;
  fleet.Say(fleet.donors[0], kTrue);
  fleet.Say(fleet.donors[1], kFalse);
  fleet.Say(fleet.donors[2], GENERATE(Digest(), Digest{{3}}));
  CHECK(fleet.Told().empty());
  CHECK(fleet.CountEvents("handover_failed") == 1);
  CHECK(fleet.Live(1).size() == 3);
}

TEST_CASE("StateRoots: strangers, other versions and the joiner itself have no say",
          "[coordinator][join]") {
  Fleet fleet;
  fleet.Say(fleet.Live(0)[0], kTrue);
  fleet.Say(fleet.Live(0)[1], kTrue);
  fleet.Say(fleet.gone, kTrue);
  fleet.From(fleet.donors[0], StateRoot{1, 1, kTrue, 7});
  fleet.From(fleet.donors[1], StateRoot{1, 1, kTrue, 7});
  fleet.Say(fleet.donors[0], kTrue);
  CHECK(fleet.Told().empty());
}

TEST_CASE("StateRoots: a coordinator that restarted hears and says it again",
          "[coordinator][join]") {
  Fleet fleet;
  for (const NodeId& donor : fleet.donors) fleet.Say(donor, kTrue);
  fleet.Restart();
  for (const NodeId& donor : fleet.donors) fleet.Say(donor, kTrue);
  CHECK(fleet.Told().size() == 1);
}

TEST_CASE("StateRoots: what a joiner says of a donor is noted, and no more",
          "[coordinator][join]") {
  Fleet fleet;
  fleet.From(fleet.gone, StateRefuted{1, 0, fleet.donors[0], 5, kFalse});
  CHECK(fleet.LastEvent("state_refuted")["node"] == fleet.donors[0].Short());
  CHECK(fleet.Live(1).size() == 4);
  const int64_t refused = fleet.actor->refused();
  fleet.From(fleet.donors[1], StateRefuted{1, 0, fleet.donors[0], 5, kFalse});
  fleet.From(fleet.gone, StateRefuted{1, 0, fleet.Live(0)[0], 5, kFalse});
  fleet.From(fleet.gone, StateRefuted{1, 3, fleet.donors[0], 5, kFalse});
  CHECK(fleet.actor->refused() == refused + 3);
}
