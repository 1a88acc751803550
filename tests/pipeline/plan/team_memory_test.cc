// Memory of nodes with several devices; tests/node/memory compares it with the heap.
#include "pipeline/plan/team_memory.h"

#include <catch2/catch.hpp>

#include "common/rng.h"
#include "routing/cost_model.h"

namespace skerry {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

DeviceProfile Node(size_t devices, int64_t memory_bytes) {
  DeviceProfile node{"8 × GPU", "cuda", 100, memory_bytes, 0};
  if (devices > 1) node.numeric_profile = TeamNumericProfile(devices, "cuda");
  return node;
}

}  // namespace

TEST_CASE("Team memory: a profile says how many equal devices there are", "[plan]") {
  const auto devices = [](const std::string& profile) {
    return AnnouncedDevices({"", profile, 0, 0, 0});
  };
  CHECK(devices(TeamNumericProfile(8, "cuda A")) == 8);
  CHECK(devices("cuda A") == 1);
  CHECK(devices("cuda A + cpu + cpu") == 1);
  CHECK(devices("99 × cpu") == 64);
  const std::string strange =
      GENERATE("", " × cpu", "-2 × cpu", "0 × cpu", "x × cpu", "1e9 × cpu", "999 × cpu", "2x cpu");
  INFO(strange);
  CHECK(devices(strange) == 1);
}

TEST_CASE("Team memory: each device has all weights and gradients and a part of the rest",
          "[plan]") {
  RunConfig config;
  config.pipeline.sequences_per_microbatch = 8;
  const StageHolds holds{3, 2, 2};
  const StageMemory whole = MemoryOf(config, 2, true, holds);
  const StageMemory each = MemoryOfEach(config, 2, true, holds, 4);
  CHECK(each.weights == whole.weights);
  CHECK(each.gradients == whole.gradients);
  CHECK(each.optimizer == whole.optimizer / 4);
  CHECK(each.outer == whole.outer / 4);
  CHECK(each.handover == whole.handover / 4);
  CHECK(each.stash == whole.stash / 4);
  CHECK(MemoryOfEach(config, 2, true, holds, 3).stash == whole.stash / 8 * 3);  // ⌈8/3⌉ sequences
  CHECK(MemoryOfEach(config, 2, true, holds, 1).total() == whole.total());

  config.inner.optimizer = InnerOptimizer::kMuon;
  CHECK(MemoryOfEach(config, 2, true, holds, 4).optimizer ==
        MemoryOf(config, 2, true, holds).optimizer);
}

TEST_CASE("Team memory: several devices are worth more than one of them, one is worth itself",
          "[plan]") {
  RunConfig config;
  config.model.hidden = 4096;
  config.pipeline.sequences_per_microbatch = 8;
  CHECK(OfferedFor(config, Node(1, 80 * kGiB)) == 80 * kGiB);
  CHECK(OfferedFor(config, Node(4, 0)) == 0);
  CHECK(OfferedFor(config, Node(64, INT64_MAX)) > kGiB);
  // Weights, four gradients and their sum, against moments, base and outer momentum: 6 to 4.
  const double more = static_cast<double>(OfferedFor(config, Node(8, 80 * kGiB))) / (80 * kGiB);
  CHECK(more > 1.45);
  CHECK(more < 10.0 / 6.5);
  config.pipeline.sequences_per_microbatch = 1;  // one device of them works
  CHECK(OfferedFor(config, Node(8, 80 * kGiB)) == 80 * kGiB);
  config.pipeline.sequences_per_microbatch = 8;
  config.inner.optimizer = InnerOptimizer::kMuon;
  CHECK(OfferedFor(config, Node(8, 80 * kGiB)) == 80 * kGiB);
}

TEST_CASE("Team memory: a stage that fits what a node offers fits each of its devices", "[plan]") {
  Rng rng(5, "team memory");
  const auto one_of = [&](std::initializer_list<int32_t> values) {
    return values.begin()[rng.Below(values.size())];
  };
  int tight = 0;
  for (int i = 0; i < 4000; ++i) {
    RunConfig config;
    config.model.hidden = 64 * one_of({1, 2, 8, 64});
    config.model.ffn = config.model.hidden * one_of({1, 3});
    config.model.vocab = one_of({256, 4096, 32000});
    config.model.context = one_of({16, 128, 2048});
    config.inner.optimizer = rng.Below(3) == 0 ? InnerOptimizer::kSgd : InnerOptimizer::kAdamW;
    config.inner.compute = rng.Below(2) == 0 ? InnerCompute::kFloat32 : InnerCompute::kBfloat16;
    config.outer.momentum = rng.Below(2) == 0 ? 0.0f : 0.6f;
    config.outer.residual = rng.Below(2) == 0 ? ResidualPlace::kBuffer : ResidualPlace::kWeights;
    config.pipeline.sequences_per_microbatch = one_of({1, 2, 3, 5, 8, 32});
    config.pipeline.in_flight = one_of({1, 2, 4, 12});
    const int32_t layers = one_of({1, 2, 7}), replicas = one_of({1, 2, 4, 8});
    const bool ends = rng.Below(2) == 0;
    StageHolds holds = HoldsOf(config, one_of({1, 2}), replicas, ends);
    if (rng.Below(2) == 0) holds.gradients = GradientsMax(config, replicas, ends);
    if (rng.Below(2) == 0) holds.recomputed = layers;
    const DeviceProfile node = Node(static_cast<size_t>(one_of({2, 3, 4, 8})), 10 * kGiB);
    const int64_t offered = OfferedFor(config, node);
    const int64_t whole = MemoryOf(config, layers, ends, holds).needed();
    const int32_t devices = DevicesInUse(config, node);
    const int64_t each = MemoryOfEach(config, layers, ends, holds, devices).needed();
    INFO("draw " << i << ": whole " << whole << ", each of " << devices << " " << each
                 << ", offered " << offered << " of " << node.memory_bytes);
    // The largest node that this stage just fits.
    const double scale = static_cast<double>(whole) / static_cast<double>(offered);
    REQUIRE(static_cast<double>(each) <=
            scale * static_cast<double>(node.memory_bytes) * (1 + 1e-6) + 64);
    if (static_cast<double>(each) > 0.8 * scale * static_cast<double>(node.memory_bytes)) ++tight;
  }
  CHECK(tight > 100);  // it is no empty promise
}

}  // namespace skerry
