// Where a stage lies on a node; tests/node/memory compares it with the heap.
#include "pipeline/plan/node_memory.h"

#include <catch2/catch.hpp>

#include "routing/cost_model.h"

namespace skerry {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

RunConfig Run() {
  RunConfig config;
  config.pipeline.sequences_per_microbatch = 8;
  config.checkpoint.every_rounds = 1;
  return config;
}

PipelinePlan TwoStages() {
  PipelinePlan plan;
  plan.stages = {{0, 4, std::vector<NodeId>(2)}, {4, 8, std::vector<NodeId>(2)}};
  return plan;
}

}  // namespace

TEST_CASE("Node memory: a profile says how many equal devices there are", "[plan]") {
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

TEST_CASE("Node memory: each device has all weights and gradients and a part of the rest",
          "[plan]") {
  RunConfig config = Run();
  const StageHolds holds{3, 2, 2};
  const StageMemory whole = MemoryOf(config, 2, true, holds);
  const NodeMemory four = MemoryIn(config, 2, true, holds, {0, 0, 4});
  CHECK(four.devices == 4);
  CHECK(four.host.total() == 0);
  CHECK(four.each.weights == whole.weights);
  CHECK(four.each.gradients == whole.gradients);
  CHECK(four.each.optimizer == whole.optimizer / 4);
  CHECK(four.each.outer == whole.outer / 4);
  CHECK(four.each.handover == whole.handover / 4);
  CHECK(four.each.stash == whole.stash / 4);
  // Of 8 sequences one of three has ⌈8/3⌉.
  CHECK(MemoryIn(config, 2, true, holds, {0, 0, 3}).each.stash == whole.stash / 8 * 3);
  CHECK(MemoryIn(config, 2, true, holds, {}).each.total() == whole.total());
  CHECK(MemoryIn(config, 2, true, holds, {0, 0, 64}).devices == 8);

  config.inner.optimizer = InnerOptimizer::kMuon;
  CHECK(MemoryIn(config, 2, true, holds, {0, 0, 4}).each.optimizer ==
        MemoryOf(config, 2, true, holds).optimizer);
}

TEST_CASE("Node memory: of a GPU's stage the host holds what rounds, joiners and messages take",
          "[plan]") {
  RunConfig config = Run();
  config.cluster.groups = "measured";
  const int32_t devices = GENERATE(1, 4);
  const StageHolds holds{3, 2, 2};
  const StageMemory whole = MemoryOf(config, 2, true, holds);
  const NodeMemory gpu = MemoryIn(config, 2, true, holds, {1, 1, devices});
  for (const auto part :
       {&StageMemory::outer, &StageMemory::codec, &StageMemory::sums, &StageMemory::handover,
        &StageMemory::checkpoint, &StageMemory::buffers}) {
    CHECK(whole.*part > 0);
    if (part == &StageMemory::codec) continue;
    CHECK(gpu.each.*part == 0);
    CHECK(gpu.host.*part == whole.*part);
  }
  // Deltas are made on the device, piece by piece.
  CHECK(gpu.host.codec >= whole.codec);
  CHECK(gpu.each.codec > 0);
  CHECK(gpu.each.codec <= (int64_t{4} << 20) * 13);
  CHECK(gpu.each.weights == whole.weights);
  CHECK(gpu.host.weights == whole.weights);  // what deltas are made of
  CHECK(gpu.each.optimizer == whole.optimizer / devices);
  CHECK(gpu.host.optimizer == 0);
  CHECK(gpu.host.stash + gpu.host.workspace + gpu.host.gradients == 0);
  CHECK(gpu.total() == devices * gpu.each.total() + gpu.host.total());

  StageHolds offloaded = holds;
  offloaded.offloads = true;
  const NodeMemory off = MemoryIn(config, 2, true, offloaded, {1, 1, devices});
  CHECK(off.each.total() == gpu.each.total() - gpu.each.optimizer);
  CHECK(off.host.optimizer >= whole.optimizer);
  CHECK(off.host.optimizer <= whole.optimizer + devices * (int64_t{16} << 20));
}

TEST_CASE("Node memory: a node puts off as little as its memory asks for", "[plan]") {
  RunConfig config = Run();
  const StageHolds holds = {4, 2, 2};
  const int64_t host = int64_t{64} << 30;
  const auto fitted = [&](int64_t bytes) {
    return FittedHolds(config, 3, false, holds, {bytes, host});
  };
  const auto needed = [&](int32_t layers, bool offloads) {
    return MemoryIn(config, 3, false, {4, 2, 2, layers, offloads}, {1, host}).each.needed();
  };
  CHECK(fitted(0) == holds);
  CHECK(fitted(needed(0, false)) == holds);
  CHECK(fitted(needed(0, false) - 1) == StageHolds{4, 2, 2, 1, false});
  CHECK(fitted(needed(3, false)) == StageHolds{4, 2, 2, 3, false});
  // Where that is too little the optimizer goes, and as few layers as then are needed.
  REQUIRE(needed(3, true) < needed(3, false));
  const StageHolds off = fitted(needed(3, false) - 1);
  CHECK(off.offloads);
  CHECK(needed(off.recomputed, true) < needed(3, false));
  CHECK((off.recomputed == 0 || needed(off.recomputed - 1, true) >= needed(3, false)));
  CHECK(fitted(1) == StageHolds{4, 2, 2, 3, true});
  CHECK(LeastHolds(config, 3, holds, {1, host}).back() == StageHolds{4, 2, 2, 3, true});
  CHECK(LeastHolds(config, 3, holds, {1}).back() == StageHolds{4, 2, 2, 3, false});

  config.pipeline.offload = Offload::kNever;
  CHECK(fitted(1) == StageHolds{4, 2, 2, 3, false});
  config.pipeline.offload = Offload::kAlways;
  CHECK(fitted(0) == StageHolds{4, 2, 2, 0, true});
  CHECK(FittedHolds(config, 3, false, holds, {0}) == holds);  // there is nowhere to put it
  config.pipeline.offload = Offload::kAuto;
  config.inner.optimizer = InnerOptimizer::kMuon;
  CHECK(fitted(1) == StageHolds{4, 2, 2, 3, false});
}

TEST_CASE("Node memory: stashes are parked where that is hidden, layers recomputed where not",
          "[plan][spill]") {
  const RunConfig config = Run();
  const StageHolds holds = {8, 2, 2};
  const auto needed = [&](int32_t recomputed, int32_t parked) {
    return MemoryIn(config, 3, false, {8, 2, 2, recomputed, false, parked}, {1}).each.needed();
  };
  const auto fitted = [&](int64_t bytes, double flops_per_byte, int64_t disk = kGiB) {
    return FittedHolds(config, 3, false, holds, {bytes, 0, 1, disk, flops_per_byte});
  };
  const double stash = static_cast<double>(StashBytes(config, 3, false, holds));
  const double hidden = 0.9 * 3 * 3 * LayerForwardFlops(config) / (2 * stash);
  CHECK(fitted(needed(0, 0), hidden) == holds);
  CHECK(fitted(needed(0, 0) - 1, hidden) == StageHolds{8, 2, 2, 0, false, 1});
  CHECK(fitted(needed(0, 6), hidden) == StageHolds{8, 2, 2, 0, false, 6});
  // Where all of them do not help: as few layers as then must be.
  CHECK(fitted(needed(0, 6) - 1, hidden) == StageHolds{8, 2, 2, 1, false, 6});
  // A disk a hundred times slower: layers are cheaper, where they suffice.
  CHECK(fitted(needed(1, 0), 100 * hidden) == StageHolds{8, 2, 2, 1, false, 0});
  CHECK(fitted(needed(3, 0), 100 * hidden) == StageHolds{8, 2, 2, 3, false, 0});
  CHECK(fitted(needed(3, 0) - 1, 100 * hidden) == StageHolds{8, 2, 2, 3, false, 1});
  // So much disk as it offers, and not a byte more; without, nothing is parked.
  const auto two = static_cast<int64_t>(4 * stash);  // and those that move
  CHECK(fitted(needed(0, 2), hidden, two).parked == 2);
  CHECK(fitted(needed(0, 2), hidden, two - 1).recomputed > 0);
  CHECK(fitted(needed(0, 2), hidden, 0) == fitted(needed(0, 2), 0));
  CHECK(fitted(needed(0, 2), 0).parked == 0);
  CHECK(CanHold(config, 3, false, holds, {needed(3, 6), 0, 1, kGiB, hidden}));
  CHECK_FALSE(CanHold(config, 3, false, holds, {needed(3, 6), 0, 1, 0, hidden}));
  CHECK_FALSE(CanHold(config, 3, false, holds, {needed(3, 6) - 1, 0, 1, kGiB, hidden}));
}

TEST_CASE("Node memory: a GPU's stashes lie on its host, or on a disk where that has no room",
          "[plan][spill]") {
  const RunConfig config = Run();
  const StageHolds holds = {8, 2, 2}, parks = {8, 2, 2, 0, false, 6};
  const NodeMemory on_host = MemoryIn(config, 3, false, parks, {1, 1});
  const int64_t stash = StashBytes(config, 3, false, holds);
  const double hidden = 0.9 * 3 * 3 * LayerForwardFlops(config) / (2 * static_cast<double>(stash));
  MemoryOffer offer = {on_host.each.needed(), on_host.host.needed(), 1, 8 * stash, hidden};
  offer.disk_flops_per_byte = hidden;
  const auto fitted = [&] { return FittedHolds(config, 3, false, holds, offer); };
  CHECK(fitted() == parks);

  offer.host_bytes -= 1;
  StageHolds on_disk = parks;
  on_disk.on_disk = true;
  REQUIRE(fitted() == on_disk);
  const NodeMemory memory = MemoryIn(config, 3, false, on_disk, offer);
  CHECK(memory.spill == 8 * stash);
  CHECK(memory.host.stash == 4 * stash);  // on their way
  CHECK(memory.each.total() == on_host.each.total());
  CHECK(CanHold(config, 3, false, holds, offer));
  CHECK(OfferText(offer).find(" of the host and ") != std::string::npos);

  // A disk that hides nothing: layers, and fewer stashes, which the host has room for.
  offer.disk_flops_per_byte = 100 * hidden;
  CHECK_FALSE(fitted().on_disk);
  CHECK(fitted().recomputed > 0);
  offer.disk_flops_per_byte = hidden;
  offer.spill_bytes -= 1;
  CHECK_FALSE(fitted().on_disk);
  offer.spill_bytes += 1;
  offer.disk_flops_per_byte = 0;  // not known
  CHECK_FALSE(fitted().on_disk);
}

TEST_CASE("Node memory: the operator may forbid parking, or ask for it", "[plan][spill]") {
  RunConfig config = Run();
  const StageHolds holds = {8, 2, 2};
  const MemoryOffer disk = {kGiB, 0, 1, kGiB, 1}, none = {kGiB};
  config.pipeline.offload_activations = Offload::kNever;
  CHECK_FALSE(MayPark(config, disk));
  CHECK(FittedHolds(config, 3, false, holds, {1, 0, 1, kGiB, 1}).parked == 0);
  config.pipeline.offload_activations = Offload::kAlways;
  CHECK(FittedHolds(config, 3, false, holds, disk).parked == 6);
  CHECK(FittedHolds(config, 3, false, holds, none) == holds);  // there is nowhere to put it
  const int64_t stash = StashBytes(config, 3, false, holds);
  CHECK(FittedHolds(config, 3, false, holds, {kGiB, 0, 1, 6 * stash, 1}).parked == 4);
  CHECK(FittedHolds(config, 3, false, {2, 2, 2}, disk).parked == 0);  // both are needed
}

TEST_CASE("Node memory: what a disk does not hide has its price", "[plan][spill]") {
  const RunConfig config = Run();
  const StageHolds all = {8, 2, 2, 0, false, 6}, some = {8, 2, 2, 0, false, 3};
  const double forward = 3 * LayerForwardFlops(config);
  const double moved = 2 * StashBytesMoved(config, 3, all, InnerCompute::kFloat32);
  const auto wait = [&](const StageHolds& holds, double flops_per_byte, bool ends = false) {
    return ParkingWait(config, 3, ends, holds, {kGiB, 0, 1, kGiB, flops_per_byte});
  };
  CHECK(wait(all, 3 * forward / moved) == Approx(0).margin(1e-9));
  CHECK(wait(all, 5 * forward / moved) == Approx(2));
  CHECK(wait(all, 5 * forward / moved, true) == Approx(2 - LossFlops(config) / forward));
  CHECK(wait(some, 5 * forward / moved) == 0);  // half of it is moved
  CHECK(wait(some, 8 * forward / moved) == Approx(1));
  CHECK(wait({8, 2, 2}, 1e9) == 0);
  // Layers that are recomputed leave less to move and more to hide it.
  CHECK(wait({8, 2, 2, 1, false, 6}, 5 * forward / moved) < 1.5);
  CHECK(PutOffShare(config, 3, false, all, {kGiB, 0, 1, kGiB, 5 * forward / moved}) == Approx(2));
}

TEST_CASE("Node memory: a profile says what a disk, or a GPU's bus, costs", "[plan][spill]") {
  DeviceProfile device;
  device.memory_bytes = kGiB;
  device.gflops = 100;
  CHECK(OfferOf(device) == MemoryOffer{kGiB});
  device.spill_bytes = 3 * kGiB;
  CHECK(OfferOf(device).flops_per_byte == 0);  // and nothing is known of its rate
  device.spill_bytes_per_s = 1e9;
  const MemoryOffer offer = OfferOf(device);
  CHECK(offer.spill_bytes == 3 * kGiB);
  CHECK(offer.flops_per_byte > 100 / kRateStep);
  CHECK(offer.flops_per_byte < 100 * kRateStep);
  // The noise of a measurement is none of the plan's.
  device.spill_bytes_per_s = 1.02e9;
  CHECK(OfferOf(device) == offer);
  device.host_bytes = kGiB;
  CHECK(OfferOf(device).flops_per_byte < offer.flops_per_byte);  // the bus is faster
  CHECK(OfferOf(device).disk_flops_per_byte == offer.flops_per_byte);
  device.spill_bytes = 0;
  CHECK(OfferOf(device).disk_flops_per_byte == 0);
  CHECK(OfferOf(device).flops_per_byte > 0);
  CHECK(WorthOf(Run(), offer) > WorthOf(Run(), {kGiB}));
  CHECK(LeastOffers(std::vector<MemoryOffer>{offer, {kGiB}, {kGiB, 0, 1, kGiB, 300, 200}}) ==
        std::vector<MemoryOffer>{{kGiB, 0, 1, kGiB, 300, std::max(200.0, offer.flops_per_byte)},
                                 {kGiB}});
}

TEST_CASE("Node memory: a disk that is full is offered less of, memory is not", "[plan][spill]") {
  NodeMemory had;
  had.each.weights = 1000;
  had.spill = 400;
  const MemoryOffer offered = {5000, 0, 1, 10'000, 3};
  CHECK(OfferAfterShortage(offered, had, true) == MemoryOffer{5000, 0, 1, 300, 3});
  CHECK(OfferAfterShortage(offered, had) == MemoryOffer{825, 0, 1, 10'000, 3});
}

TEST_CASE("Node memory: both memories of a GPU's node are limits", "[plan]") {
  const RunConfig config = Run();
  const PipelinePlan plan = TwoStages();
  const NodeMemory least = MemoryIn(config, plan, 1, {1, 1});
  const int64_t device = least.each.needed(), host = least.host.needed();
  CHECK(least.FitsIn({device, host}));
  CHECK_FALSE(least.FitsIn({device - 1, host}));
  CHECK_FALSE(least.FitsIn({device, host - 1}));
  CHECK(least.FitsIn({0, host}));
  // On a processor the same stage takes what both are.
  CHECK(MemoryIn(config, plan, 1, {1}).each.total() > least.each.total());
  CHECK(HoldsOf(config, plan, 1, {device, host}).gradients == kGradientsMin);
  CHECK(HoldsOf(config, plan, 1, {4 * device, host}).gradients == GradientsMax(config, 2, false));
}

TEST_CASE("Node memory: a host without room for the moments holds a stage that needs no offload",
          "[plan]") {
  const RunConfig config = Run();
  const StageHolds holds = {4, 2, 2};
  const NodeMemory kept = MemoryIn(config, 3, false, {4, 2, 2, 3, false}, {1, 1});
  const NodeMemory off = MemoryIn(config, 3, false, {4, 2, 2, 3, true}, {1, 1});
  REQUIRE(off.host.needed() > kept.host.needed());
  const MemoryOffer offer = {kept.each.needed(), kept.host.needed()};
  CHECK(CanHold(config, 3, false, holds, offer));
  CHECK_FALSE(FittedHolds(config, 3, false, holds, offer).offloads);
  CHECK_FALSE(CanHold(config, 3, false, holds, {offer.device_bytes - 1, offer.host_bytes}));
  CHECK(CanHold(config, 3, false, holds, {offer.device_bytes - 1, off.host.needed()}));
}

TEST_CASE("Node memory: what fits the least offers of each kind fits all of that kind", "[plan]") {
  const std::vector<MemoryOffer> offers = {{9},    {0},       {7},       {5, 3},   {4, 8},
                                           {0, 2}, {6, 0, 4}, {8, 0, 4}, {0, 0, 2}};
  CHECK(LeastOffers(offers) == std::vector<MemoryOffer>{{7}, {4, 2}, {6, 0, 4}, {0, 0, 2}});
}

TEST_CASE("Node memory: nodes are compared by what one processor would have to offer", "[plan]") {
  RunConfig config = Run();
  config.model.hidden = 4096;
  CHECK(WorthOf(config, {80 * kGiB}) == 80 * kGiB);
  CHECK(WorthOf(config, {0}) == 0);
  CHECK(WorthOf(config, {0, 0, 4}) == 0);
  CHECK(WorthOf(config, {INT64_MAX, 0, 64}) > kGiB);
  CHECK(WorthOf(config, {80 * kGiB, 0, 8}) > 80 * kGiB);
  const int64_t alone = WorthOf(config, {24 * kGiB, 64 * kGiB});
  CHECK(alone > 24 * kGiB);
  CHECK(WorthOf(config, {24 * kGiB, 8 * kGiB}) < alone);
  config.pipeline.sequences_per_microbatch = 1;  // one device of eight works
  CHECK(WorthOf(config, {80 * kGiB, 0, 8}) == 80 * kGiB);
}

TEST_CASE("Node memory: people are told all that a node offers", "[plan]") {
  CHECK(MemoryOffer{24}.total() == 24);
  CHECK(MemoryOffer{24, 64, 2}.total() == 112);
  CHECK(MemoryOffer{INT64_MAX, INT64_MAX, 64}.total() > kGiB);
}

TEST_CASE("Node memory: after a shortage a node offers less than what its stage needed", "[plan]") {
  NodeMemory had;
  had.each.weights = 1000;
  const auto next = [&](const MemoryOffer& offered) { return OfferAfterShortage(offered, had); };
  CHECK(next({1'000'000}) == MemoryOffer{825});  // of 1,100 with the margin
  CHECK(next({400}) == MemoryOffer{300});
  CHECK(next({0}) == MemoryOffer{825});  // had not said what it has
  CHECK(next({400, 0, 4}) == MemoryOffer{300, 0, 4});
  had.host.outer = 2000;
  CHECK(next({400, 9000}) == MemoryOffer{300, 1650});
}

TEST_CASE("Node memory: who offers more holds more gradients, never more than it offers",
          "[plan]") {
  RunConfig config = Run();
  config.pipeline.recompute = GENERATE(Recompute::kNever, Recompute::kAlways);
  const PipelinePlan plan = TwoStages();
  const int64_t least = MemoryIn(config, plan, 1, {1}).each.needed();
  CHECK(HoldsOf(config, plan, 1, {least}).gradients == kGradientsMin);
  CHECK(HoldsOf(config, plan, 1, {}).gradients == GradientsMax(config, 2, false));
  // One byte more: halving rounds down.
  const int64_t between = (least + MemoryIn(config, plan, 1, {}).each.needed()) / 2 + 1;
  const StageHolds some = HoldsOf(config, plan, 1, {between});
  CHECK(some.gradients > kGradientsMin);
  CHECK(some.gradients < GradientsMax(config, 2, false));
  CHECK(MemoryIn(config, plan, 1, {between}).FitsIn({between}));
}

TEST_CASE("Node memory: a node recomputes as few layers as its memory asks for", "[plan]") {
  RunConfig config;
  const StageHolds holds = {4, 2, 2};
  const auto recomputed = [&](int64_t bytes) {
    return FittedHolds(config, 3, false, holds, {bytes}).recomputed;
  };
  const auto needed = [&](int32_t layers) {
    return MemoryOf(config, 3, false, {4, 2, 2, layers}).needed();
  };
  CHECK(recomputed(0) == 0);
  CHECK(recomputed(needed(0)) == 0);
  CHECK(recomputed(needed(0) - 1) == 1);
  CHECK(recomputed(needed(2)) == 2);
  CHECK(recomputed(1) == 3);
  CHECK(LeastHolds(config, 3, holds).front().recomputed == 3);

  config.pipeline.recompute = Recompute::kNever;
  CHECK(recomputed(1) == 0);
  CHECK(LeastHolds(config, 3, holds).front().recomputed == 0);
  config.pipeline.recompute = Recompute::kAlways;
  CHECK(recomputed(0) == 3);
}

TEST_CASE("Node memory: layers are kept before more gradients are", "[plan]") {
  RunConfig config;
  const PipelinePlan plan = TwoStages();
  const StageHolds kept = HoldsOf(config, 2, 2, false);
  const int64_t enough = MemoryOf(config, 4, false, kept).needed();
  CHECK(HoldsOf(config, plan, 1, {enough}) == kept);
  const StageHolds less = HoldsOf(config, plan, 1, {enough - 1});
  CHECK(less.recomputed == 1);
  CHECK(MemoryOf(config, 4, false, less).needed() < enough);
}

}  // namespace skerry
