// Where a stage lies on a node whose devices share every layer's tensors; tests/node/memory
// compares it with the heap.
#include <catch2/catch.hpp>

#include "pipeline/plan/node_memory.h"
#include "routing/cost_model.h"
#include "tests/pipeline/plan/random_fleet.h"

namespace skerry {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

RunConfig SplitRun() {
  RunConfig config;
  config.model.heads = config.model.kv_heads = 8;
  config.checkpoint.every_rounds = 1;
  return config;
}

}  // namespace

TEST_CASE("Node memory: a profile says what its devices share", "[plan]") {
  const auto said = [](const std::string& profile) {
    DeviceProfile device;
    device.numeric_profile = profile;
    return std::pair(AnnouncedDevices(device), AnnouncedSplit(device));
  };
  const std::string four = TeamNumericProfile(4, "cuda A", DeviceSplit::kTensors);
  CHECK(four == "4 ÷ cuda A");
  CHECK(said(four) == std::pair(4, DeviceSplit::kTensors));
  CHECK(said("4 × cuda A") == std::pair(4, DeviceSplit::kSequences));
  const std::string either = TeamNumericProfile(4, "cuda A", DeviceSplit::kEither);
  CHECK(either == "4 ×÷ cuda A");
  CHECK(said(either) == std::pair(4, DeviceSplit::kEither));
  CHECK(said("cuda A") == std::pair(1, DeviceSplit::kSequences));
  CHECK(said("999 ÷ cuda A") == std::pair(1, DeviceSplit::kSequences));
}

TEST_CASE("Node memory: devices that share tensors each have a part of all", "[plan]") {
  RunConfig config = SplitRun();
  config.model.ffn = 1024;
  const StageHolds holds{3, 2, 2};
  MemoryOffer four = {0, 0, 4};
  four.split = DeviceSplit::kTensors;
  const int64_t floats = StageParameters(config.model, 3, false);
  const int64_t norms = 3 * 2 * config.model.hidden;
  const NodeMemory middle = MemoryIn(config, 3, false, holds, four);
  CHECK(middle.devices == 4);
  CHECK(middle.each.gradients == 3 * 4 * (norms + (floats - norms) / 4));
  CHECK(middle.each.optimizer == 2 * 4 * (norms + (floats - norms) / 4));
  const StageMemory whole = MemoryOf(config, 3, false, holds);
  CHECK(middle.each.stash < whole.stash / 2);
  CHECK(middle.each.stash > whole.stash / 4);
  CHECK(middle.each.outer == whole.outer / 4);

  const NodeMemory first = MemoryIn(config, 3, true, holds, four);
  REQUIRE(config.model.vocab % 32 == 0);
  const int64_t tables = StageParameters(config.model, 0, true) - config.model.hidden;
  const int64_t own = tables / 4 + config.model.hidden;
  CHECK(first.each.gradients == middle.each.gradients + 3 * 4 * own);
  CHECK(first.each.optimizer == middle.each.optimizer + 2 * 4 * own);
  CHECK(first.each.workspace < MemoryOf(config, 3, true, holds).workspace / 2);
  CHECK(first.total() == 4 * first.each.total());
  // The largest part of a vocabulary is what counts.
  config.model.vocab += 7;
  config.model.tied_head = true;
  const int64_t rows = (config.model.vocab - 7) / 4 + 7;
  CHECK(MemoryIn(config, 3, true, holds, four).each.gradients ==
        middle.each.gradients + 3 * 4 * (rows + 1) * config.model.hidden);

  // What cannot be shared is counted as if one device had it.
  config.model.kv_heads = 2;
  const NodeMemory refused = MemoryIn(config, 3, false, holds, four);
  CHECK(refused.each.total() == MemoryOf(config, 3, false, holds).total());
  CHECK(refused.devices == 1);
}

TEST_CASE("Node memory: a layer that no device holds has room on several that share it", "[plan]") {
  RunConfig config = SplitRun();
  config.model.hidden = 2048;
  config.model.ffn = 8192;
  config.pipeline.sequences_per_microbatch = 2;
  config.pipeline.offload = Offload::kNever;
  const StageHolds holds{1, 1, 1}, recomputed{1, 1, 1, 1};
  MemoryOffer offer = {0, 1024 * kGiB, 2};
  offer.device_bytes = MemoryIn(config, 1, false, recomputed, offer).each.needed() * 2 / 3;
  REQUIRE_FALSE(CanHold(config, 1, false, holds, offer));
  offer.split = DeviceSplit::kTensors;
  CHECK(CanHold(config, 1, false, holds, offer));
  CHECK(WorthOf(config, offer) > offer.device_bytes);
  offer.split = DeviceSplit::kEither;
  CHECK(CanHold(config, 1, false, holds, offer));
  const StageHolds fitted = FittedHolds(config, 1, false, holds, offer);
  CHECK(SplitOf(fitted, offer) == DeviceSplit::kTensors);
  CHECK(PutOffText(fitted).find("tensors shared") != std::string::npos);
}

TEST_CASE("Node memory: devices that may do either share tensors where nothing else helps",
          "[plan]") {
  RunConfig config = SplitRun();
  const StageHolds holds{2, 1, 2};
  MemoryOffer offer = {0, 1024 * kGiB, 4};
  offer.split = DeviceSplit::kEither;
  const auto fitted = [&](int32_t layers) {
    return FittedHolds(config, layers, false, holds, offer);
  };
  const auto each = [&](const StageHolds& held) {
    return MemoryIn(config, 4, false, held, offer).each.needed();
  };
  // All that may be put off instead comes first.
  const auto ways = LeastHolds(config, 4, holds, offer);
  REQUIRE(ways.size() == 4);
  CHECK_FALSE((ways[1].by_tensors || !ways[1].offloads));
  for (const StageHolds& way : ways) {
    offer.device_bytes = each(way);
    const StageHolds took = fitted(4);
    CHECK(took.by_tensors == way.by_tensors);
    CHECK(MemoryIn(config, 4, false, took, offer).FitsIn(offer));
  }
  offer.device_bytes = each(ways[1]) - 1;
  CHECK(fitted(4).by_tensors);
  CHECK_FALSE(fitted(1).by_tensors);
  // As one that said so from the start, to the byte.
  MemoryOffer tensors = offer;
  tensors.split = DeviceSplit::kTensors;
  StageHolds same = ways[2];
  same.by_tensors = false;
  CHECK(MemoryIn(config, 4, false, ways[2], offer).total() ==
        MemoryIn(config, 4, false, same, tensors).total());
  // Nor where all nodes of a cluster must compute the same bits, or heads cannot be shared.
  config.cluster.groups = "measured";
  CHECK_FALSE(fitted(4).by_tensors);
  config.cluster.groups = "off";
  config.model.kv_heads = 2;
  CHECK_FALSE(fitted(4).by_tensors);
}

TEST_CASE("Planner: nodes that may share tensors hold stages that none of their devices does",
          "[plan]") {
  PlannerInput input = InputOf(std::vector<DrawnNode>(8));
  input.config.pipeline.stages = 4;
  input.config.pipeline.sequences_per_microbatch = 2;
  input.config.model.context = 16;  // large weights, small activations
  input.config.model.heads = input.config.model.kv_heads = 8;
  input.is_quick = true;
  const auto planned = [&](DeviceSplit split, int64_t bytes) {
    for (auto& [node, device] : input.devices) {
      device.memory_bytes = bytes;
      device.numeric_profile = TeamNumericProfile(2, "gpu", split);
    }
    return MakePlan(input);
  };
  const auto least = [&](DeviceSplit split) {
    int64_t low = 0, high = int64_t{64} << 30;
    while (high - low > high / 200) {
      const int64_t middle = (low + high) / 2;
      (planned(split, middle).ok() ? high : low) = middle;
    }
    return high;
  };
  const int64_t tensors = least(DeviceSplit::kTensors), sequences = least(DeviceSplit::kSequences);
  REQUIRE(static_cast<double>(tensors) < 0.9 * static_cast<double>(sequences));
  CHECK(static_cast<double>(least(DeviceSplit::kEither)) < 1.01 * static_cast<double>(tensors));

  const auto either = planned(DeviceSplit::kEither, tensors);
  REQUIRE(either.ok());
  CHECK(either->explanation.find("tensors shared by its devices") != std::string::npos);
  const RunConfig settled = Settled(input.config, either->plan);
  for (int32_t stage = 0; stage < 4; ++stage) {
    for (const NodeId& node : either->plan.stages[static_cast<size_t>(stage)].replicas) {
      const MemoryOffer offer = OfferOf(input.devices.at(node));
      CHECK(MemoryIn(settled, either->plan, stage, offer).FitsIn(offer));
    }
  }
  // Where there is room nothing is other than of nodes that may not.
  const auto roomy = planned(DeviceSplit::kEither, 2 * sequences);
  REQUIRE(roomy.ok());
  CHECK(roomy->explanation.find("tensors shared") == std::string::npos);
}

}  // namespace skerry
