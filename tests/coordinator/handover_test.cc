// A dead node's slot is handed to a standby: named, waited for as a holder, then fixed or given up.

#include "pipeline/plan/handover.h"

#include "pipeline/plan/route.h"
#include "pipeline/plan/validate.h"
#include "tests/coordinator/served_run.h"

using namespace skerry;
using skerry::testing::Applied;
using skerry::testing::Held;
using skerry::testing::Node;
using skerry::testing::ServedRun;
using skerry::testing::SmallRun;

namespace {

RunConfig LongRun(int64_t steps) {
  RunConfig config = SmallRun();
  config.steps = steps;
  config.pipeline.skip_ratio = 0.5;  // else the run ends with a stage
  return config;
}

Heartbeat Beat(Phase phase, int64_t base_version = 0) {
  Heartbeat beat;
  beat.phase = phase;
  beat.base_version = base_version;
  return beat;
}

// Two stages of two; a replica of stage 1 has died, come back, and heard that it stands by.
struct Fleet : ServedRun {
  explicit Fleet(int64_t steps = 40) : ServedRun(LongRun(steps)) {
    Gather();
    gone = Live(1)[0];
    other = Live(1)[1];
    for (const NodeId& node : {gone, other}) From(node, Beat(Phase::kTraining));
    From(gone, HelloOf(0));  // a process that knows nothing
    REQUIRE(state().plan->dead == std::vector<NodeId>{gone});
  }

  // The others say something every second meanwhile.
  void Wait(int seconds, Phase phase_of_gone) {
    for (int second = 0; second < seconds; ++second) {
      for (int i = 0; i < 4; ++i) {
        From(i, Beat(Node(i) == gone ? phase_of_gone : Phase::kTraining));
      }
      Pass(1);
      RunJobs();
    }
  }
  void Name() {
    Wait(20, Phase::kStandby);  // a stage rests after a death
    REQUIRE(JoinerOf(*state().plan, gone) != nullptr);
  }
  void HoldAll(int64_t round, const std::vector<NodeId>& holders) {
    for (const NodeId& holder : holders) From(holder, Held(1, round, other));
  }

  NodeId gone, other;
};

}  // namespace

TEST_CASE("Handover: a standby is named for the dead slot, and the journal tells the same",
          "[coordinator]") {
  Fleet fleet;
  fleet.Name();

  CHECK(fleet.state().plan->dead.empty());
  const Joiner& joiner = *JoinerOf(*fleet.state().plan, fleet.gone);
  CHECK_FALSE(joiner.IsFixed());
  CHECK(joiner.since == fleet.state().plan->version);
  CHECK(ValidatePlan(*fleet.state().plan, fleet.config).ok());
  CHECK(fleet.LastEvent("handover")["node"] == fleet.gone.Short());
  CHECK(fleet.LastEvent("handover")["stage"] == 1);
  CHECK(*fleet.SentTo<PlanUpdate>(fleet.gone).back().plan == *fleet.state().plan);
  CHECK(fleet.Fold() == fleet.state());
}

TEST_CASE("Handover: nobody is named who has not said that it stands by", "[coordinator]") {
  Fleet fleet;
  fleet.Wait(30, GENERATE(Phase::kJoining, Phase::kWaitingForPlan, Phase::kFetchingData));
  CHECK(fleet.CountEvents("handover") == 0);
}

TEST_CASE("Handover: a round waits for what the joiner holds, and is not made of its deltas",
          "[coordinator]") {
  Fleet fleet;
  fleet.Name();
  fleet.HoldAll(0, {fleet.other});
  CHECK(fleet.state().commits.empty());

  fleet.HoldAll(0, {fleet.gone});

  REQUIRE(fleet.state().commits.size() == 1);
  REQUIRE(fleet.state().commits.at({1, 0}).participants.size() == 1);
  CHECK(fleet.state().commits.at({1, 0}).participants[0].node == fleet.other);
  CHECK(fleet.SentTo<RoundCommit>(fleet.gone).size() == 1);
}

TEST_CASE("Handover: who alone sends what its joiner cannot decode is put out, frozen or not",
          "[coordinator]") {
  Fleet fleet;
  fleet.Name();
  fleet.HoldAll(0, {fleet.other});
  const bool is_frozen = GENERATE(false, true);
  if (is_frozen) fleet.HoldAll(0, {fleet.gone});  // it had no stage yet to look at it with
  CHECK(fleet.state().RoundsCommitted(1) == (is_frozen ? 1 : 0));

  DeltaHeld refused = Held(1, 0, fleet.other);
  refused.digest = {};
  fleet.From(fleet.gone, refused);

  CHECK(fleet.state().evicted == std::set<NodeId>{fleet.other});
}

TEST_CASE("Handover: a caught-up joiner starts after a round that no stage has committed",
          "[coordinator]") {
  Fleet fleet;
  fleet.Name();
  if (GENERATE(false, true)) {
    fleet.HoldAll(0, {fleet.other, fleet.gone});
    fleet.From(fleet.gone, Applied(1, 0));
  }
  const int64_t committed = fleet.state().RoundsCommitted(1);

  fleet.From(fleet.gone, Beat(Phase::kCatchingUp, committed));

  const Joiner& joiner = *JoinerOf(*fleet.state().plan, fleet.gone);
  CHECK(joiner.from_round == committed + 1);
  CHECK(joiner.from_step == 2 * (committed + 1));
  CHECK(fleet.LastEvent("joined")["from_step"] == joiner.from_step);
  CHECK(ValidatePlan(*fleet.state().plan, fleet.config).ok());
  CHECK(fleet.Fold() == fleet.state());
  // The round before is the others', the next one its own too.
  fleet.HoldAll(committed, {fleet.other, fleet.gone});
  CHECK(fleet.state().RoundsCommitted(1) == committed + 1);
  fleet.HoldAll(committed + 1, {fleet.other, fleet.gone});
  CHECK(fleet.state().RoundsCommitted(1) == committed + 1);
  for (const NodeId& holder : {fleet.other, fleet.gone}) {
    fleet.From(holder, Held(1, committed + 1, fleet.gone));
  }
  CHECK(fleet.state().commits.at({1, committed + 1}).participants.size() == 2);
}

TEST_CASE("Handover: a joiner that dies, or starts again, joins no more", "[coordinator]") {
  Fleet fleet;
  fleet.Name();
  const bool dies = GENERATE(false, true);
  if (dies) {
    fleet.From(fleet.gone, skerry::Leave{""});
  } else {
    fleet.From(fleet.gone, ServedRun::HelloOf(0));
  }
  CHECK(fleet.state().plan->joining.empty());
  CHECK(fleet.state().plan->dead == std::vector<NodeId>{fleet.gone});
  CHECK(fleet.state().nodes.at(fleet.gone).alive == !dies);
  // The round that waited for it alone goes on.
  fleet.HoldAll(0, {fleet.other});
  CHECK(fleet.state().RoundsCommitted(1) == 1);
}

TEST_CASE("Handover: a joiner that its stage waits for too long is given up, not put out",
          "[coordinator]") {
  Fleet fleet;
  fleet.Name();
  fleet.HoldAll(0, {fleet.other});
  fleet.Wait(40, Phase::kFetchingData);

  CHECK(fleet.CountEvents("handover_failed") == 1);
  CHECK(fleet.state().RoundsCommitted(1) == 1);
  CHECK(fleet.state().nodes.at(fleet.gone).alive);
  CHECK(fleet.state().plan->dead == std::vector<NodeId>{fleet.gone});
}

TEST_CASE("Handover: a joiner does not keep its stage from a pause that was ordered",
          "[coordinator]") {
  Fleet fleet(4'000'000);
  fleet.Name();
  AdmissionOrder order;
  order.id = "c1";
  order.does = AdmissionOrder::Does::kPause;
  fleet.Handle([&](CoordinatorActor& a, Context& c) { a.Obey(c, order); });
  REQUIRE(fleet.state().orders.paused_at);
  fleet.HoldAll(0, {fleet.other});  // without its round nobody comes to that step

  fleet.Wait(60, Phase::kFetchingData);

  CHECK(fleet.LastEvent("handover_failed")["why"] == "its stage waits for it");
  CHECK(fleet.state().RoundsCommitted(1) == 1);
}

TEST_CASE("Handover: whose base is not the stage's joins no more", "[coordinator]") {
  Fleet fleet;
  fleet.HoldAll(0, {fleet.other});
  fleet.From(fleet.other, Applied(1, 0, 7));
  fleet.Name();

  fleet.From(fleet.gone, Applied(1, 0, 8));

  CHECK(fleet.CountEvents("handover_failed") == 1);
  CHECK(fleet.state().plan->joining.empty());
}

TEST_CASE("Handover: who joins a stage that loses its last replica goes with it", "[coordinator]") {
  Fleet fleet;
  fleet.Name();
  const bool fixed = GENERATE(false, true);
  if (fixed) fleet.From(fleet.gone, Beat(Phase::kCatchingUp, 0));

  fleet.From(fleet.other, skerry::Leave{""});

  CHECK(Holders(*fleet.state().plan, 1).empty());
  CHECK(fleet.state().plan->joining.empty());
  CHECK_FALSE(fleet.context.stopped);
}

TEST_CASE("Handover: a coordinator that dies goes on with it", "[coordinator]") {
  Fleet fleet;
  fleet.Name();
  const PipelinePlan named = *fleet.state().plan;
  fleet.Restart();
  for (int i = 0; i < 4; ++i) {
    Hello hello = ServedRun::HelloOf(i);
    hello.plan_version = named.version;
    fleet.From(i, hello);
  }
  CHECK(*fleet.state().plan == named);
  fleet.HoldAll(0, {fleet.other});
  CHECK(fleet.state().commits.empty());
  fleet.HoldAll(0, {fleet.gone});
  CHECK(fleet.state().RoundsCommitted(1) == 1);
  fleet.From(fleet.gone, Beat(Phase::kCatchingUp, 1));
  CHECK(JoinerOf(*fleet.state().plan, fleet.gone)->from_step == 4);
}

TEST_CASE("Handover: in the last rounds nobody is named any more", "[coordinator]") {
  Fleet fleet;
  for (int64_t round = 0; round < 18; ++round) fleet.HoldAll(round, {fleet.other});
  REQUIRE(fleet.state().RoundsCommitted(1) == 18);
  fleet.Wait(30, Phase::kStandby);
  CHECK(fleet.CountEvents("handover") == 0);
}

TEST_CASE("Handover: who was evicted gets no work again, and is told to go", "[coordinator]") {
  Fleet fleet;
  RunConfig config = SmallRun();
  config.nodes_min = 3;
  config.pipeline.stages = 1;
  ServedRun run(config);
  run.Gather(3);
  const auto replicas = run.Live(0);
  for (const NodeId& holder : replicas) {
    for (const NodeId& sender : replicas) run.From(holder, Held(0, 0, sender));
  }
  for (size_t i = 0; i < 3; ++i) run.From(replicas[i], Applied(0, 0, i == 0 ? 9 : 7));
  REQUIRE(run.state().evicted == std::set<NodeId>{replicas[0]});

  run.From(replicas[0], ServedRun::HelloOf(0));

  CHECK(run.SentTo<skerry::Refused>(replicas[0]).size() == 1);
  CHECK_FALSE(run.state().nodes.at(replicas[0]).alive);
  CHECK(run.Fold() == run.state());
}
