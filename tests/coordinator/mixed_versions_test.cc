// Programs of before in a run whose plan may use what they do not know
// (docs/decisions/0072-spread.md).

#include <algorithm>
#include <catch2/catch.hpp>

#include "coordinator/listings.h"
#include "coordinator/nodes_table.h"
#include "pipeline/plan/route.h"
#include "tests/coordinator/kept_run.h"

using namespace skerry;
using skerry::testing::Kept;
using skerry::testing::Node;
using skerry::testing::ServedRun;
using skerry::testing::SmallRun;

namespace {

Hello HelloOf(int node, bool spreads, uint64_t process = 1) {
  Hello hello = ServedRun::HelloOf(node);
  hello.device.spreads = spreads;
  hello.process = process;
  return hello;
}

// All of them know how to spread, but for `older`.
void Gather(ServedRun& run, int older = -1) {
  for (int i = 0; i < 4; ++i) run.From(i, HelloOf(i, i != older));
  run.AnswerProbes();
}

bool TakesPart(const ServedRun& run, int node) {
  const std::vector<NodeId> first = run.Live(0), second = run.Live(1);
  return std::count(first.begin(), first.end(), Node(node)) +
             std::count(second.begin(), second.end(), Node(node)) >
         0;
}

// Seconds in which node 3 stands by and the others train.
void Train(ServedRun& run, int seconds) {
  for (int second = 0; second < seconds; ++second) {
    for (int i = 0; i < 4; ++i) {
      Heartbeat beat;
      beat.phase = i == 3 ? Phase::kStandby : Phase::kTraining;
      run.From(i, beat);
    }
    run.Pass(1);
    run.RunJobs();
  }
}

}  // namespace

TEST_CASE("Mixed versions: who comes back with an older program than its slot wants stands by",
          "[coordinator]") {
  const bool spreads = GENERATE(false, true);
  RunConfig config = SmallRun();
  config.steps = 40;  // enough for a joiner
  ServedRun run(config);
  Gather(run);
  run.RunJobs();
  REQUIRE(run.state().plan->settings.spreads);
  run.From(3, HelloOf(3, spreads, 2));
  CHECK_FALSE(TakesPart(run, 3));
  Train(run, 20);
  CHECK((JoinerOf(*run.state().plan, Node(3)) != nullptr) == spreads);
}

TEST_CASE("Mixed versions: a slot does not wait because somebody too old for it stands by",
          "[coordinator]") {
  RunConfig config = SmallRun();
  config.steps = 40;
  ServedRun run(config);
  Gather(run);
  run.RunJobs();
  const auto listed = [&] { return NodesTable(NodesJson(run.Fold(), run.config, nullptr), 0); };
  run.From(3, HelloOf(3, false, 2));
  Train(run, 3);
  REQUIRE(JoinerOf(*run.state().plan, Node(3)) == nullptr);
  CHECK(listed().find("too old") != std::string::npos);

  run.From(3, HelloOf(3, true, 3));
  CHECK(listed().find("too old") == std::string::npos);
  Train(run, 3);

  CHECK(JoinerOf(*run.state().plan, Node(3)) != nullptr);
}

TEST_CASE(
    "Mixed versions: who becomes older while the plan is made is not in one that it does "
    "not know",
    "[coordinator]") {
  ServedRun run;
  Gather(run);
  REQUIRE(run.context.jobs.size() == 1);
  run.From(3, HelloOf(3, false, 2));
  run.RunJobs();
  CHECK_FALSE(run.state().plan);
  run.Pass(1);
  run.AnswerProbes();
  run.RunJobs();
  REQUIRE(run.state().plan);
  CHECK(TakesPart(run, 3));
  CHECK_FALSE(run.state().plan->settings.spreads);
}

TEST_CASE("Mixed versions: a run that goes back spreads if those know who are here then",
          "[coordinator][checkpoint]") {
  const bool before = GENERATE(false, true), after = GENERATE(false, true);
  Kept kept;
  Gather(kept.run, before ? -1 : 3);
  kept.run.RunJobs();
  kept.OneRound(0);
  kept.MakeOne();
  kept.OneRound(1);
  const PlannedSettings settings = kept.run.state().plan->settings;
  CHECK(settings.spreads == before);
  for (const NodeId& node : kept.run.Live(1)) kept.run.From(node, Leave{"gone"});

  Gather(kept.run, after ? -1 : 3);
  kept.run.Pass(1);
  kept.run.RunJobs();

  REQUIRE(kept.run.state().lost.empty());
  PlannedSettings expected = settings;
  expected.spreads = after;
  CHECK(kept.run.state().plan->settings == expected);
}
