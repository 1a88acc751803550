// CheckFree in whole runs on virtual time: a middle stage that loses everybody is made again from
// its neighbours.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>

#include "pipeline/plan/route.h"
#include "tests/sim/checkpointed_fleet.h"

using namespace skerry;
using skerry::testing::AlikeNodes;
using skerry::testing::CheckSound;
using skerry::testing::Count;

namespace {

enum class Way { kUndisturbed, kNeighbours, kCheckpoint };

VirtualRunOptions ThreeStages(VirtualMath math, Way way) {
  VirtualRunOptions options = AlikeNodes(6, 3, math);
  options.config.steps = 64;
  if (way == Way::kNeighbours) options.config.checkpoint = {0, 2, LostStage::kNeighbours};
  if (way == Way::kCheckpoint) options.config.checkpoint = {8, 2};
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
