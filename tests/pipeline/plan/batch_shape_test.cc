#include "pipeline/plan/batch_shape.h"

#include <catch2/catch.hpp>

#include "common/status.h"
#include "pipeline/plan/memory_model.h"
#include "pipeline/plan/planner.h"

namespace skerry {
namespace {

RunConfig OpenRun(int32_t sequences) {
  RunConfig config;
  config.model.layers = 8;
  config.pipeline.stages = 4;
  config.pipeline.skip_ratio = 0;
  config.pipeline.sequences_per_microbatch = 0;
  config.pipeline.sequences_per_step = sequences;
  config.pipeline.in_flight = 0;
  return config;
}

NominalFleet Fleet8(double rtt_s, double bytes_per_s) {
  return {std::vector<double>(8, 64.0), std::vector<MemoryOffer>(8), rtt_s, bytes_per_s};
}

BatchShape Chosen(const RunConfig& config, const NominalFleet& fleet) {
  auto shape = ChooseBatch(config, fleet);
  INFO(ErrorText(shape.status()));
  REQUIRE(shape.ok());
  return *std::move(shape);
}

TEST_CASE("Batch shape: what the operator gave stays as it is", "[plan]") {
  const BatchShape shape = Chosen({}, Fleet8(0.05, 1e7));
  CHECK(shape.config == RunConfig());
  CHECK(shape.why.empty());
}

TEST_CASE("Batch shape: the cut is a whole one that divides over the first replicas", "[plan]") {
  const int32_t sequences = GENERATE(12, 32, 60);
  const BatchShape shape = Chosen(OpenRun(sequences), Fleet8(0.016, 1.6e7));
  const PipelineConfig& pipeline = shape.config.pipeline;
  CHECK(pipeline.sequences_per_microbatch * pipeline.microbatches_per_step == sequences);
  CHECK(pipeline.microbatches_per_step % 2 == 0);
  CHECK(pipeline.in_flight >= 1);
  CHECK_FALSE(IsBatchOpen(shape.config));
  CHECK(shape.why.find("sequences a step as") != std::string::npos);
}

TEST_CASE("Batch shape: no shape tried is faster by more than its tolerance", "[plan]") {
  const RunConfig open = OpenRun(32);
  const NominalFleet fleet = Fleet8(0.256, 4e6);
  const auto chosen = NominalStepSeconds(Chosen(open, fleet).config, fleet);
  REQUIRE(chosen.ok());
  for (const int32_t sequences : {1, 2, 4, 8, 16}) {
    for (const int32_t window : {1, 2, 4, 8, 16}) {
      RunConfig other = open;
      other.pipeline.sequences_per_microbatch = sequences;
      other.pipeline.microbatches_per_step = 32 / sequences;
      other.pipeline.sequences_per_step = 0;
      other.pipeline.in_flight = window;
      CHECK(*chosen <= *NominalStepSeconds(other, fleet) * kAsGood * (1 + 1e-9));
    }
  }
}

TEST_CASE("Batch shape: high latency asks for a larger window", "[plan]") {
  RunConfig config = OpenRun(0);
  config.pipeline.sequences_per_microbatch = 2;
  config.pipeline.microbatches_per_step = 32;
  const int32_t near = Chosen(config, Fleet8(0.001, 1e9)).config.pipeline.in_flight;
  const int32_t far = Chosen(config, Fleet8(0.256, 1e9)).config.pipeline.in_flight;
  CHECK(far > near);
}

TEST_CASE("Batch shape: messages that cost much are made fewer", "[plan]") {
  const BatchShape near = Chosen(OpenRun(64), Fleet8(0.001, 1e9));
  NominalFleet fast = Fleet8(0.001, 1e9);
  for (double& gflops : fast.gflops) gflops *= 256;  // then a message costs more than its work
  CHECK(Chosen(OpenRun(64), fast).config.pipeline.microbatches_per_step <
        near.config.pipeline.microbatches_per_step);
}

TEST_CASE("Batch shape: little memory makes microbatches smaller", "[plan]") {
  RunConfig config = OpenRun(64);
  config.model.context = 1024;
  NominalFleet fleet = Fleet8(0.256, 1e9);
  const BatchShape roomy = Chosen(config, fleet);
  const auto held = [](const RunConfig& c) {
    return int64_t{c.pipeline.sequences_per_microbatch} * c.pipeline.in_flight;
  };
  // Just what one sequence in flight needs, and half as much again.
  RunConfig least = config;
  least.pipeline.sequences_per_microbatch = 1;
  least.pipeline.microbatches_per_step = 64;
  least.pipeline.in_flight = 1;
  const int64_t needs = MemoryOf(least, 2, true, HoldsOf(least, 2, 2, true)).needed();
  fleet.offers.assign(8, {needs * 3 / 2});
  const BatchShape tight = Chosen(config, fleet);
  CHECK(held(tight.config) < held(roomy.config));
  CHECK(tight.config.pipeline.sequences_per_microbatch <=
        roomy.config.pipeline.sequences_per_microbatch);
}

TEST_CASE("Batch shape: when nothing fits, the smallest shape says by how much", "[plan][error]") {
  NominalFleet fleet = Fleet8(0.016, 1e8);
  fleet.offers.assign(8, {int64_t{1} << 20});
  const auto shape = ChooseBatch(OpenRun(16), fleet);
  CHECK(absl::IsResourceExhausted(shape.status()));
  const std::string text = ErrorText(shape.status());
  CHECK(text.find("1 sequences a microbatch, 1 in flight") != std::string::npos);
  CHECK(text.find("too little") != std::string::npos);
}

TEST_CASE("Batch shape: the noise of measurements does not reach the cut", "[plan]") {
  std::vector<NodeId> ids;
  for (uint8_t i = 1; i <= 4; ++i) {
    NodeId id;
    id.bytes.fill(i);
    ids.push_back(id);
  }
  const auto links = [&](double factor) {
    LinkMatrix matrix(ids);
    for (const NodeId& a : ids) {
      for (const NodeId& b : ids) {
        if (a != b) matrix.Set(a, b, 0.06 * factor, 1.8e7 / factor);
      }
    }
    return matrix;
  };
  const std::vector<MemoryOffer> offers(4);
  const NominalFleet quiet = NominalOf({50, 50, 50, 50}, offers, links(1));
  const NominalFleet noisy = NominalOf({55, 48, 52, 46}, offers, links(1.2));
  CHECK(quiet.gflops == noisy.gflops);
  CHECK(quiet.rtt_s == noisy.rtt_s);
  CHECK(quiet.bytes_per_s == noisy.bytes_per_s);
}

TEST_CASE("Batch shape: the plan carries what was chosen, settled it is complete", "[plan]") {
  PlannerInput input;
  input.config = OpenRun(16);
  for (uint8_t i = 1; i <= 8; ++i) {
    NodeId id;
    id.bytes.fill(i);
    input.nodes.push_back(id);
    input.devices[id].gflops = 50;
  }
  input.links = LinkMatrix(input.nodes);
  for (const NodeId& a : input.nodes) {
    for (const NodeId& b : input.nodes) {
      if (a != b) input.links.Set(a, b, 0.08, 2e7);
    }
  }
  const auto run = MakePlan(input);
  INFO(ErrorText(run.status()));
  REQUIRE(run.ok());
  const PlannedSettings& settings = run->plan.settings;
  CHECK(settings.sequences_per_microbatch * run->plan.microbatches_per_step == 16);
  CHECK(settings.in_flight >= 1);
  CHECK(run->explanation.find("the planner chose 16 sequences a step") != std::string::npos);
  const RunConfig settled = Settled(input.config, run->plan);
  CHECK_FALSE(IsBatchOpen(settled));

  // Who plans again with the settled configuration gets the same shape.
  input.config = settled;
  const auto again = MakePlan(input);
  REQUIRE(again.ok());
  CHECK(again->plan.stages.size() == run->plan.stages.size());
  CHECK(again->plan.paths == run->plan.paths);
  PlannedSettings expected;
  expected.round_s = run->plan.settings.round_s;
  expected.step_s = run->plan.settings.step_s;
  CHECK(again->plan.settings == expected);
}

}  // namespace
}  // namespace skerry
