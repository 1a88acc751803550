// Nodes that hold more than the journal: an older copy of it is served.

#include "tests/coordinator/served_run.h"

using namespace skerry;
using skerry::testing::Node;
using skerry::testing::ServedRun;

namespace {

Hello Holding(int node, int64_t plan_version, int64_t base_version) {
  Hello hello = ServedRun::HelloOf(node);
  hello.plan_version = plan_version;
  hello.step = 2 * base_version;
  hello.base_version = base_version;
  return hello;
}

Heartbeat Trains(int64_t step, int64_t base_version) {
  Heartbeat beat;
  beat.phase = Phase::kTraining;
  beat.step = step;
  beat.base_version = base_version;
  return beat;
}

// All four know plan 1; then the coordinator is another process.
void GatherAndRestart(ServedRun& run) {
  run.Gather();
  for (int i = 0; i < 4; ++i) run.From(i, Trains(0, 0));
  run.Restart();
}

int IndexOf(const NodeId& node) {
  int index = 0;
  while (Node(index) != node) ++index;
  return index;
}

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("Where all of a stage have more rounds than the journal, the coordinator ends untold",
          "[coordinator][restart]") {
  ServedRun run;
  GatherAndRestart(run);
  for (int i = 0; i < 4; ++i) {
    run.From(i, Holding(i, 1, 1));
    run.From(i, StepReport{0, {{0, 10, 1.0f}, {1, 10, 1.0f}}});
    run.From(i, Trains(2, 1));
  }
  run.Pass(2);
  REQUIRE(run.context.stopped);
  CHECK(run.context.stop_code == 1);
  CHECK(Has(run.context.stop_reason, "[SK-journal-older]"));
  CHECK(run.state().losses.empty());
  CHECK(run.state().written_off.empty());
  CHECK(run.CountEvents("dead") == 0);
  for (int i = 0; i < 4; ++i) {
    CHECK(run.SentTo<Shutdown>(Node(i)).empty());
    CHECK(run.SentTo<PlanUpdate>(Node(i)).empty());
  }
}

TEST_CASE("Where all of a stage know a later plan, the coordinator ends",
          "[coordinator][restart]") {
  ServedRun run;
  GatherAndRestart(run);
  for (const NodeId& node : run.Live(1)) run.From(node, Holding(IndexOf(node), 3, 0));
  run.Pass(2);
  CHECK(run.context.stopped);
}

TEST_CASE("Who may yet say that it knows no more is waited for", "[coordinator][restart]") {
  ServedRun run;
  GatherAndRestart(run);
  const std::vector<NodeId> replicas = run.Live(1);
  run.From(replicas[0], Holding(IndexOf(replicas[0]), 1, 1));
  run.Pass(3);
  CHECK_FALSE(run.context.stopped);
  CHECK(run.CountEvents("dead") == 0);
  run.From(replicas[1], Holding(IndexOf(replicas[1]), 1, 0));
  run.Pass(2);
  CHECK_FALSE(run.context.stopped);
  CHECK(run.CountEvents("dead") == 1);
  CHECK(run.LastEvent("dead").at("node") == replicas[0].Short());
}

TEST_CASE("One that has more than the rest of its stage starts over, and stands by",
          "[coordinator][restart]") {
  ServedRun run;
  GatherAndRestart(run);
  const NodeId liar = run.Live(0)[0];
  for (int i = 0; i < 4; ++i) {
    run.From(i, Node(i) == liar ? Holding(i, int64_t{1} << 62, 7) : Holding(i, 1, 0));
  }
  run.TakeSends();
  run.Pass(2);
  CHECK_FALSE(run.context.stopped);
  CHECK(run.CountEvents("dead") == 1);
  REQUIRE_FALSE(run.SentTo<PlanUpdate>(liar).empty());
  const PipelinePlan told = run.SentTo<PlanUpdate>(liar).back().plan;
  CHECK(told.version > int64_t{1} << 62);
  CHECK(told.stages.empty());
  CHECK(run.state().plan->version == 2);
  run.From(liar, ServedRun::HelloOf(IndexOf(liar)));
  CHECK(run.CountEvents("returned") == 1);
}

TEST_CASE("A node that takes no part and knows a later plan starts over, too",
          "[coordinator][restart]") {
  ServedRun run;
  run.ticket_uses = 8;
  GatherAndRestart(run);
  run.From(5, Holding(5, 9, 0));
  run.Pass(1.5);
  CHECK_FALSE(run.context.stopped);
  CHECK(run.SentTo<PlanUpdate>(Node(5)).size() == 1);
}

TEST_CASE("Before the plan nobody knows one, unless the journal lacks it",
          "[coordinator][restart]") {
  ServedRun run;
  for (int i = 0; i < 3; ++i) run.From(i, Holding(i, 1, 1));
  run.Pass(2);
  CHECK_FALSE(run.context.stopped);
  SECTION("all who are needed for one say so: it does") {
    run.From(3, Holding(3, 1, 1));
    run.Pass(2);
    CHECK(run.context.stopped);
  }
  SECTION("with one who knows none the others begin anew") {
    run.From(3, ServedRun::HelloOf(3));
    run.Pass(2);
    CHECK_FALSE(run.context.stopped);
    for (int i = 0; i < 3; ++i) {
      CHECK(run.SentTo<PlanUpdate>(Node(i)).size() == 1);
      run.From(i, ServedRun::HelloOf(i));
    }
    run.AnswerProbes();
    run.RunJobs();
    CHECK(run.state().plan);
  }
}
