#include "pipeline/plan/planner.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <set>

#include "common/rng.h"
#include "common/status.h"
#include "pipeline/plan/validate.h"

#include "pipeline/plan/node_memory.h"
namespace skerry {
namespace {

// Nodes of three regions in turn: quick inside a region, slow between.
struct World {
  std::vector<int32_t> region = {0, 0, 0, 1, 1, 1, 2, 2};
  double noise = 0;  // of every measurement, relative
  uint64_t seed = 1;
};

PlannerInput InputOf(const World& world, const std::vector<uint32_t>& name) {
  constexpr double kRtt[3][3] = {
      {0.002, 0.093, 0.228}, {0.093, 0.002, 0.148}, {0.228, 0.148, 0.002}};
  constexpr double kMbps[3][3] = {{1000, 200, 100}, {200, 1000, 100}, {100, 150, 1000}};
  PlannerInput input;
  Rng rng(world.seed, "noise");
  const auto noisy = [&](double value) {
    return value * (1 + world.noise * (2 * rng.Uniform() - 1));
  };
  for (const uint32_t n : name) {
    input.nodes.push_back(TestNodeId(n));
    input.devices[TestNodeId(n)] = {"cpu", "", noisy(40), int64_t{4} << 30};
  }
  std::sort(input.nodes.begin(), input.nodes.end());
  input.links = LinkMatrix(input.nodes);
  for (size_t i = 0; i < name.size(); ++i) {
    for (size_t j = 0; j < name.size(); ++j) {
      if (i == j) continue;
      const int32_t a = world.region[i];
      const int32_t b = world.region[j];
      input.links.Set(TestNodeId(name[i]), TestNodeId(name[j]), noisy(kRtt[a][b]),
                      noisy(kMbps[a][b] * 125e3));
    }
  }
  return input;
}

std::vector<uint32_t> Names(size_t n) {
  std::vector<uint32_t> names(n);
  std::iota(names.begin(), names.end(), 1);
  return names;
}

PlannerInput InputOf(const World& world) {
  return InputOf(world, Names(world.region.size()));
}

// The plan without the names of nodes.
PipelinePlan Logical(PipelinePlan plan) {
  for (StageAssignment& stage : plan.stages) {
    std::fill(stage.replicas.begin(), stage.replicas.end(), NodeId{});
  }
  plan.settings.round_s = plan.settings.step_s = 0;
  return plan;
}

std::string Refusal(const PlannerInput& input) {
  const auto run = MakePlan(input);
  return run.ok() ? "" : ErrorText(run.status());
}

TEST_CASE("Planner: eight nodes in three regions get a sound plan and an honest bound", "[plan]") {
  const PlannerInput input = InputOf({});
  const auto run = MakePlan(input);
  REQUIRE(run.ok());
  CHECK(ValidatePlan(run->plan, input.config).ok());
  CHECK(ValidateMemory(run->plan, input.config, input.devices).ok());
  CHECK(run->plan.stages.size() == 4);
  CHECK(run->plan.version == 1);
  CHECK(run->lower_bound_s > 0);
  CHECK(run->predicted_step_s >= run->lower_bound_s);
  CHECK(run->predicted_step_s < 5 * run->lower_bound_s);
  CHECK(run->explanation.find("stage 3: layers") != std::string::npos);
}

TEST_CASE("Planner: the same input gives the same plan", "[plan]") {
  const PlannerInput input = InputOf({.noise = 0.1});
  CHECK(MakePlan(input)->plan == MakePlan(input)->plan);
}

TEST_CASE("Planner: measurements place nodes, they never change the logical plan", "[plan]") {
  const auto reference = MakePlan(InputOf({}));
  REQUIRE(reference.ok());
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const auto noisy = MakePlan(InputOf({.noise = 0.1, .seed = seed}));
    REQUIRE(noisy.ok());
    CHECK(Logical(noisy->plan) == Logical(reference->plan));
  }
  const auto moved = MakePlan(InputOf({.region = {2, 1, 0, 1, 2, 0, 2, 2}}));
  CHECK(Logical(moved->plan) == Logical(reference->plan));
}

TEST_CASE("Planner: relabelling the nodes changes no predicted time", "[plan]") {
  const World world{.noise = GENERATE(0.0, 0.1)};
  const double expected = MakePlan(InputOf(world))->predicted_step_s;
  Rng rng(3, "names");
  for (int round = 0; round < 3; ++round) {
    std::vector<uint32_t> names = Names(8);
    for (size_t i = names.size(); i > 1; --i) std::swap(names[i - 1], names[rng.Below(i)]);
    CHECK(MakePlan(InputOf(world, names))->predicted_step_s == expected);
  }
}

TEST_CASE("Planner: slow links are placed where they hurt least", "[plan]") {
  // Regions that alternate: the naive order crosses an ocean at every hop.
  const PlannerInput input = InputOf({.region = {0, 1, 2, 0, 1, 2, 0, 1}});
  const auto run = MakePlan(input);
  REQUIRE(run.ok());
  const auto at = run->explanation.find("placements tried took ");
  REQUIRE(at != std::string::npos);
  CHECK(run->predicted_step_s < std::stod(run->explanation.substr(at + 22)));
}

TEST_CASE(
    "Planner: nodes that are short of memory recompute, and the plan says so and reckons with it",
    "[plan]") {
  PlannerInput input = InputOf({});
  input.config.pipeline.stages = 4;
  input.config.pipeline.sequences_per_microbatch = 32;
  const auto roomy = MakePlan(input);
  REQUIRE(roomy.ok());
  CHECK(roomy->explanation.find("recomputed") == std::string::npos);
  int64_t least = 0;
  for (int32_t stage = 0; stage < 4; ++stage) {
    const RunConfig settled = Settled(input.config, roomy->plan);
    least = std::max(least, MemoryIn(settled, roomy->plan, stage, {1}).each.needed());
  }
  for (auto& [node, device] : input.devices) device.memory_bytes = least;
  const auto tight = MakePlan(input);
  REQUIRE(tight.ok());
  CHECK(tight->explanation.find("layers recomputed") != std::string::npos);
  CHECK(tight->predicted_step_s > 1.05 * roomy->predicted_step_s);
  input.config.pipeline.recompute = Recompute::kNever;
  CHECK(absl::IsResourceExhausted(MakePlan(input).status()));
}

TEST_CASE("Planner: nodes of several devices hold stages that one of their devices does not",
          "[plan]") {
  PlannerInput input = InputOf({});
  input.config.pipeline.stages = 4;
  input.config.pipeline.sequences_per_microbatch = 8;
  input.config.pipeline.recompute = Recompute::kNever;
  const auto roomy = MakePlan(input);
  REQUIRE(roomy.ok());
  const RunConfig settled = Settled(input.config, roomy->plan);
  int64_t least = 0;
  for (int32_t stage = 0; stage < 4; ++stage)
    least = std::max(least, MemoryIn(settled, roomy->plan, stage, {1}).each.needed());
  DeviceProfile four;
  four.numeric_profile = TeamNumericProfile(4, "gpu");
  const MemoryOffer kind = {1, 0, 4};
  int64_t each = 0;
  for (int32_t stage = 0; stage < 4; ++stage)
    each = std::max(each, MemoryIn(settled, roomy->plan, stage, kind).each.needed());
  REQUIRE(static_cast<double>(least) / static_cast<double>(each) > 1.05);
  for (auto& [node, device] : input.devices) device.memory_bytes = each;
  CHECK(absl::IsResourceExhausted(MakePlan(input).status()));

  for (auto& [node, device] : input.devices) device.numeric_profile = four.numeric_profile;

  const auto tight = MakePlan(input);
  REQUIRE(tight.ok());
  for (int32_t stage = 0; stage < 4; ++stage) {
    for (const NodeId& node : tight->plan.stages[static_cast<size_t>(stage)].replicas) {
      const MemoryOffer offer = OfferOf(input.devices.at(node));
      CHECK(MemoryIn(settled, tight->plan, stage, offer).FitsIn(offer));
    }
  }
}

TEST_CASE("Planner: GPUs whose hosts have the room hold stages that their own memory does not",
          "[plan]") {
  PlannerInput input = InputOf({});
  input.config.pipeline.stages = 4;
  input.config.pipeline.recompute = Recompute::kNever;
  input.config.pipeline.offload_activations = Offload::kNever;
  const auto roomy = MakePlan(input);
  REQUIRE(roomy.ok());
  const RunConfig settled = Settled(input.config, roomy->plan);
  const auto most = [&](auto part) {
    int64_t bytes = 0;
    for (int32_t stage = 0; stage < 4; ++stage)
      bytes = std::max(bytes, part(MemoryIn(settled, roomy->plan, stage, {1, 1})));
    return bytes;
  };
  const int64_t device = most([](const NodeMemory& m) { return m.each.needed(); });
  const int64_t host = most([](const NodeMemory& m) { return m.host.needed(); });
  const auto offering = [&](int64_t device_bytes, int64_t host_bytes) {
    for (auto& [node, profile] : input.devices) {
      profile.memory_bytes = device_bytes;
      profile.host_bytes = host_bytes;
    }
    return MakePlan(input);
  };
  CHECK(absl::IsResourceExhausted(offering(device, 0).status()));
  CHECK(absl::IsResourceExhausted(offering(device, host * 9 / 10).status()));
  CHECK(absl::IsResourceExhausted(offering(device * 9 / 10, host).status()));
  const auto tight = offering(device, host);
  REQUIRE(tight.ok());
  CHECK(tight->explanation.find("optimizer on the host") != std::string::npos);
  input.config.pipeline.offload = Offload::kNever;
  CHECK(absl::IsResourceExhausted(offering(device, host).status()));
  CHECK(offering(2 * device, host).ok());
  input.config.pipeline.offload_activations = Offload::kAuto;
  const auto parks = offering(device, 2 * host);
  REQUIRE(parks.ok());
  CHECK(parks->explanation.find("stashes parked") != std::string::npos);
}

TEST_CASE("Planner: from one node to twenty", "[plan]") {
  for (const size_t nodes : {1u, 2u, 3u, 7u, 20u}) {
    World world;
    world.region.clear();
    for (size_t i = 0; i < nodes; ++i) world.region.push_back(static_cast<int32_t>(i % 3));
    PlannerInput input = InputOf(world);
    input.config.model.layers = 24;
    input.config.pipeline.microbatches_per_step = 16;
    CAPTURE(nodes);
    const auto run = MakePlan(input);
    CAPTURE(ErrorText(run.status()));
    REQUIRE(run.ok());
    CHECK(run->predicted_step_s >= run->lower_bound_s * (1 - 1e-12));
  }
}

TEST_CASE("Planner: impossible input is refused with what is missing", "[plan][error]") {
  PlannerInput input = InputOf({});
  SECTION("no nodes") {
    input.nodes.clear();
    CHECK(Refusal(input).find("at least 1") != std::string::npos);
  }
  SECTION("too few nodes") {
    input.config.pipeline.stages = 10;
    input.config.model.layers = 24;
    CHECK(Refusal(input).find("2 more") != std::string::npos);
  }
  SECTION("too few layers") {
    input.config.pipeline.stages = 8;
    input.config.model.layers = 5;
    CHECK(Refusal(input).find("the model has 5") != std::string::npos);
  }
  SECTION("no memory") {
    for (auto& [node, device] : input.devices) device.memory_bytes = 1 << 20;
    CHECK(Refusal(input).find("largest node offers 1.0 MiB") != std::string::npos);
  }
  SECTION("disconnected") {
    for (int32_t other = 1; other < 8; ++other) {
      input.links.At(0, other) = {};
      input.links.At(other, 0) = {};
    }
    CHECK(Refusal(input).find("14 of 56 links do not work") != std::string::npos);
  }
  SECTION("no device profile") {
    input.devices.erase(input.nodes[3]);
    CHECK(Refusal(input).find("no device profile") != std::string::npos);
  }
  SECTION("not measured") {
    input.links = LinkMatrix(std::vector(input.nodes.begin(), input.nodes.end() - 1));
    CHECK(Refusal(input).find("not in the link matrix") != std::string::npos);
  }
}

TEST_CASE("Planner: a repaired plan differs in its dead and its version only", "[plan]") {
  const auto run = MakePlan(InputOf({}));
  REQUIRE(run.ok());
  const NodeId lost = run->plan.stages[2].replicas[1];
  const auto repaired = RepairPlan(run->plan, {lost}, 2);
  REQUIRE(repaired.ok());
  PipelinePlan expected = run->plan;
  expected.version = 2;
  expected.dead = {lost};
  CHECK(*repaired == expected);
  CHECK(ValidatePlan(*repaired, RunConfig{}).ok());
  CHECK(RepairPlan(*repaired, {}, 3)->dead.empty());

  CHECK(absl::IsInvalidArgument(RepairPlan(run->plan, {lost}, 1).status()));
  CHECK(absl::IsInvalidArgument(RepairPlan(run->plan, {TestNodeId(99)}, 2).status()));
  const auto& first = run->plan.stages[0].replicas;
  const auto headless = RepairPlan(run->plan, {first.begin(), first.end()}, 2);
  CHECK(absl::IsFailedPrecondition(headless.status()));
}

TEST_CASE("Planner: what the configuration leaves open of outer rounds stands in the plan",
          "[plan]") {
  PlannerInput input = InputOf({});
  input.config.outer.inner_steps = 0;
  input.config.outer.overlap_steps = -1;
  input.config.outer.tier = OuterTier::kAuto;
  const auto run = MakePlan(input);
  REQUIRE(run.ok());
  const PlannedSettings& settings = run->plan.settings;
  CHECK(settings.inner_steps == 8);
  CHECK(settings.overlap_steps >= 1);
  CHECK(settings.overlap_steps <= 2);
  CHECK(settings.has_codec);
  CHECK(run->explanation.find("outer rounds, chosen: δ ") != std::string::npos);
  const RunConfig settled = Settled(input.config, run->plan);
  CHECK(ValidatePlan(run->plan, settled).ok());

  // The same numbers given by the operator: the same plan, and nothing was chosen.
  PlannerInput given = input;
  given.config = settled;
  const auto same = MakePlan(given);
  REQUIRE(same.ok());
  CHECK(Logical(same->plan).settings == PlannedSettings());
  CHECK(Logical(same->plan).stages == Logical(run->plan).stages);
  CHECK(same->predicted_step_s == Approx(run->predicted_step_s));
}

TEST_CASE(
    "Planner: where memory has no room for two rounds of messages a round may wait, and trains",
    "[plan]") {
  PlannerInput input = InputOf({});
  for (const NodeId& from : input.nodes) {
    for (const NodeId& to : input.nodes) {
      if (from != to) input.links.Set(from, to, 0.02, 50e3);
    }
  }
  input.config.model.hidden = 384;
  input.config.model.context = 16;
  input.config.pipeline.sequences_per_microbatch = 1;
  input.config.pipeline.stages = 4;
  input.config.pipeline.recompute = Recompute::kNever;
  input.config.outer.inner_steps = 8;
  input.config.outer.overlap_steps = -1;
  input.config.outer.codec = DeltaCodec::kNone;
  const auto roomy = MakePlan(input);
  REQUIRE(roomy.ok());
  REQUIRE(roomy->plan.settings.overlap_steps == 8);  // and even that does not hide it
  const auto needs = [&](const PipelinePlan& plan) {
    int64_t most = 0;
    for (int32_t stage = 0; stage < 4; ++stage) {
      most = std::max(most, MemoryIn(Settled(input.config, plan), plan, stage, {1}).each.needed());
    }
    return most;
  };
  PipelinePlan shorter = roomy->plan;
  shorter.settings.overlap_steps = 4;
  REQUIRE(needs(shorter) < needs(roomy->plan));
  for (auto& [node, device] : input.devices) device.memory_bytes = needs(shorter);

  const auto tight = MakePlan(input);

  REQUIRE(tight.ok());
  CHECK(tight->plan.settings.overlap_steps == 4);
  CHECK(tight->explanation.find("more than the") != std::string::npos);
  input.config.outer.overlap_steps = 8;  // given, it stands
  CHECK(absl::IsResourceExhausted(MakePlan(input).status()));
}

TEST_CASE("Planner: noise of measurement does not change what it chooses", "[plan]") {
  std::set<std::pair<int64_t, DeltaCodec>> chosen;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    World world;
    world.noise = 0.05;
    world.seed = seed;
    PlannerInput input = InputOf(world);
    input.config.outer.overlap_steps = -1;
    input.config.outer.tier = OuterTier::kAuto;
    const auto run = MakePlan(input);
    REQUIRE(run.ok());
    chosen.insert({run->plan.settings.overlap_steps, run->plan.settings.codec});
  }
  CHECK(chosen.size() == 1);
}

TEST_CASE("Planner: with a codec for slow links it names them, and predicts a shorter step",
          "[plan]") {
  PlannerInput input = InputOf({});
  for (const NodeId& node : input.nodes) input.devices[node].gflops = 400;  // so that bytes limit
  const auto plain = MakePlan(input);
  input.config.pipeline.slow_link_codec = DeltaCodec::kInt8;
  const auto run = MakePlan(input);
  REQUIRE(plain.ok());
  REQUIRE(run.ok());
  CHECK(plain->plan.slow_links.empty());
  REQUIRE_FALSE(run->plan.slow_links.empty());
  CHECK(std::is_sorted(run->plan.slow_links.begin(), run->plan.slow_links.end()));
  CHECK(run->plan.slow_links.size() < 20);  // of 56
  CHECK(run->predicted_step_s < 0.9 * plain->predicted_step_s);
  CHECK(run->predicted_step_s >= run->lower_bound_s);
  CHECK(Logical(run->plan).paths == Logical(plain->plan).paths);
}

}  // namespace
}  // namespace skerry
