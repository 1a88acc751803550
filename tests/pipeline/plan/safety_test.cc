#include "pipeline/plan/safety.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "common/rng.h"
#include "pipeline/plan/memory_model.h"
#include "pipeline/plan/path_table.h"
#include "pipeline/plan/route.h"
#include "pipeline/plan/validate.h"

namespace skerry {
namespace {

PipelinePlan PlanOf(const std::vector<int32_t>& replicas, std::vector<Path> paths,
                    int32_t microbatches) {
  PipelinePlan plan;
  plan.version = 1;
  plan.microbatches_per_step = microbatches;
  uint32_t node = 0;
  for (size_t stage = 0; stage < replicas.size(); ++stage) {
    const auto first = static_cast<int32_t>(stage);
    plan.stages.push_back({first, first + 1, {}});
    for (int32_t r = 0; r < replicas[stage]; ++r) {
      plan.stages.back().replicas.push_back(TestNodeId(++node));
    }
  }
  plan.paths = std::move(paths);
  return plan;
}

// Nodes with places for their stash, of one replica a stage, that make microbatches wait for a
// place: every state they can reach. A microbatch's progress counts its forwards, then its
// backwards.
class WaitingNodes {
 public:
  WaitingNodes(std::vector<std::vector<int32_t>> ways, std::vector<int32_t> places)
      : ways_(std::move(ways)), places_(std::move(places)) {}

  bool CanDeadlock() { return Explore(std::vector<size_t>(ways_.size())); }

 private:
  bool Explore(const std::vector<size_t>& progress) {
    if (!seen_.insert(progress).second) return false;
    std::vector<int32_t> free = places_;
    bool over = true;
    for (size_t m = 0; m < ways_.size(); ++m) {
      const size_t length = ways_[m].size();
      over &= progress[m] == 2 * length;
      const size_t held = progress[m] <= length ? progress[m] : 2 * length - progress[m];
      for (size_t hop = 0; hop < held; ++hop) --free[static_cast<size_t>(ways_[m][hop])];
    }
    if (over) return false;
    bool moved = false;
    for (size_t m = 0; m < ways_.size(); ++m) {
      const size_t length = ways_[m].size();
      if (progress[m] == 2 * length) continue;
      const bool forward = progress[m] < length;
      if (forward && free[static_cast<size_t>(ways_[m][progress[m]])] == 0) continue;
      moved = true;
      std::vector<size_t> next = progress;
      ++next[m];
      if (Explore(next)) return true;
    }
    return !moved;
  }

  std::vector<std::vector<int32_t>> ways_;  // stages, in the order of the path
  std::vector<int32_t> places_;             // [stages]
  std::set<std::vector<size_t>> seen_;
};

bool CanDeadlock(const PipelinePlan& plan, const std::vector<int32_t>& places) {
  std::vector<std::vector<int32_t>> ways;
  for (int32_t m = 0; m < plan.microbatches_per_step; ++m) {
    ways.emplace_back();
    for (const Slot& slot : PathOf(plan, 0, m)) ways.back().push_back(slot.stage);
  }
  return WaitingNodes(std::move(ways), places).CanDeadlock();
}

SlotCounts OfSingles(const std::vector<int32_t>& places) {
  SlotCounts counts;
  for (const int32_t count : places) counts.push_back({count});
  return counts;
}

TEST_CASE("Safety: two nodes with a place each that are visited in either order lock up",
          "[plan][safety]") {
  const Path there = {{0, 0}, {1, 0}, {2, 0}};
  const Path swapped = {{0, 0}, {2, 0}, {1, 0}};
  const PipelinePlan plan = PlanOf({1, 1, 1}, {there, swapped}, 2);

  REQUIRE(CanDeadlock(plan, {2, 1, 1}));
  const absl::Status status = CheckNoDeadlock(plan, 2, OfSingles({2, 1, 1}));
  CHECK(absl::IsFailedPrecondition(status));
  CHECK(status.ToString().find("1/0, 2/0") != std::string::npos);

  // One more place on either, a window of one, or one order for all: nothing can lock up.
  CHECK(CheckNoDeadlock(plan, 2, OfSingles({2, 2, 1})).ok());
  CHECK(CheckNoDeadlock(plan, 2, OfSingles({2, 1, 2})).ok());
  CHECK(CheckNoDeadlock(plan, 1, OfSingles({1, 1, 1})).ok());
  CHECK(CheckNoDeadlock(PlanOf({1, 1, 1}, {there, there}, 2), 2, OfSingles({2, 1, 1})).ok());
  CHECK_FALSE(CanDeadlock(plan, {2, 2, 1}));
}

TEST_CASE("Safety: the banker's check never says safe where a state without a way on is reached",
          "[plan][safety]") {
  Rng rng(11, "little plans");
  int deadlocks = 0;
  int alarms = 0;
  for (int round = 0; round < 400; ++round) {
    const auto stages = static_cast<int32_t>(3 + rng.Below(2));
    const auto microbatches = static_cast<int32_t>(2 + rng.Below(4));
    std::vector<Path> paths;
    for (int32_t m = 0; m < microbatches; ++m) {
      Path path = {{0, 0}};
      for (int32_t stage = 1; stage < stages; ++stage) path.push_back({stage, 0});
      for (size_t i = path.size(); i > 2; --i) {
        std::swap(path[i - 1], path[1 + rng.Below(i - 1)]);
      }
      if (rng.Below(3) == 0) path.pop_back();
      paths.push_back(path);
    }
    std::vector<int32_t> places = {microbatches};
    for (int32_t stage = 1; stage < stages; ++stage) {
      places.push_back(static_cast<int32_t>(1 + rng.Below(2)));
    }
    const PipelinePlan plan =
        PlanOf(std::vector<int32_t>(static_cast<size_t>(stages), 1), paths, microbatches);
    CAPTURE(round);
    const bool can = CanDeadlock(plan, places);
    const bool alarm = !CheckNoDeadlock(plan, microbatches, OfSingles(places)).ok();
    if (can) REQUIRE(alarm);
    deadlocks += can ? 1 : 0;
    alarms += alarm ? 1 : 0;
  }
  CHECK(deadlocks > 50);
  CHECK(alarms < deadlocks + deadlocks / 5);  // and seldom cries wolf
}

TEST_CASE("Safety: with the memory that is planned for, no plan of ours waits for a place",
          "[plan][safety]") {
  Rng rng(1, "tables");
  for (int round = 0; round < 250; ++round) {
    const auto base = static_cast<int32_t>(1 + rng.Below(6));
    std::vector<int32_t> replicas = {base};
    for (uint64_t left = rng.Below(7); left > 0; --left) {
      replicas.push_back(base + static_cast<int32_t>(rng.Below(2)));
    }
    RunConfig config;
    config.pipeline.microbatches_per_step = base + static_cast<int32_t>(rng.Below(40));
    config.pipeline.in_flight = 1 + static_cast<int32_t>(rng.Below(6));
    config.pipeline.swaps = static_cast<int32_t>(rng.Below(3));
    config.pipeline.skip_ratio = static_cast<double>(rng.Below(4)) / 6;
    config.model.layers = static_cast<int32_t>(replicas.size());
    const PipelinePlan plan =
        PlanOf(replicas,
               MakePathTable({replicas, config.pipeline.skip_ratio, config.pipeline.swaps,
                              config.pipeline.microbatches_per_step, config.seed}),
               config.pipeline.microbatches_per_step);
    CAPTURE(round, replicas, config.pipeline.microbatches_per_step, config.pipeline.skip_ratio);
    const absl::Status sound = ValidatePlan(plan, config);
    CAPTURE(sound.ToString());
    REQUIRE(sound.ok());

    SlotCounts planned;
    const SlotCounts held = HeldAtMost(plan, config.pipeline.in_flight);
    for (size_t stage = 0; stage < replicas.size(); ++stage) {
      const int32_t most = HeldMax(config, replicas[0], replicas[stage], stage == 0);
      planned.emplace_back(static_cast<size_t>(replicas[stage]), most);
      for (const int32_t count : held[stage]) REQUIRE(count <= most);
    }
    REQUIRE(CheckNoDeadlock(plan, config.pipeline.in_flight, planned).ok());
  }
}

TEST_CASE("Safety: who stands in for the dead holds more than its memory was planned for",
          "[plan][safety]") {
  // Nothing pushes back but the origins' windows: when one of two replicas dies, the other is sent
  // all that both were. The windows bound that, the share of a step no longer does.
  RunConfig config;
  config.pipeline.microbatches_per_step = 8;
  config.pipeline.in_flight = 4;
  PipelinePlan plan = PlanOf({2, 2}, MakePathTable({{2, 2}, 0, 0, 8, 1}), 8);
  const int32_t planned = HeldMax(config, 2, 2, false);
  CHECK(HeldAtMost(plan, 4)[1][0] == 4);

  plan.dead = {plan.stages[1].replicas[1]};
  const SlotCounts held = HeldAtMost(plan, 4);
  CHECK(held[1] == std::vector<int32_t>{8, 0});
  CHECK(held[1][0] > planned);
  CHECK(held[1][0] <= config.pipeline.in_flight * 2);
}

}  // namespace
}  // namespace skerry
