// CheckFree in whole runs on virtual time: a middle stage that loses everybody is made again from
// its neighbours.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>

#include "pipeline/plan/route.h"
#include "sim/virtual_run.h"

using namespace skerry;

namespace {

enum class Way { kUndisturbed, kNeighbours, kCheckpoint };

VirtualRunOptions ThreeStages(VirtualMath math, Way way) {
  VirtualRunOptions options;
  RunConfig& config = options.config;
  config.steps = 64;
  config.nodes_min = 6;
  config.node_silent_s = 6;
  config.replan_s = 0;
  config.model = {
      .vocab = 64, .hidden = 32, .layers = 6, .heads = 2, .kv_heads = 1, .ffn = 64, .context = 16};
  config.outer.inner_steps = 4;
  config.outer.overlap_steps = 1;
  config.pipeline.stages = 3;
  config.pipeline.skip_ratio = 0;
  config.pipeline.microbatches_per_step = 4;
  config.pipeline.sequences_per_microbatch = 1;
  if (way == Way::kNeighbours) config.checkpoint = {0, 2, LostStage::kNeighbours};
  if (way == Way::kCheckpoint) config.checkpoint = {8, 2};
  VirtualNode node;
  node.device = {"simulated", "simulated", 0.002, int64_t{1} << 34};
  node.memory_bytes_per_s = 1e8;
  options.nodes.assign(6, node);
  options.link = [](const NodeId&, const NodeId&) {
    return SimLink{.one_way = Duration::Millis(5), .bytes_per_s = 1e7, .jitter = {}};
  };
  options.math = math;
  options.exports = true;
  options.limit = Duration::Seconds(7200);
  return options;
}

// As soon as stage 0 has that many rounds all of `stage` die, and come back after ten seconds.
void LoseStage(VirtualRun& run, int32_t stage, int64_t rounds) {
  auto watch = std::make_shared<std::function<void(Simulation&)>>();
  *watch = [&run, stage, rounds, watch](Simulation& simulation) {
    const RunState& state = run.checkers().state();
    if (!state.plan || state.RoundsCommitted(0) < rounds) {
      simulation.At(simulation.now() + Duration::Millis(100), *watch);
      return;
    }
    for (const NodeId& node : state.plan->stages[static_cast<size_t>(stage)].replicas) {
      simulation.CrashAt(simulation.now(), node);
      simulation.StartAt(simulation.now() + Duration::Seconds(10), node);
    }
    *watch = nullptr;
  };
  run.simulation().At(Instant() + Duration::Seconds(1), *watch);
}

int64_t Count(const VirtualRun& run, const std::string& kind) {
  return std::count_if(run.events().begin(), run.events().end(),
                       [&](const VirtualEvent& event) { return event.kind == kind; });
}

void CheckSound(const VirtualRun& run, const VirtualOutcome& outcome) {
  for (const Violation& violation : outcome.violations) {
    UNSCOPED_INFO(violation.rule << " at " << (violation.at - Instant()).seconds()
                                 << " s: " << violation.what);
  }
  UNSCOPED_INFO(outcome.ended);
  CHECK(outcome.violations.empty());
  CHECK(outcome.finished);
  CHECK(outcome.steps == run.options().config.steps);
}

std::vector<int32_t> RemadeLayers(const VirtualRun& run) {
  std::vector<int32_t> layers;
  for (const StageAssignment& stage : run.checkers().state().plan->stages) {
    layers.insert(layers.end(), stage.remade.begin(), stage.remade.end());
  }
  return layers;
}

}  // namespace

TEST_CASE(
    "A middle stage that loses everybody is made again from its neighbours, without a "
    "checkpoint",
    "[sim][neighbours]") {
  const auto math = GENERATE(VirtualMath::kTiny, VirtualMath::kModelled);
  VirtualRun run(ThreeStages(math, Way::kNeighbours));
  LoseStage(run, 1, 6);

  CheckSound(run, run.Run());

  CHECK(Count(run, "stage_lost") == 1);
  CHECK(Count(run, "stage_remade") == 1);
  CHECK(run.checkers().rewinds() == 1);
  CHECK(RemadeLayers(run) == std::vector<int32_t>{2, 3});
  const PlanStart& start = run.checkers().state().plan->start;
  CHECK(start.round >= 5);  // at most a round is lost
}

TEST_CASE("The loss after neighbours gave a stage is near that of going back to a checkpoint",
          "[sim][neighbours]") {
  const auto loss_of = [](Way way) {
    VirtualRun run(ThreeStages(VirtualMath::kTiny, way));
    if (way != Way::kUndisturbed) LoseStage(run, 1, 10);
    const VirtualOutcome outcome = run.Run();
    CheckSound(run, outcome);
    const double went_back = static_cast<double>(run.checkers().state().rewound_tokens) /
                             static_cast<double>(outcome.tokens);
    std::cout << (way == Way::kUndisturbed  ? "undisturbed"
                  : way == Way::kNeighbours ? "from its neighbours"
                                            : "from a checkpoint")
              << ": loss " << outcome.loss_first << " to " << outcome.loss_last << ", "
              << 100 * went_back << " % of the tokens read again\n";
    return outcome;
  };
  const VirtualOutcome undisturbed = loss_of(Way::kUndisturbed);
  const VirtualOutcome neighbours = loss_of(Way::kNeighbours);
  const VirtualOutcome checkpoint = loss_of(Way::kCheckpoint);

  const double learnt = undisturbed.loss_first - undisturbed.loss_last;
  REQUIRE(learnt > 0);
  CHECK(undisturbed.loss_first - neighbours.loss_last > 0.8 * learnt);
  CHECK(undisturbed.loss_first - checkpoint.loss_last > 0.8 * learnt);
}

TEST_CASE("Two runs that make a stage from its neighbours have the same bits",
          "[sim][neighbours]") {
  const auto hash_of = [] {
    VirtualRun run(ThreeStages(VirtualMath::kTiny, Way::kNeighbours));
    LoseStage(run, 1, 4);
    return run.Run().trace_hash;
  };
  CHECK(hash_of() == hash_of());
}

TEST_CASE("Ends and last stages come from a checkpoint, whatever is allowed", "[sim][neighbours]") {
  VirtualRunOptions options = ThreeStages(VirtualMath::kModelled, Way::kNeighbours);
  options.config.checkpoint.every_rounds = 2;
  VirtualRun run(options);
  LoseStage(run, GENERATE(0, 2), 6);

  CheckSound(run, run.Run());

  CHECK(Count(run, "stage_not_remade") == 1);
  CHECK(Count(run, "stage_remade") == 0);
  CHECK(run.checkers().rewinds() == 1);
  CHECK(RemadeLayers(run).empty());
}

TEST_CASE("A neighbour that dies while it gives its state is followed by the other replica",
          "[sim][neighbours]") {
  VirtualRun run(ThreeStages(VirtualMath::kModelled, Way::kNeighbours));
  LoseStage(run, 1, 6);
  bool was_killed = false;
  run.WatchMessages([&](Instant, const Message& message) {
    if (was_killed || !std::holds_alternative<CheckpointState>(message)) return;
    was_killed = true;
    const NodeId& node = run.checkers().state().plan->stages[2].replicas[0];
    run.simulation().CrashAt(run.simulation().now(), node);
    run.simulation().StartAt(run.simulation().now() + Duration::Seconds(30), node);
  });

  CheckSound(run, run.Run());

  CHECK(was_killed);
  CHECK(Count(run, "stage_remade") == 1);
}

TEST_CASE(
    "The coordinator dies at any record from the loss of a stage to the plan that has it again",
    "[sim][neighbours]") {
  int64_t first = -1, last = -1;
  {
    VirtualRun run(ThreeStages(VirtualMath::kModelled, Way::kNeighbours));
    LoseStage(run, 1, 4);
    CheckSound(run, run.Run());
    const auto& journal = run.simulation().journal(VirtualRun::coordinator());
    for (size_t i = 0; i < journal.size(); ++i) {
      const std::string kind = nlohmann::json::parse(journal[i]).at("kind");
      if (kind == "life" && first < 0) first = static_cast<int64_t>(i);
      if (kind == "rewind") last = static_cast<int64_t>(i);
    }
  }
  REQUIRE(first > 0);
  REQUIRE(last > first);
  for (int64_t record = first; record <= last + 2; ++record) {
    VirtualRunOptions options = ThreeStages(VirtualMath::kModelled, Way::kNeighbours);
    options.coordinator_crashes = {{record, Duration::Seconds(2)}};
    options.keep_events = false;
    VirtualRun run(options);
    LoseStage(run, 1, 4);
    INFO("it died at record " << record);
    CheckSound(run, run.Run());
    CHECK(run.checkers().rewinds() == 1);
    CHECK(RemadeLayers(run) == std::vector<int32_t>{2, 3});
  }
}

TEST_CASE("A stage that is lost after the end, before it is collected, comes from a checkpoint",
          "[sim][checkpoint]") {
  VirtualRunOptions options = ThreeStages(VirtualMath::kModelled, Way::kCheckpoint);
  options.config.checkpoint.every_rounds = 4;
  VirtualRun run(options);
  auto watch = std::make_shared<std::function<void(Simulation&)>>();
  *watch = [&run, watch](Simulation& simulation) {
    const RunState& state = run.checkers().state();
    if (!state.finished) {
      simulation.At(simulation.now() + Duration::Millis(1), *watch);
      return;
    }
    for (const NodeId& node : state.plan->stages[2].replicas) {
      simulation.CrashAt(simulation.now(), node);
      simulation.StartAt(simulation.now() + Duration::Seconds(3), node);
    }
    *watch = nullptr;
  };
  run.simulation().At(Instant() + Duration::Seconds(1), *watch);

  CheckSound(run, run.Run());

  CHECK(run.checkers().rewinds() == 1);
  CHECK(Count(run, "stage_lost") == 1);
  CHECK(run.checkers().state().plan->start.round > 0);
}
