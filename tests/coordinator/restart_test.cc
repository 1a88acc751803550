// kill -9 of the coordinator at every moment that matters: just before a batch of records is
// durable, and just after, before anything it allows was sent.

#include "common/digest.h"
#include "tests/coordinator/scripted_fleet.h"

using namespace skerry;
using skerry::testing::FinalBase;
using skerry::testing::Node;
using skerry::testing::ScriptedFleet;
using skerry::testing::ServedRun;

namespace {

void IsComplete(const ServedRun& run) {
  const RunState state = run.Fold();
  REQUIRE(run.context.stopped);
  CHECK(run.context.stop_code == 0);
  CHECK(state.exported);
  CHECK(state.nodes.size() == 4);
  CHECK(state.ticket_uses.at("0a0b") == 4);
  CHECK(state.links.size() == 12);
  CHECK(state.plan->version == 1);
  CHECK(state.plan->dead.empty());
  CHECK(state.tokens == 4 * 2 * 10);
  CHECK(state.losses.size() == 4);
  for (int32_t stage = 0; stage < 2; ++stage) {
    CHECK(state.RoundsCommitted(stage) == 2);
    for (int64_t round = 0; round < 2; ++round) {
      CHECK(state.commits.at({stage, round}).participants.size() == 2);
      CHECK(state.applied.at({stage, round}).size() == 2);
    }
    CHECK(run.model.stages.at(state.plan->stages[static_cast<size_t>(stage)].first_layer) ==
          FinalBase(stage));
  }
}

}  // namespace

TEST_CASE("A run without trouble goes from the first Hello to the model", "[coordinator]") {
  ServedRun run;
  ScriptedFleet fleet(run, 4);
  fleet.RunToTheEnd(60);
  IsComplete(run);
  CHECK(run.Fold() == run.state());
  CHECK(run.CountEvents("step") == 4);
  CHECK(run.CountEvents("round") == 4);
  CHECK(run.CountEvents("applied") == 8);
  CHECK(run.CountEvents("dead") == 0);
}

TEST_CASE("Killed at any write, before or after it is durable, the run comes to the same end",
          "[coordinator][restart]") {
  int writes = 0;
  {
    ServedRun run;
    ScriptedFleet fleet(run, 4);
    fleet.RunToTheEnd(60);
    writes = run.writes;
  }
  REQUIRE(writes > 30);
  for (int at = 1; at <= writes; ++at) {
    for (const bool durable : {false, true}) {
      INFO("killed at write " << at << (durable ? ", durable" : ", lost"));
      ServedRun run;
      run.crash_at = at;
      run.crash_keeps = durable;
      ScriptedFleet fleet(run, 4);
      fleet.RunToTheEnd(60);
      REQUIRE(run.lives == 2);
      IsComplete(run);
      CHECK(run.CountEvents("dead") == 0);
    }
  }
}

TEST_CASE(
    "A plan that was durable but never sent is sent after the restart, nobody is taken for "
    "restarted",
    "[coordinator][restart]") {
  ServedRun run;
  run.Gather();
  run.Restart();
  for (int i = 0; i < 4; ++i) run.From(i, ServedRun::HelloOf(i));
  CHECK(run.CountEvents("dead") == 0);
  CHECK(run.state().plan->dead.empty());
  for (int i = 0; i < 4; ++i) CHECK(run.SentTo<PlanUpdate>(Node(i)).size() == 1);
}

TEST_CASE("A node that restarted while the coordinator was away is found out by its empty hands",
          "[coordinator][restart]") {
  ServedRun run;
  run.Gather();
  const NodeId node = run.Live(1)[0];
  Heartbeat beat;
  beat.phase = Phase::kTraining;
  run.From(node, beat);
  run.Restart();
  run.From(node, ServedRun::HelloOf(0));
  CHECK(run.state().plan->dead == std::vector<NodeId>{node});
}

TEST_CASE("After a restart a node gets the commits it has not applied, and no others",
          "[coordinator][restart]") {
  ServedRun run;
  run.Gather();
  const auto replicas = run.Live(1);
  for (int64_t round = 0; round < 3; ++round) {
    for (const NodeId& holder : replicas) {
      for (const NodeId& sender : replicas) run.From(holder, testing::Held(1, round, sender));
    }
  }
  run.Restart();
  Hello hello = ServedRun::HelloOf(0);
  hello.plan_version = 1;
  hello.base_version = 1;
  run.From(replicas[0], hello);
  const auto commits = run.SentTo<RoundCommit>(replicas[0]);
  REQUIRE(commits.size() == 2);
  CHECK(commits[0].round == 1);
  CHECK(commits[1].round == 2);
}

TEST_CASE("A coordinator that comes back gives everybody the full patience anew",
          "[coordinator][restart]") {
  ServedRun run;
  run.Gather();
  const auto hear_one = [&run](int seconds) {
    for (int second = 0; second < seconds; ++second) {
      run.Pass(1);
      run.From(3, Heartbeat());
    }
  };
  hear_one(9);
  run.Restart();
  hear_one(9);
  CHECK(run.CountEvents("dead") == 0);
  hear_one(3);
  CHECK(run.CountEvents("dead") > 0);
}
