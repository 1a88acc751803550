#include "pipeline/plan/partition.h"

#include <catch2/catch.hpp>

#include "common/status.h"
#include "pipeline/plan/workload.h"
#include "routing/cost_model.h"

namespace skerry {
namespace {

absl::StatusOr<Partition> Cut(const RunConfig& config, const std::vector<double>& gflops) {
  return MakePartition(config, gflops, std::vector<MemoryOffer>(gflops.size()));
}

std::vector<int32_t> Replicas(const Partition& partition) {
  std::vector<int32_t> replicas;
  for (const StageShape& stage : partition.stages) replicas.push_back(stage.replicas);
  return replicas;
}

TEST_CASE("Partition: the number of stages grows with the nodes", "[plan]") {
  CHECK(AutoStages(1, 8) == 1);
  CHECK(AutoStages(4, 8) == 2);
  CHECK(AutoStages(6, 8) == 3);
  CHECK(AutoStages(8, 8) == 4);
  CHECK(AutoStages(8, 3) == 3);
  CHECK(AutoStages(20, 24) == 6);
  for (int32_t nodes = 6; nodes < 200; ++nodes) {
    CHECK(AutoStages(nodes, 80) >= 3);
    CHECK(2 * AutoStages(nodes, 80) <= nodes);
  }
}

TEST_CASE("Partition: eight equal nodes become four stages of two replicas", "[plan]") {
  const auto partition = Cut({}, std::vector(8, 50.0));
  REQUIRE(partition.ok());
  CHECK(Replicas(*partition) == std::vector{2, 2, 2, 2});
  CHECK(partition->stages.front().first_layer == 0);
  CHECK(partition->stages.back().last_layer == 8);
}

TEST_CASE("Partition: layers make the slowest stage as fast as can be", "[plan]") {
  RunConfig config;
  config.model.layers = GENERATE(4, 7, 16);
  config.model.vocab = GENERATE(256, 32000);
  config.pipeline.skip_ratio = GENERATE(0.0, 0.5);
  config.pipeline.stages = 3;
  const auto partition = Cut(config, std::vector(6, 50.0));
  REQUIRE(partition.ok());
  const auto slowest = [&](int32_t a, int32_t b, int32_t c) {
    const double keep = 1 - config.pipeline.skip_ratio;
    return std::max({a * LayerWork(config) + HeadWork(config), keep * b * LayerWork(config),
                     keep * c * LayerWork(config)});
  };
  double best = 1e300;
  const int32_t layers = config.model.layers;
  for (int32_t a = 1; a < layers; ++a) {
    for (int32_t b = 1; a + b < layers; ++b) best = std::min(best, slowest(a, b, layers - a - b));
  }
  const auto& stages = partition->stages;
  CHECK(slowest(stages[0].layers(), stages[1].layers(), stages[2].layers()) == Approx(best));
}

TEST_CASE("Partition: stages are whole ladders, dealt as evenly as they can be", "[plan]") {
  RunConfig config;
  config.model.layers = 24;
  config.model.ladder = GENERATE(1, 2, 4, 8);
  config.pipeline.stages = GENERATE(0, 3);
  config.pipeline.skip_ratio = 0;
  const auto partition = Cut(config, std::vector(12, 50.0));
  REQUIRE(partition.ok());
  int32_t next = 0, least = 24, most = 0;
  for (const StageShape& stage : partition->stages) {
    CHECK(stage.first_layer == next);
    CHECK(stage.layers() % config.model.ladder == 0);
    least = std::min(least, stage.layers());
    most = std::max(most, stage.layers());
    next = stage.last_layer;
  }
  CHECK(next == 24);
  CHECK(most - least <= config.model.ladder);
  CHECK(std::ssize(partition->stages) ==
        std::min(4, 24 / config.model.ladder) -
            (config.pipeline.stages == 3 && config.model.ladder < 8));
}

TEST_CASE("Partition: with a ladder of one layers are dealt as without", "[plan]") {
  RunConfig config;
  config.model.layers = 17;
  const std::vector<double> speeds = {10, 40, 10, 40, 80, 10};
  const auto without = Cut(config, speeds);
  config.model.ladder = 1;
  CHECK(Cut(config, speeds)->stages == without->stages);
}

TEST_CASE("Partition: more stages than ladders, and ladders that do not fit, are refused",
          "[plan][error]") {
  RunConfig config;
  config.model.ladder = 4;
  config.pipeline.stages = 3;
  CHECK(ErrorText(Cut(config, std::vector(6, 50.0)).status())
            .find("3 stages need at least 4 layers each, the model has 8") == 0);
  config.pipeline.stages = 2;
  const StageHolds holds = HoldsOf(config, 1, 1, false);
  const int64_t three = MemoryOf(config, 3, false, holds).needed();
  const std::vector<MemoryOffer> offers(2, MemoryOffer{three});
  config.pipeline.recompute = Recompute::kNever;
  CHECK(ErrorText(MakePartition(config, {50, 50}, offers).status())
            .find("with the 4 layers that [model] ladder keeps together") != std::string::npos);
}

TEST_CASE("Partition: noise of 10 % leaves equal devices equal", "[plan]") {
  std::vector<double> noisy;
  for (int32_t i = 0; i < 8; ++i) noisy.push_back(i % 2 == 0 ? 45.0 : 55.0);
  CHECK(SpeedClasses(noisy) == std::vector(8, 0));
  CHECK(Cut({}, noisy)->stages == Cut({}, std::vector(8, 50.0))->stages);
}

TEST_CASE("Partition: fast nodes hold early stages and more layers", "[plan]") {
  RunConfig config;
  config.pipeline.stages = 2;
  config.pipeline.skip_ratio = 0;
  const auto partition = Cut(config, {10, 40, 10, 40});
  REQUIRE(partition.ok());
  CHECK(partition->stages[0].layers() > partition->stages[1].layers());
  CHECK(partition->nodes == std::vector{1, 3, 0, 2});
}

TEST_CASE("Partition: a spare node goes to stage 0 only if a step still divides", "[plan]") {
  RunConfig config;
  config.pipeline.stages = 4;
  CHECK(Replicas(*Cut(config, std::vector(9, 1.0))) == std::vector{2, 3, 2, 2});
  config.pipeline.microbatches_per_step = 9;
  CHECK(Replicas(*Cut(config, std::vector(9, 1.0))) == std::vector{3, 2, 2, 2});
  config.pipeline.microbatches_per_step = 1;
  CHECK(Replicas(*Cut(config, std::vector(8, 1.0))) == std::vector{1, 3, 2, 2});
}

TEST_CASE("Partition: little memory moves layers, none is an error with figures", "[plan][error]") {
  RunConfig config;
  config.pipeline.stages = 4;
  const std::vector<double> gflops(8, 1.0);
  std::vector<MemoryOffer> memory(8);
  memory[0].device_bytes = memory[1].device_bytes =
      MemoryOf(config, 1, false, HoldsOf(config, 2, 2, false)).needed();
  const auto tight = MakePartition(config, gflops, memory);
  REQUIRE(tight.ok());
  const auto free = Cut(config, gflops);
  const std::vector<int32_t> last(tight->nodes.end() - 2, tight->nodes.end());
  CHECK(last == std::vector{0, 1});
  CHECK(free->stages.back().layers() > 1);
  CHECK(tight->stages.back().layers() == 1);

  const auto none = MakePartition(config, gflops, std::vector<MemoryOffer>(8, {1000}));
  CHECK(absl::IsResourceExhausted(none.status()));
  CHECK(ErrorText(none.status()).find("1.0 KiB") != std::string::npos);
  const auto host = MakePartition(config, gflops, std::vector<MemoryOffer>(8, {1 << 30, 2048}));
  CHECK(ErrorText(host.status()).find("1.0 GiB and 2.0 KiB of the host") != std::string::npos);
}

TEST_CASE("Partition: where no cut fits otherwise, activations are computed again, at a price",
          "[plan]") {
  RunConfig config;
  config.pipeline.stages = 2;
  config.pipeline.sequences_per_microbatch = 16;
  const std::vector<double> gflops(4, 1.0);
  const auto least = [&](bool ends) {
    return MemoryOf(config, 4, ends, LeastHolds(config, 4, HoldsOf(config, 2, 2, ends)).front())
        .needed();
  };
  const std::vector<MemoryOffer> tight(4, {std::max(least(true), least(false))});
  const auto repeats_of = [&](const Partition& partition, const std::vector<MemoryOffer>& offers) {
    Fleet fleet;
    PutOff(config, partition, offers, &fleet);
    CHECK(fleet.host_step_s.empty());
    return fleet.repeats;
  };

  config.pipeline.recompute = Recompute::kNever;
  CHECK(absl::IsResourceExhausted(MakePartition(config, gflops, tight).status()));

  config.pipeline.recompute = Recompute::kAuto;
  const auto partition = MakePartition(config, gflops, tight);
  REQUIRE(partition.ok());
  const std::vector<double> repeats = repeats_of(*partition, tight);
  REQUIRE(repeats.size() == 2 * 4);  // stages × nodes
  for (const double share : repeats) CHECK(share <= LayerRepeatShare(config));
  CHECK(*std::max_element(repeats.begin(), repeats.end()) > 0.3);
  CHECK(LayerRepeatShare(config) < 0.9);
  CHECK(LayerRepeatShare(config) > 0.6);
  CHECK(repeats_of(*partition, std::vector<MemoryOffer>(4)).empty());

  config.pipeline.recompute = Recompute::kAlways;
  CHECK(repeats_of(*Cut(config, gflops), std::vector<MemoryOffer>(4)) ==
        std::vector(8, LayerRepeatShare(config)));
}

TEST_CASE("Partition: what the host steps has its price, on nodes that have a host", "[plan]") {
  RunConfig config;
  config.pipeline.stages = 2;
  config.pipeline.offload = Offload::kAlways;
  const auto partition = Cut(config, std::vector(4, 1.0));
  REQUIRE(partition.ok());
  const int64_t plenty = int64_t{1} << 40;
  const std::vector<MemoryOffer> offers = {{plenty, plenty}, {plenty}, {0, plenty}, {}};
  Fleet fleet;
  fleet.gflops.assign(4, 1);
  PutOff(config, *partition, offers, &fleet);
  CHECK(fleet.repeats.empty());
  REQUIRE(fleet.host_step_s.size() == 2 * 4);
  const auto price = [&](size_t stage) {
    return kOffloadSeconds * static_cast<double>(StageParameters(
                                 config.model, partition->stages[stage].layers(), stage == 0));
  };
  CHECK(fleet.HostStepOf(0, 0) == Approx(price(0)));
  CHECK(fleet.HostStepOf(1, 0) == Approx(price(1)));
  CHECK(fleet.HostStepOf(1, 2) == Approx(price(1)));
  CHECK(fleet.HostStepOf(1, 1) == 0);
  CHECK(fleet.HostStepOf(1, 3) == 0);
}

TEST_CASE("Partition: layers that need offload are dealt only where recomputing does not help",
          "[plan]") {
  RunConfig config;
  config.model.layers = 24;
  config.pipeline.stages = 2;
  config.pipeline.sequences_per_microbatch = 16;
  const int64_t plenty = int64_t{1} << 40;
  const auto recomputing = [&](bool ends) {
    const StageHolds least = LeastHolds(config, 12, HoldsOf(config, 1, 1, ends)).front();
    return MemoryIn(config, 12, ends, least, {0, plenty}).each.needed();
  };
  std::vector<MemoryOffer> offers = {{recomputing(true), plenty}, {recomputing(false), plenty}};
  const auto offload_s = [&] {
    // The first one is so fast that it would be dealt more than twelve, if it could hold them.
    const auto partition = MakePartition(config, {10.0, 1.0}, offers);
    REQUIRE(partition.ok());
    CHECK(partition->nodes == std::vector{0, 1});
    Fleet fleet;
    fleet.gflops = {10, 1};
    PutOff(config, *partition, offers, &fleet);
    return fleet.HostStepOf(0, 0) + fleet.HostStepOf(1, 1);
  };
  CHECK(offload_s() == 0);
  offers[1].device_bytes -= 1;
  CHECK(offload_s() > 0);
}

TEST_CASE("Partition: a disk holds what would be recomputed, at no price where it is fast",
          "[plan][spill]") {
  RunConfig config;
  config.pipeline.stages = 2;
  config.pipeline.sequences_per_microbatch = 16;
  config.pipeline.in_flight = 8;
  config.pipeline.microbatches_per_step = 16;
  const std::vector<double> gflops(4, 1.0);
  const auto needed = [&](bool ends) {
    StageHolds holds = HoldsOf(config, 2, 2, ends);
    holds.recomputed = 2;
    return MemoryOf(config, 4, ends, holds).needed();
  };
  const int64_t tight = std::max(needed(true), needed(false));
  const auto repeats = [&](const MemoryOffer& offer) {
    const std::vector<MemoryOffer> offers(4, offer);
    const auto partition = MakePartition(config, gflops, offers);
    REQUIRE(partition.ok());
    Fleet fleet;
    PutOff(config, *partition, offers, &fleet);
    return fleet.repeats;
  };
  const int64_t plenty = int64_t{1} << 40;
  CHECK_FALSE(repeats({tight}).empty());
  CHECK(repeats({tight, 0, 1, plenty, 1e-3}).empty());
  const std::vector<double> slow = repeats({tight, 0, 1, plenty, 1e9});
  CHECK(slow == repeats({tight}));
  config.pipeline.offload_activations = Offload::kAlways;
  const std::vector<double> forced = repeats({tight, 0, 1, plenty, 1e9});
  CHECK(*std::min_element(forced.begin(), forced.end()) > 1);  // waits for longer than it computes
}

TEST_CASE("Partition: more stages than nodes or layers are refused with the number missing",
          "[plan][error]") {
  RunConfig config;
  config.pipeline.stages = 5;
  const auto few_nodes = Cut(config, std::vector(3, 1.0));
  CHECK(absl::IsInvalidArgument(few_nodes.status()));
  CHECK(ErrorText(few_nodes.status()).find("2 more") != std::string::npos);
  config.model.layers = 4;
  CHECK(absl::IsInvalidArgument(Cut(config, std::vector(8, 1.0)).status()));
}

TEST_CASE("Partition: automatic stages grow until the model fits", "[plan]") {
  RunConfig config;
  config.pipeline.stages = 0;
  const StageHolds holds = HoldsOf(config, 1, 1, true);
  // Room for one layer with the ends: four stages would need two or more each.
  const std::vector<MemoryOffer> memory(8, {MemoryOf(config, 1, true, holds).needed() * 11 / 10});
  const auto partition = MakePartition(config, std::vector(8, 1.0), memory);
  REQUIRE(partition.ok());
  CHECK(partition->stages.size() > 4);
}

}  // namespace
}  // namespace skerry
