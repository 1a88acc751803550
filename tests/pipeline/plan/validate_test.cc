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
