// Silence, leaving, restarts and returns, in each phase of a run.

#include "tests/coordinator/served_run.h"

using namespace skerry;
using skerry::testing::Applied;
using skerry::testing::Held;
using skerry::testing::Node;
using skerry::testing::ServedRun;

namespace {

Heartbeat Beat(Phase phase, int64_t step = 0, int64_t bytes = 0) {
  Heartbeat beat;
  beat.phase = phase;
  beat.step = step;
  beat.bytes_sent = bytes;
  return beat;
}

// Everybody but `silent` says something every second.
void PassWithout(ServedRun& run, const NodeId& silent, int seconds) {
  for (int second = 0; second < seconds; ++second) {
    run.Pass(1);
    for (int i = 0; i < 4; ++i) {
      if (Node(i) != silent) run.From(i, Beat(Phase::kTraining));
    }
  }
}

}  // namespace

TEST_CASE("A node silent for node_silent_s is dead: a new plan without it, for all others",
          "[coordinator]") {
  ServedRun run;
  run.Gather();
  const NodeId silent = run.Live(1)[0];
  PassWithout(run, silent, 9);
  CHECK(run.CountEvents("dead") == 0);
  run.TakeSends();

  PassWithout(run, silent, 3);

  CHECK(run.CountEvents("dead") == 1);
  CHECK(run.LastEvent("dead")["node"] == silent.Short());
  CHECK(run.state().plan->version == 2);
  CHECK(run.state().plan->dead == std::vector<NodeId>{silent});
  CHECK(run.SentTo<PlanUpdate>(silent).empty());
  for (const NodeId& node : run.Live(0)) CHECK(run.SentTo<PlanUpdate>(node).size() == 1);
  CHECK(run.Fold() == run.state());
}

TEST_CASE("Where nobody is heard nobody is taken for dead, and all have time to come back",
          "[coordinator]") {
  ServedRun run;
  run.Gather();
  for (int i = 0; i < 4; ++i) run.From(i, Beat(Phase::kTraining));
  run.Pass(300);
  CHECK(run.CountEvents("dead") == 0);
  CHECK(run.CountEvents("nobody_heard") == 1);
  const NodeId silent = run.Live(1)[0];
  PassWithout(run, silent, 15);
  CHECK(run.CountEvents("dead") == 0);
  PassWithout(run, silent, 10);
  CHECK(run.CountEvents("dead") == 1);
  CHECK(run.LastEvent("dead")["node"] == silent.Short());
  run.Pass(300);
  CHECK(run.CountEvents("dead") == 1);
  CHECK(run.CountEvents("nobody_heard") == 2);
}

TEST_CASE("A coordinator that was stopped for a minute takes nobody for silent, but looks again",
          "[coordinator]") {
  ServedRun run;
  run.Gather();
  PassWithout(run, {}, 3);
  run.context.AdvanceTo(run.context.now() + Duration::Seconds(60));
  run.Pass(1);
  CHECK(run.CountEvents("dead") == 0);
  const NodeId silent = run.Live(1)[0];
  PassWithout(run, silent, 13);
  CHECK(run.CountEvents("dead") == 1);
}

TEST_CASE("Any message is a sign of life", "[coordinator]") {
  ServedRun run;
  run.Gather();
  for (int second = 0; second < 25; ++second) {
    run.Pass(1);
    for (int i = 0; i < 4; ++i) run.From(i, DeltaHeld{});  // even one of no meaning
  }
  CHECK(run.CountEvents("dead") == 0);
}

TEST_CASE("Who leaves is out at once, and is told of as one who left", "[coordinator]") {
  ServedRun run;
  run.Gather();
  const NodeId node = run.Live(1)[1];
  run.From(node, skerry::Leave{"the owner needs the machine"});
  CHECK(run.CountEvents("left") == 1);
  CHECK(run.CountEvents("dead") == 0);
  CHECK(run.Live(1).size() == 1);
  run.From(node, skerry::Leave{"again"});
  CHECK(run.CountEvents("left") == 1);
  CHECK(run.state().plan->version == 2);
}

TEST_CASE(
    "A round that only waited for the dead one is frozen without it, also if some hold its "
    "delta",
    "[coordinator]") {
  ServedRun run;
  run.Gather();
  const auto replicas = run.Live(1);
  const bool held_by_other = GENERATE(false, true);
  run.From(replicas[0], Held(1, 0, replicas[0]));
  if (held_by_other) run.From(replicas[0], Held(1, 0, replicas[1]));
  CHECK(run.state().commits.empty());

  run.From(replicas[1], skerry::Leave{""});

  REQUIRE(run.state().commits.size() == 1);
  const auto& participants = run.state().commits.at({1, 0}).participants;
  REQUIRE(participants.size() == 1);
  CHECK(participants[0].node == replicas[0]);
  CHECK(run.LastEvent("round")["missing"] ==
        nlohmann::json::parse(R"([[")" + replicas[1].Short() + R"(","gone"]])"));
}

TEST_CASE("A death after the freeze changes nothing of the frozen round", "[coordinator]") {
  ServedRun run;
  run.Gather();
  const auto replicas = run.Live(1);
  for (const NodeId& holder : replicas) {
    for (const NodeId& sender : replicas) run.From(holder, Held(1, 0, sender));
  }
  const RoundCommit commit = run.state().commits.at({1, 0});
  run.From(replicas[1], skerry::Leave{""});
  CHECK(run.state().commits.at({1, 0}) == commit);
  run.From(replicas[0], Applied(1, 0));
  CHECK(run.state().applied.at({1, 0}).size() == 1);
}

TEST_CASE("A step that lost microbatches with a dead node is told once the living are past it",
          "[coordinator]") {
  ServedRun run;
  run.Gather();
  const auto stage_0 = run.Live(0);
  run.From(stage_0[0], StepReport{0, {{0, 10, 6.0f}}});
  run.From(stage_0[1], skerry::Leave{""});
  CHECK(run.CountEvents("step") == 0);

  run.From(stage_0[0], Beat(Phase::kTraining, 1));

  CHECK(run.LastEvent("step")["microbatches"] == 1);
  CHECK(run.LastEvent("step")["loss"] == 6.0);
}

TEST_CASE("Without a stage-0 replica the run ends, and everybody is told", "[coordinator]") {
  ServedRun run;
  run.Gather();
  const auto stage_0 = run.Live(0);
  const NodeId other = run.Live(1)[0];
  run.From(stage_0[0], skerry::Leave{""});
  REQUIRE_FALSE(run.context.stopped);
  run.TakeSends();

  run.From(stage_0[1], skerry::Leave{""});

  CHECK(run.context.stopped);
  CHECK(run.context.stop_code == 1);
  CHECK(run.SentTo<Shutdown>(other).size() == 1);
  run.Restart();  // nor does it come back to life
  CHECK(run.context.stopped);
  CHECK(run.context.stop_code == 1);
}

TEST_CASE("Before the plan a death costs nothing, and one word is enough to be back",
          "[coordinator]") {
  ServedRun run;
  for (int i = 0; i < 3; ++i) run.From(i, ServedRun::HelloOf(i));
  for (int second = 0; second < 12; ++second) {
    run.Pass(1);
    run.From(0, Beat(Phase::kWaitingForPlan));
    run.From(1, Beat(Phase::kWaitingForPlan));
  }
  CHECK(run.CountEvents("dead") == 1);
  CHECK_FALSE(run.state().nodes.at(Node(2)).alive);

  run.From(2, Beat(Phase::kWaitingForPlan));

  CHECK(run.CountEvents("returned") == 1);
  CHECK(run.state().nodes.at(Node(2)).alive);
  CHECK(run.Fold() == run.state());
}

TEST_CASE("A process that restarted in training lost its stage: it is replaced, then a standby",
          "[coordinator]") {
  ServedRun run;
  run.Gather();
  const NodeId node = run.Live(1)[0];
  run.From(node, Beat(Phase::kTraining, 1));
  run.Handle([&](CoordinatorActor& a, Context& c) { a.OnPeerRestarted(c, node); });
  run.TakeSends();

  run.From(node, ServedRun::HelloOf(0));  // plan_version 0: a fresh process

  CHECK(run.CountEvents("dead") == 1);
  CHECK(run.CountEvents("returned") == 1);
  CHECK(run.state().nodes.at(node).alive);
  CHECK(run.state().plan->dead == std::vector<NodeId>{node});
  REQUIRE(run.SentTo<PlanUpdate>(node).size() == 1);
  CHECK(run.SentTo<PlanUpdate>(node)[0].plan->dead.size() == 1);
  CHECK(run.SentTo<Welcome>(node).size() == 1);
  // A standby that goes again moves no plan.
  run.From(node, skerry::Leave{""});
  CHECK(run.state().plan->version == 2);
}

TEST_CASE("A coordinator that restarted tells another process from one that never had the plan",
          "[coordinator]") {
  ServedRun run;
  run.Gather();
  const std::vector<NodeId> live = run.Live(1);
  REQUIRE(live.size() == 2);
  run.Restart();

  Hello hello = ServedRun::HelloOf(0);
  run.From(live[0], hello);
  CHECK(run.state().plan->dead.empty());

  ++hello.process;  // the first may have had the plan, and worked by it
  run.From(live[1], hello);
  CHECK(run.state().plan->dead == std::vector<NodeId>{live[1]});
  CHECK(run.Fold() == run.state());
}

TEST_CASE("A node taken for dead that speaks again is told so, once", "[coordinator]") {
  ServedRun run;
  run.Gather();
  const NodeId silent = run.Live(1)[0];
  PassWithout(run, silent, 12);
  REQUIRE(run.Live(1).size() == 1);
  run.TakeSends();

  run.From(silent, Beat(Phase::kTraining, 1));
  run.From(silent, Beat(Phase::kTraining, 1));

  REQUIRE(run.SentTo<PlanUpdate>(silent).size() == 1);
  CHECK(run.SentTo<PlanUpdate>(silent)[0].plan->dead == std::vector<NodeId>{silent});
}

TEST_CASE("Bytes of a node add up over its processes, and over the coordinator's",
          "[coordinator]") {
  ServedRun run;
  run.Gather();
  const NodeId node = run.Live(1)[0];
  run.From(node, Beat(Phase::kTraining, 1, 1000));
  run.From(node, skerry::Leave{""});
  run.Restart();
  run.From(node, ServedRun::HelloOf(0));
  run.From(node, Beat(Phase::kStandby, 0, 10));
  run.Pass(1);
  CHECK(nlohmann::json::parse(run.status)["bytes_sent"] == 1010);
  CHECK(run.Fold() == run.state());
}
