// What the memory model says, by hand; tests/node/memory compares it with the heap.
#include "pipeline/plan/memory_model.h"

#include <catch2/catch.hpp>

#include "routing/cost_model.h"

namespace skerry {
namespace {

TEST_CASE("Memory: weights, moments, gradients and the outer optimizer each cost their multiple",
          "[plan]") {
  RunConfig config;
  const int64_t once = 4 * StageParameters(config.model, 2, true);
  const StageMemory memory = MemoryOf(config, 2, true, {3, 2, 2});
  CHECK(memory.weights == once);
  CHECK(memory.gradients == 3 * once);  // the sum, and two that wait
  CHECK(memory.optimizer == 2 * once);
  CHECK(memory.outer == 5 * once / 2);  // base, momentum, residual

  config.inner.optimizer = InnerOptimizer::kSgd;
  config.outer.residual = ResidualPlace::kWeights;
  const StageMemory lean = MemoryOf(config, 2, true, {3, 2, 2});
  CHECK(lean.optimizer == 0);
  CHECK(lean.outer == 2 * once);
}

TEST_CASE("Memory: a stage holds a delta of every replica, alone it holds none", "[plan]") {
  RunConfig config;
  config.outer.codec = DeltaCodec::kNone;
  const int64_t once = 4 * StageParameters(config.model, 1, false);
  CHECK(MemoryOf(config, 1, false, {1, 1, 1}).codec == 0);
  CHECK(MemoryOf(config, 1, false, {1, 1, 1}).outer == 5 * once / 2);
  // The encoder's, the payload made of it, and seven more.
  CHECK(MemoryOf(config, 1, false, {1, 1, 8}).codec == 9 * once);
  // A peer may have sent its next one before the last lands here.
  config.outer.overlap_steps = config.outer.inner_steps;
  CHECK(MemoryOf(config, 1, false, {1, 1, 8}).codec == 16 * once);
  // co2 has two of its own under way, and a residual in float32.
  config.outer.mode = OuterMode::kCo2;
  CHECK(MemoryOf(config, 1, false, {1, 1, 8}).codec == (4 + 3 * 7) * once);
  CHECK(MemoryOf(config, 1, false, {1, 1, 8}).outer == 3 * once);
  // In streaming a fragment's two or three rounds are under way, of as many as there are fragments.
  config.outer.mode = OuterMode::kStreaming;
  config.outer.overlap_steps = 4;
  config.outer.fragments = 4;
  CHECK(MemoryOf(config, 1, false, {1, 1, 8}).codec == (2 * 4 + 3 * 7) * once / 4);
  CHECK(MemoryOf(config, 1, false, {1, 1, 8}).outer == 5 * once / 2);
  config.outer.momentum = 0;
  CHECK(MemoryOf(config, 1, false, {1, 1, 8}).outer == 3 * once / 2);
}

TEST_CASE("Memory: of a recomputed layer its input is kept, and one layer's work beside",
          "[plan]") {
  const RunConfig config;
  const int64_t row = MicrobatchTokens(config) * int64_t{sizeof(float)};
  const StageMemory all = MemoryOf(config, 3, false, {4, 1, 2});
  const StageMemory none = MemoryOf(config, 3, false, {4, 1, 2, 3});
  const StageMemory some = MemoryOf(config, 3, false, {4, 1, 2, 2});
  CHECK(none.stash == 4 * 3 * row * config.model.hidden);
  CHECK(none.workspace - all.workspace == all.stash / 12 - row * config.model.hidden);
  CHECK(some.workspace == none.workspace);
  CHECK(all.stash - some.stash == 2 * (some.stash - none.stash));
  CHECK(none.weights == all.weights);
}

TEST_CASE("Memory: a ladder's first layer has one input, and one branch more is under way",
          "[plan]") {
  RunConfig config;
  const int64_t row = MicrobatchTokens(config) * int64_t{sizeof(float)};
  const int64_t stream = row * config.model.hidden;
  const StageMemory plain = MemoryOf(config, 4, false, {3, 1, 2});
  config.model.ladder = GENERATE(1, 2, 4);
  const int64_t ladders = 4 / config.model.ladder;
  const StageMemory memory = MemoryOf(config, 4, false, {3, 1, 2});
  CHECK(plain.stash - memory.stash == 3 * ladders * stream);
  CHECK(memory.workspace - plain.workspace == stream);
  CHECK(memory.weights == plain.weights);
  // Of recomputed layers both inputs and both rms are kept.
  const StageMemory none = MemoryOf(config, 4, false, {3, 1, 2, 4});
  CHECK(none.stash == 3 * (4 * (2 * stream + 2 * row) - ladders * stream));
}

TEST_CASE("Memory: stash and buffers grow with the window and with the sequences", "[plan]") {
  RunConfig config;
  const StageMemory one = MemoryOf(config, 2, false, {1, 1, 2});
  const StageMemory three = MemoryOf(config, 2, false, {3, 1, 2});
  CHECK(three.stash == 3 * one.stash);
  CHECK(three.buffers == 3 * one.buffers);
  CHECK(three.workspace == one.workspace);
  config.pipeline.sequences_per_microbatch *= 2;
  CHECK(MemoryOf(config, 2, false, {1, 1, 2}).stash == 2 * one.stash);
  CHECK(MemoryOf(config, 2, false, {1, 1, 2}).weights == one.weights);
}

TEST_CASE("Memory: no more is held than the windows and the share of a step allow", "[plan]") {
  RunConfig config;
  config.pipeline.microbatches_per_step = 64;
  config.pipeline.in_flight = 4;
  CHECK(HoldsOf(config, 2, 2, true) == StageHolds{4, 4, 2});
  CHECK(HoldsOf(config, 2, 2, false) == StageHolds{8, 2, 2});
  CHECK(GradientsMax(config, 2, false) == 4);
  config.pipeline.microbatches_per_step = 4;
  CHECK(HoldsOf(config, 2, 2, true) == StageHolds{2, 2, 2});
  CHECK(HoldsOf(config, 2, 2, false) == StageHolds{4, 2, 2});
  CHECK(GradientsMax(config, 2, false) == 3);
}

TEST_CASE(
    "Memory: what a node must offer is the total, and what it keeps now and then, with its "
    "margin",
    "[plan]") {
  RunConfig config;
  config.checkpoint.every_rounds = GENERATE(0, 5);
  const StageMemory memory = MemoryOf(config, 2, false, {2, 2, 2});
  CHECK(static_cast<double>(memory.needed()) ==
        Approx((1 + kMemoryMargin) * static_cast<double>(memory.total() + memory.now_and_then())));
  const int64_t weights = memory.weights;
  CHECK(memory.handover == 3 * weights);
  CHECK(memory.checkpoint == (config.checkpoint.every_rounds > 0 ? 4 * weights : 0));
  CHECK(MemoryOf(config, 2, false, {2, 2, 1}).handover == 0);
  CHECK(PartsText(memory).find("deltas") != std::string::npos);
  CHECK(PartsText(MemoryOf({}, 2, false, {2, 2, 1})).find("deltas") == std::string::npos);
}

}  // namespace
}  // namespace skerry
