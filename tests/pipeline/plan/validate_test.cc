#include "pipeline/plan/validate.h"

#include <catch2/catch.hpp>
#include <functional>

namespace skerry {
namespace {

RunConfig Config() {
  RunConfig config;
  config.model.layers = 3;
  config.pipeline.skip_ratio = 0.5;
  config.pipeline.microbatches_per_step = 2;
  return config;
}

// Three stages of one layer; each path skips one of the later two.
PipelinePlan Plan() {
  PipelinePlan plan;
  plan.version = 1;
  plan.microbatches_per_step = 2;
  for (int32_t s = 0; s < 3; ++s) {
    plan.stages.push_back({s, s + 1, {TestNodeId(static_cast<uint32_t>(s))}});
  }
  plan.paths = {{{0, 0}, {1, 0}}, {{0, 0}, {2, 0}}};
  return plan;
}

TEST_CASE("Validate: a stage that cuts a ladder is refused", "[plan][error]") {
  RunConfig config = Config();
  config.model.layers = 4;
  config.pipeline.skip_ratio = 0;
  PipelinePlan plan = Plan();
  plan.stages = {{0, 2, {TestNodeId(0)}}, {2, 4, {TestNodeId(1)}}};
  plan.paths = {{{0, 0}, {1, 0}}};
  REQUIRE(ValidatePlan(plan, config).ok());
  config.model.ladder = 2;
  CHECK(ValidatePlan(plan, config).ok());
  plan.stages[0].last_layer = plan.stages[1].first_layer = 1;
  const std::string said(ValidatePlan(plan, config).message());
  CHECK(said.find("stage 0 ends at layer 1, where [model] ladder of 2 does not") == 0);
}

TEST_CASE("Validate: a sound plan passes, every breach of it does not", "[plan]") {
  CHECK(ValidatePlan(Plan(), Config()).ok());
  const std::vector<std::function<void(PipelinePlan&)>> breaches = {
      [](PipelinePlan& p) { p.stages.pop_back(); },
      [](PipelinePlan& p) { p.stages[1].last_layer = 3; },
      [](PipelinePlan& p) { p.stages[1].first_layer = 2; },
      [](PipelinePlan& p) { p.stages[2].replicas[0] = TestNodeId(0); },
      [](PipelinePlan& p) { p.stages[2].replicas.clear(); },
      [](PipelinePlan& p) { p.microbatches_per_step = 3; },
      [](PipelinePlan& p) { p.paths.clear(); },
      [](PipelinePlan& p) {
        p.paths[0] = {{1, 0}, {0, 0}};
      },
      [](PipelinePlan& p) { p.paths[0] = {}; },
      [](PipelinePlan& p) {
        p.paths[0] = {{0, 0}, {1, 1}};
      },
      [](PipelinePlan& p) {
        p.paths[0] = {{0, 0}, {3, 0}};
      },
      [](PipelinePlan& p) {
        p.paths[0] = {{0, 0}, {1, 0}, {1, 0}};
      },
      [](PipelinePlan& p) {
        p.paths[0] = {{0, 0}, {2, 0}};
      },
      [](PipelinePlan& p) {
        p.paths.assign(4, {{0, 0}, {1, 0}, {2, 0}});
      },
      [](PipelinePlan& p) {
        p.paths = {{{0, 0}, {2, 0}, {1, 0}}, {{0, 0}}};
      },
      [](PipelinePlan& p) { p.dead = {TestNodeId(7)}; },
      [](PipelinePlan& p) {
        p.dead = {TestNodeId(2), TestNodeId(1)};
      },
  };
  for (size_t i = 0; i < breaches.size(); ++i) {
    PipelinePlan plan = Plan();
    breaches[i](plan);
    CAPTURE(i);
    CHECK(absl::IsInvalidArgument(ValidatePlan(plan, Config())));
  }
}

TEST_CASE("Validate: what the configuration leaves open is chosen, in range, and nothing else is",
          "[plan]") {
  RunConfig open = Config();
  open.steps = 64;
  open.outer.inner_steps = 0;
  open.outer.overlap_steps = -1;
  open.outer.tier = OuterTier::kAuto;
  open.pipeline.in_flight = 0;
  open.pipeline.sequences_per_microbatch = 0;
  open.pipeline.sequences_per_step = 6;
  open.pipeline.microbatches_per_step = 99;  // of no meaning then
  PipelinePlan chosen = Plan();
  chosen.settings = {.inner_steps = 16,
                     .overlap_steps = 4,
                     .has_codec = true,
                     .sequences_per_microbatch = 3,
                     .in_flight = 2};
  const absl::Status sound = ValidatePlan(chosen, open);
  CAPTURE(sound.ToString());
  REQUIRE(sound.ok());
  CHECK_FALSE(ValidatePlan(chosen, Config()).ok());
  CHECK_FALSE(ValidatePlan(Plan(), open).ok());

  const std::vector<std::function<void(PlannedSettings&)>> breaches = {
      [](PlannedSettings& s) { s.inner_steps = 0; },
      [](PlannedSettings& s) { s.inner_steps = 48; },
      [](PlannedSettings& s) { s.inner_steps = -16; },
      [](PlannedSettings& s) { s.overlap_steps = -1; },
      [](PlannedSettings& s) { s.overlap_steps = 17; },
      [](PlannedSettings& s) { s.has_codec = false; },
      [](PlannedSettings& s) { s.codec = static_cast<DeltaCodec>(200); },
      [](PlannedSettings& s) { s.sequences_per_microbatch = 4; },
      [](PlannedSettings& s) { s.in_flight = 0; },
      [](PlannedSettings& s) { s.in_flight = -1; },
  };
  for (size_t i = 0; i < breaches.size(); ++i) {
    PipelinePlan plan = chosen;
    breaches[i](plan.settings);
    CAPTURE(i);
    CHECK(absl::IsInvalidArgument(ValidatePlan(plan, open)));
  }
}

TEST_CASE("Validate: slow links are sorted, each once, between nodes of the plan", "[plan]") {
  const NodeId a = TestNodeId(0), b = TestNodeId(1), c = TestNodeId(2);
  PipelinePlan plan = Plan();
  plan.slow_links = {{a, b}, {a, c}, {c, a}};
  CHECK(ValidatePlan(plan, Config()).ok());
  const std::vector<std::vector<SlowLink>> breaches = {
      {{a, c}, {a, b}}, {{a, b}, {a, b}}, {{a, a}}, {{a, TestNodeId(9)}}, {{TestNodeId(9), a}}};
  for (const std::vector<SlowLink>& links : breaches) {
    plan.slow_links = links;
    CHECK(absl::IsInvalidArgument(ValidatePlan(plan, Config())));
  }
}

// Stage 0 and `replicas` of stage 1, a microbatch each in turn.
PipelinePlan InTurns(const std::vector<int32_t>& turns, int32_t replicas) {
  PipelinePlan plan;
  plan.version = 1;
  plan.microbatches_per_step = 2;
  plan.stages = {{0, 2, {TestNodeId(0)}}, {2, 3, {}}};
  for (int32_t r = 0; r < replicas; ++r) {
    plan.stages[1].replicas.push_back(TestNodeId(static_cast<uint32_t>(r) + 1));
  }
  for (const int32_t turn : turns) plan.paths.push_back({{0, 0}, {1, turn}});
  return plan;
}

TEST_CASE("Validate: replicas share any hundred steps evenly, wherever these begin", "[plan]") {
  RunConfig config = Config();
  config.pipeline.skip_ratio = 0;
  CHECK(WorstParticipation(InTurns({0, 1}, 2)).replicas == 1);
  CHECK(ValidatePlan(InTurns({0, 1}, 2), config).ok());

  // Even over the table of 300, not over 200 paths of it, whether they wrap round its end or not.
  std::vector<int32_t> turns(300);
  for (size_t i = 0; i < turns.size(); ++i) turns[i] = i < 150 ? 0 : 1;
  const PipelinePlan blocks = InTurns(turns, 2);
  CHECK(WorstParticipation(blocks).replicas == Approx(3));  // 150 and 50
  CHECK(WorstParticipation(blocks).replicas_apart == 100);
  CHECK(absl::IsInvalidArgument(ValidatePlan(blocks, config)));

  // One table in seven paths gives replica 0 four turns: 115 of 200, where 3 : 3 would do.
  CHECK_FALSE(ValidatePlan(InTurns({0, 1, 0, 1, 0, 1, 0}, 2), config).ok());
}

TEST_CASE("Validate: more replicas than the longest table deals evenly are one visit apart in it",
          "[plan]") {
  RunConfig config = Config();
  config.pipeline.skip_ratio = 0;
  config.pipeline.microbatches_per_step = 200;
  const auto through_100 = [](size_t paths) {
    std::vector<int32_t> turns(paths);
    for (size_t i = 0; i < paths; ++i) turns[i] = static_cast<int32_t>(i % 100);
    PipelinePlan plan = InTurns(turns, 100);
    plan.microbatches_per_step = 200;
    return plan;
  };
  CHECK(ValidatePlan(through_100(512), config).ok());        // six or five each
  CHECK_FALSE(ValidatePlan(through_100(256), config).ok());  // three or two: 300 would do
}

TEST_CASE("Validate: a plan follows another if only nodes have changed", "[plan]") {
  const PipelinePlan before = Plan();
  PipelinePlan next = before;
  next.version = 2;
  next.dead = {TestNodeId(2)};
  next.slow_links = {{TestNodeId(0), TestNodeId(1)}};
  CHECK(ValidateNext(before, next).ok());
  next.dead.clear();
  next.stages[2].replicas[0] = TestNodeId(7);
  next.joining = {{TestNodeId(7), 2, 0, -1, -1}};
  CHECK(ValidateNext(before, next).ok());
  PipelinePlan fixed = next;
  fixed.version = 3;
  fixed.joining[0].from_step = 16;
  fixed.joining[0].from_round = 1;
  CHECK(ValidateNext(next, fixed).ok());

  const std::vector<std::function<void(PipelinePlan&)>> breaches = {
      [](PipelinePlan& p) { p.version = 1; },
      [](PipelinePlan& p) { p.version = 3; },
      [](PipelinePlan& p) { p.stages.pop_back(); },
      [](PipelinePlan& p) { p.stages[1].last_layer = 3; },
      [](PipelinePlan& p) { p.stages[1].replicas.push_back(TestNodeId(8)); },
      [](PipelinePlan& p) { std::swap(p.paths[0], p.paths[1]); },
      [](PipelinePlan& p) { p.microbatches_per_step = 1; },
      [](PipelinePlan& p) { p.settings.inner_steps = 8; },
      [](PipelinePlan& p) { p.joining[0].since = 1; },
  };
  for (size_t i = 0; i < breaches.size(); ++i) {
    PipelinePlan plan = next;
    breaches[i](plan);
    CAPTURE(i);
    CHECK(absl::IsInvalidArgument(ValidateNext(before, plan)));
  }
  PipelinePlan moved = fixed;
  moved.version = 4;
  moved.joining[0].from_step = 32;
  CHECK(absl::IsInvalidArgument(ValidateNext(fixed, moved)));
}

TEST_CASE("Validate: a node that can be sent more than its memory was reckoned for is named",
          "[plan]") {
  // All of eight microbatches through one of two replicas: planned for are half of them and two.
  RunConfig config;
  PipelinePlan plan = InTurns({0}, 2);
  plan.microbatches_per_step = 8;
  std::map<NodeId, DeviceProfile> devices;
  for (uint32_t i = 0; i < 3; ++i) devices[TestNodeId(i)].memory_bytes = int64_t{1} << 40;
  config.pipeline.in_flight = 8;
  const absl::Status status = ValidateMemory(plan, config, devices);
  CHECK(absl::IsResourceExhausted(status));
  CHECK(status.ToString().find("8 microbatches at once") != std::string::npos);
}

TEST_CASE("Validate: swaps are allowed where the run allows them", "[plan]") {
  PipelinePlan plan = Plan();
  plan.paths = {{{0, 0}, {2, 0}, {1, 0}}};
  RunConfig config = Config();
  config.pipeline.skip_ratio = 0;
  CHECK_FALSE(ValidatePlan(plan, config).ok());
  config.pipeline.swaps = 1;
  CHECK(ValidatePlan(plan, config).ok());
}

TEST_CASE("Validate: a node without the memory of its stage is named", "[plan]") {
  std::map<NodeId, DeviceProfile> devices;
  for (uint32_t i = 0; i < 3; ++i) devices[TestNodeId(i)].memory_bytes = int64_t{1} << 30;
  CHECK(ValidateMemory(Plan(), Config(), devices).ok());
  devices[TestNodeId(1)].memory_bytes = 1000;
  CHECK(absl::IsResourceExhausted(ValidateMemory(Plan(), Config(), devices)));
  devices[TestNodeId(1)].memory_bytes = 0;
  CHECK(ValidateMemory(Plan(), Config(), devices).ok());
  devices.erase(TestNodeId(1));
  CHECK(absl::IsInvalidArgument(ValidateMemory(Plan(), Config(), devices)));
}

}  // namespace
}  // namespace skerry
