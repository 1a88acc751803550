// The memory model against what a production stage takes from the heap.
#include <catch2/catch.hpp>
#include <cmath>

#include "bench/counted_heap.h"
#include "bench/stage_exercise.h"
#include "model/stage_trainer.h"
#include "pipeline/plan/memory_model.h"
#include "tests/model/disk_directory.h"

namespace skerry {
namespace {

// Few replicas and small windows, as an operator would write it.
StageCase Case(int32_t hidden, int32_t layers, bool holds_ends) {
  StageCase shape = SmallCase(hidden, layers, holds_ends);
  shape.config.model.vocab = 512;
  shape.config.model.context = 64;
  return shape;
}

void CheckWithinFivePercent(const StageCase& shape) {
  const auto bytes = MeasureStage(shape);
  REQUIRE(bytes.ok());
  INFO("model " << BytesText(bytes->model) << ", heap " << BytesText(bytes->heap) << ", books "
                << BytesText(bytes->stage) << ", off by " << 100 * bytes->error() << " %");
  CHECK(std::abs(bytes->error()) <= 0.05);
  CHECK(bytes->stage <= bytes->heap);
  CHECK(static_cast<double>(bytes->stage) >= 0.9 * static_cast<double>(bytes->heap));
}

TEST_CASE("Memory model: within 5 % of the heap for a middle stage of one layer", "[memory]") {
  CheckWithinFivePercent(Case(256, 1, false));
}

TEST_CASE("Memory model: within 5 % of the heap for a first stage with both ends", "[memory]") {
  CheckWithinFivePercent(Case(192, 2, true));
}

TEST_CASE("Memory model: within 5 % of the heap for a stage that is the whole model", "[memory]") {
  StageCase shape = Case(128, 3, true);
  shape.config.model.layers = 3;
  shape.config.pipeline.sequences_per_microbatch = 4;
  shape.recomputed = GENERATE(0, 3);
  shape.devices = GENERATE(1, 2);
  CheckWithinFivePercent(shape);
}

TEST_CASE("Memory model: an upper bound where the node computes in bf16", "[memory]") {
  StageCase shape = Case(192, 2, true);
  shape.config.inner.compute = InnerCompute::kBfloat16;
  const auto bytes = MeasureStage(shape);
  REQUIRE(bytes.ok());
  CHECK(bytes->error() >= -0.05);
  CHECK(bytes->error() <= 0.25);
}

TEST_CASE("StageTrainer: a step takes no memory once the first ones have been", "[memory]") {
  RunConfig config = Case(192, 2, true).config;
  config.inner.compute = GENERATE(InnerCompute::kFloat32, InnerCompute::kBfloat16);
  config.model.ffn = GENERATE(576, 1536);
  config.model.ladder = GENERATE(0, 2);
  config.pipeline.sequences_per_microbatch = 4;
  const int threads = GENERATE(1, 2);
  const auto backend = CreateCpuBackend(threads, ComputeTypeOf(config.inner));
  const int32_t recomputed = GENERATE(0, 2);
  const auto trainer = *StageTrainer::Create(config, 0, 2, true, backend.get(), recomputed);
  const std::vector<int32_t> tokens(4 * 64, 7), targets(4 * 64, 9);
  std::vector<float> stream(4 * 64 * 192), gradient(stream.size());
  const auto step = [&](int64_t k) {
    REQUIRE(trainer->ForwardFirst({k, 0}, tokens, stream).ok());
    REQUIRE(trainer->Loss({k, 0}, stream, targets, gradient).ok());
    REQUIRE(trainer->Backward({k, 0}, gradient, {}).ok());
    trainer->Accumulate({k, 0});
    REQUIRE(trainer->OptimizerStep(k, 1).ok());
  };
  for (int64_t k = 0; k < 3; ++k) step(k);

  const int64_t before = HeapBytes();
  ResetHeapPeak();
  step(3);

  CHECK(HeapBytes() == before);
  // Below AVX-512 oneDNN multiplies by a kernel that takes memory of its own at every call: a
  // little on one thread, more where slices of a product are its operands.
  const bool is_new = backend->name().find("AVX-512") != std::string::npos;
  if (!is_new && threads > 1) return;
  // Names and views of tensors, and the losses of 256 tokens; no matrix is as small.
  CHECK(HeapBytesPeak() - before < (is_new ? 8 : 32) * 1024);
}

TEST_CASE("Memory model: within 5 % of the heap for six layers and SGD", "[memory]") {
  StageCase shape = Case(128, 6, false);
  shape.config.inner.optimizer = InnerOptimizer::kSgd;
  CheckWithinFivePercent(shape);
}

TEST_CASE("Memory model: within 5 % of the heap with Muon", "[memory]") {
  StageCase shape = Case(256, 2, false);
  shape.config.inner.optimizer = InnerOptimizer::kMuon;
  CheckWithinFivePercent(shape);
}

TEST_CASE("Memory model: within 5 % of the heap for devices that share a stage", "[memory]") {
  StageCase shape = Case(256, 2, GENERATE(false, true));
  shape.devices = GENERATE(2, 3, 4);
  shape.config.pipeline.sequences_per_microbatch = 2 * shape.devices;
  shape.offers_plenty = GENERATE(false, true);
  CheckWithinFivePercent(shape);
}

TEST_CASE("Memory model: within 5 % of the heap for devices that share every layer's tensors",
          "[memory]") {
  StageCase shape = Case(256, 2, GENERATE(false, true));
  shape.split = DeviceSplit::kTensors;
  shape.devices = GENERATE(2, 4);
  shape.config.pipeline.sequences_per_microbatch = GENERATE(1, 4);
  shape.recomputed = GENERATE(0, 1);
  CheckWithinFivePercent(shape);
}

TEST_CASE("Memory model: within 5 % of the heap where devices share a large vocabulary",
          "[memory]") {
  StageCase shape = Case(256, GENERATE(0, 1), true);
  shape.config.model.vocab = GENERATE(8192, 8219);
  shape.config.model.tied_head = shape.config.model.vocab % 2 == 1;
  shape.config.pipeline.sequences_per_microbatch = 2;
  shape.config.inner.compute = GENERATE(InnerCompute::kFloat32, InnerCompute::kBfloat16);
  shape.split = DeviceSplit::kTensors;
  shape.devices = GENERATE(2, 4);
  if (shape.config.inner.compute == InnerCompute::kFloat32) return CheckWithinFivePercent(shape);
  const auto bytes = MeasureStage(shape);
  REQUIRE(bytes.ok());
  CHECK(bytes->error() >= -0.05);
  CHECK(bytes->error() <= 0.25);
}

TEST_CASE("Memory model: within 5 % of the heap for a ladder", "[memory]") {
  StageCase shape = Case(128, 4, GENERATE(false, true));
  shape.config.model.ladder = 2;
  shape.config.model.layers = 6;
  shape.config.pipeline.sequences_per_microbatch = 8;
  shape.recomputed = GENERATE(0, 1, 4);
  shape.split = DeviceSplit::kTensors;
  shape.devices = GENERATE(1, 2);
  CheckWithinFivePercent(shape);
}

TEST_CASE("Memory model: within 5 % of the heap where microbatches are large", "[memory]") {
  StageCase shape = Case(128, 3, false);
  shape.config.pipeline.sequences_per_microbatch = 8;
  shape.config.pipeline.in_flight = 4;
  shape.offers_plenty = GENERATE(false, true);
  CheckWithinFivePercent(shape);
}

TEST_CASE("Memory model: within 5 % of the heap where layers are recomputed", "[memory]") {
  StageCase shape = Case(128, 4, GENERATE(false, true));
  shape.config.pipeline.sequences_per_microbatch = 8;
  shape.recomputed = GENERATE(1, 4);
  CheckWithinFivePercent(shape);
}

TEST_CASE("Memory model: within 5 % of the heap where stashes are parked on disk", "[memory]") {
  const DiskDirectory directory;
  StageCase shape = Case(128, 3, GENERATE(false, true));
  shape.config.pipeline.sequences_per_microbatch = 4;
  shape.config.pipeline.in_flight = 8;
  shape.config.pipeline.microbatches_per_step = 16;
  shape.recomputed = GENERATE(0, 1);
  const StageHolds holds = HoldsOf(shape.config, 2, 2, shape.holds_ends);
  REQUIRE(holds.microbatches >= 8);
  shape.parked = holds.microbatches - GENERATE(2, 3);
  shape.spill = directory.path();
  CheckWithinFivePercent(shape);
}

TEST_CASE("Memory model: within 5 % of the heap with the residual in the weights", "[memory]") {
  StageCase shape = Case(256, 2, false);
  shape.config.outer.residual = ResidualPlace::kWeights;
  shape.config.outer.codec = DeltaCodec::kTernary;
  CheckWithinFivePercent(shape);
}

TEST_CASE("Memory model: within 5 % of the heap with the deltas of eight replicas", "[memory]") {
  StageCase shape = Case(256, 1, false);
  shape.replicas = 8;
  shape.config.pipeline.microbatches_per_step = 16;
  shape.config.outer.codec =
      GENERATE(DeltaCodec::kNone, DeltaCodec::kInt8, DeltaCodec::kTernary, DeltaCodec::kTopK);
  CheckWithinFivePercent(shape);
}

TEST_CASE("Memory model: within 5 % of the heap for a stage that nobody shares", "[memory]") {
  StageCase shape = Case(256, 2, true);
  shape.replicas = 1;
  shape.first_replicas = 1;
  CheckWithinFivePercent(shape);
}

TEST_CASE("Memory model: within 5 % of the heap for a wide stage, one microbatch", "[memory]") {
  StageCase shape = Case(512, 1, true);
  shape.config.pipeline.in_flight = 1;
  shape.config.pipeline.microbatches_per_step = 2;
  CheckWithinFivePercent(shape);
}

}  // namespace
}  // namespace skerry
