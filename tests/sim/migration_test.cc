// Nodes that work are moved in whole runs: what it gains, and that nothing breaks while they go.

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <nlohmann/json.hpp>

#include "pipeline/plan/route.h"
#include "routing/cost_model.h"
#include "sim/virtual_run.h"

using namespace skerry;

namespace {

// Three stages of three; a layer takes a node 50 ms forward.
VirtualRunOptions NineNodes(double replan_s) {
  VirtualRunOptions options;
  RunConfig& config = options.config;
  config.steps = 240;
  config.nodes_min = 9;
  config.node_silent_s = 8;
  config.replan_s = replan_s;
  config.model = {
      .vocab = 64, .hidden = 32, .layers = 6, .heads = 2, .kv_heads = 1, .ffn = 64, .context = 16};
  config.outer.inner_steps = 4;
  config.outer.overlap_steps = 1;
  config.pipeline.stages = 3;
  config.pipeline.skip_ratio = 0;
  config.pipeline.microbatches_per_step = 9;
  config.pipeline.sequences_per_microbatch = 1;
  VirtualNode node;
  node.device = {"simulated", "simulated", LayerForwardFlops(config) / 0.05 * 1e-9,
                 int64_t{1} << 34};
  node.memory_bytes_per_s = 1e8;
  options.nodes.assign(9, node);
  options.link = [](const NodeId&, const NodeId&) {
    return SimLink{.one_way = Duration::Millis(5), .bytes_per_s = 1e7, .jitter = {}};
  };
  options.exports = true;
  options.limit = Duration::Seconds(7200);
  return options;
}

const NodeId& HolderOf(VirtualRun& run, const Slot& slot) {
  return NodeOf(*run.checkers().state().plan, slot);
}

// Two of three replicas of stage 1 go for good.
void LoseTwoAt(VirtualRun& run, double at_s) {
  run.simulation().At(Instant() + Duration::Seconds(at_s), [&run](Simulation& simulation) {
    for (const int32_t replica : {0, 1}) {
      simulation.CrashAt(simulation.now(), HolderOf(run, {1, replica}));
    }
  });
}

int64_t Count(const VirtualRun& run, const std::string& kind) {
  return std::count_if(run.events().begin(), run.events().end(),
                       [&](const VirtualEvent& event) { return event.kind == kind; });
}

// Of the second half.
double MedianStep(const VirtualRun& run) {
  std::vector<double> ends;
  for (const VirtualEvent& event : run.events()) {
    if (event.kind == "step") ends.push_back((event.at - Instant()).seconds());
  }
  std::vector<double> steps;
  for (size_t i = ends.size() / 2; i + 1 < ends.size(); ++i) steps.push_back(ends[i + 1] - ends[i]);
  REQUIRE_FALSE(steps.empty());
  std::sort(steps.begin(), steps.end());
  return steps[steps.size() / 2];
}

void CheckEndsWell(VirtualRun& run, const VirtualOutcome& outcome) {
  INFO(outcome.ended);
  CHECK(outcome.finished);
  for (const Violation& violation : outcome.violations) FAIL_CHECK(violation.rule + violation.what);
  // What a data node had under way when it was moved is lost as if it had died.
  CHECK(outcome.steps >= run.options().config.steps - run.checkers().movers());
}

// When the first migration is journalled, and `after` later.
void WhenMoved(VirtualRun& run, Duration after, const std::function<void(Simulation&)>& then,
               bool* done) {
  run.simulation().At(run.simulation().now() + Duration::Millis(20),
                      [&run, after, then, done](Simulation& simulation) {
                        if (*done) return;
                        if (run.checkers().movers() == 0) return WhenMoved(run, after, then, done);
                        *done = true;
                        simulation.At(simulation.now() + after, then);
                      });
}

NodeId FirstMover(VirtualRun& run) {
  const auto& joining = run.checkers().state().plan->joining;
  REQUIRE_FALSE(joining.empty());
  return joining.front().node;
}

}  // namespace

TEST_CASE("Migration: a stage that lost two of three is given one, and steps are shorter for it",
          "[sim][migration]") {
  const auto math = GENERATE(VirtualMath::kModelled, VirtualMath::kTiny);
  double step_s[2] = {};
  for (const bool moves : {false, true}) {
    VirtualRunOptions options = NineNodes(moves ? 5 : 0);
    options.math = math;
    VirtualRun run(std::move(options));
    LoseTwoAt(run, 20);
    CheckEndsWell(run, run.Run());
    step_s[moves] = MedianStep(run);
    CHECK((run.checkers().movers() >= 1) == moves);
    CHECK((Count(run, "replan") >= 1) == moves);
    CHECK((run.checkers().handovers() >= 1) == moves);
  }
  INFO(step_s[0] << " s, then " << step_s[1] << " s");
  CHECK(step_s[1] < 0.8 * step_s[0]);
}

TEST_CASE("Migration: its mover may die or start again at any moment, or be silent",
          "[sim][migration]") {
  const Duration after = Duration::Millis(GENERATE(0, 20, 60, 150, 400, 1000, 3000));
  const int how = GENERATE(0, 1, 2);
  INFO((how == 0   ? "dies "
        : how == 1 ? "starts again "
                   : "hangs ")
       << after.seconds() << " s after");
  VirtualRun run(NineNodes(5));
  LoseTwoAt(run, 20);
  bool done = false;
  WhenMoved(
      run, after,
      [&](Simulation& simulation) {
        const NodeId mover = FirstMover(run);
        if (how == 2)
          return simulation.Hang(mover, simulation.now(), simulation.now() + Duration::Seconds(15));
        simulation.CrashAt(simulation.now(), mover);
        if (how == 1) simulation.StartAt(simulation.now() + Duration::Millis(100), mover);
      },
      &done);
  CheckEndsWell(run, run.Run());
  CHECK(done);
}

TEST_CASE("Migration: the donor may die at any moment, then the stage is left out",
          "[sim][migration]") {
  const Duration after = Duration::Millis(GENERATE(0, 60, 400, 3000));
  VirtualRunOptions options = NineNodes(5);
  options.config.pipeline.skip_ratio = 0.5;  // else the run ends with the stage
  VirtualRun run(std::move(options));
  LoseTwoAt(run, 20);
  bool done = false;
  WhenMoved(
      run, after,
      [&](Simulation& simulation) {
        simulation.CrashAt(simulation.now(), HolderOf(run, {1, 2}));
      },
      &done);
  const VirtualOutcome outcome = run.Run();
  CHECK(done);
  CHECK(outcome.violations.empty());
  // The last replica of a stage takes its parameters with it, unless the mover has begun.
  CHECK((outcome.finished || Holders(*run.checkers().state().plan, 1).empty()));
}

TEST_CASE("Migration: the coordinator may die at any record around it", "[sim][migration]") {
  VirtualRunOptions calm = NineNodes(5);
  calm.config.steps = 120;
  VirtualRun whole(calm);
  LoseTwoAt(whole, 20);
  CheckEndsWell(whole, whole.Run());
  const auto& journal = whole.simulation().journal(VirtualRun::coordinator());
  RunState state;
  int64_t moved = 0;
  for (size_t i = 0; i < journal.size() && moved == 0; ++i) {
    REQUIRE(state.Apply(journal[i]).ok());
    if (state.migrations > 0) moved = static_cast<int64_t>(i) + 1;
  }
  REQUIRE(moved > 0);
  const Duration away = Duration::Seconds(GENERATE(0.3, 12.0));
  for (int64_t record = moved - 3; record < moved + 12; ++record) {
    VirtualRunOptions troubled = calm;
    troubled.coordinator_crashes[record] = away;
    VirtualRun run(std::move(troubled));
    LoseTwoAt(run, 20);
    INFO("record " << record << ", moved by " << moved);
    CheckEndsWell(run, run.Run());
  }
}

// Two places of a node a stage each, and nodes of one place are far from the other's; at first all
// are near each other, so that the plan mixes them.
TEST_CASE("Migration: nodes whose lines turn slow exchange their slots", "[sim][migration]") {
  double step_s[2] = {};
  for (const bool moves : {false, true}) {
    VirtualRunOptions options = NineNodes(moves ? 3 : 0);
    options.nodes.resize(6);
    options.config.nodes_min = 6;
    options.config.steps = 400;
    options.config.pipeline.microbatches_per_step = 8;
    const auto simulation = std::make_shared<Simulation*>(nullptr);
    options.link = [simulation](const NodeId& from, const NodeId& to) {
      const bool slow = (*simulation)->now() > Instant() + Duration::Seconds(20) &&
                        from != VirtualRun::coordinator() && to != VirtualRun::coordinator() &&
                        (from.bytes[3] % 2) != (to.bytes[3] % 2);
      return SimLink{.one_way = Duration::Millis(slow ? 600 : 5),
                     .bytes_per_s = slow ? 2e5 : 1e7,
                     .jitter = {}};
    };
    VirtualRun run(std::move(options));
    *simulation = &run.simulation();
    CheckEndsWell(run, run.Run());
    step_s[moves] = MedianStep(run);
    CHECK((run.checkers().movers() >= 2) == moves);
  }
  INFO(step_s[0] << " s, then " << step_s[1] << " s");
  CHECK(step_s[1] < 0.8 * step_s[0]);
}

TEST_CASE("Migration: a fast standby takes the place of a slow node", "[sim][migration]") {
  double step_s[2] = {};
  for (const bool moves : {false, true}) {
    VirtualRunOptions options = NineNodes(moves ? 5 : 0);
    options.nodes[4].device.gflops /= 4;
    options.nodes[4].device.name = "slow";
    options.nodes.push_back(options.nodes[0]);
    options.nodes.back().joins = Instant() + Duration::Seconds(30);
    VirtualRun run(std::move(options));
    CheckEndsWell(run, run.Run());
    step_s[moves] = MedianStep(run);
    CHECK((run.checkers().movers() >= 1) == moves);
    if (moves) CHECK_FALSE(SlotOf(*run.checkers().state().plan, VirtualRun::node(4)));
  }
  INFO(step_s[0] << " s, then " << step_s[1] << " s");
  CHECK(step_s[1] < 0.8 * step_s[0]);
}
