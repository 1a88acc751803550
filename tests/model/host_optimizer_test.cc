// The optimizer's state in the host's memory: what is computed there is what the device would.
#include "model/host_optimizer.h"

#include <catch2/catch.hpp>
#include <vector>

#include "common/rng.h"
#include "model/stage_optimizer.h"
#include "tests/model/tiny_run.h"

namespace skerry {
namespace {

struct Arrays {
  std::unique_ptr<Buffer> gradient, parameters, m, v;

  Arrays(Backend& backend, int64_t size) {
    Rng rng(3, "host optimizer");
    for (auto* buffer : {&gradient, &parameters, &m, &v}) {
      *buffer = *backend.Allocate(size);
      std::vector<float> values(static_cast<size_t>(size));
      for (float& value : values) value = static_cast<float>(rng.Uniform());
      backend.Upload(values, (*buffer)->data());
    }
  }
  UpdateArrays Of() const {
    return {.gradient = gradient->data(),
            .parameters = parameters->data(),
            .m = m->data(),
            .v = v->data()};
  }
};

std::vector<float> Values(Buffer& buffer) {
  return {buffer.data(), buffer.data() + buffer.size()};
}

TEST_CASE("Host optimizer: pieces give the bits of the whole, gaps and all", "[model][offload]") {
  const int64_t size = 2 * HostOptimizer::kPiece + 12345;
  const auto device = CreateCpuBackend(1), host = CreateCpuBackend(GENERATE(1, 2));
  const Arrays whole(*device, size), cut(*device, size);
  // Ends in the middle of vectors, a gap across the border of two pieces, a rate of its own.
  const int64_t border = HostOptimizer::kPiece + 1000;
  const std::vector<UpdateRange> ranges = {{1000, 37, 0.5f, 0.1f},
                                           {1037, border - 3000, 0.5f, 0.0f},
                                           {border + 5, 9, 2.0f, 0.1f},
                                           {border + 14, size - border - 77, 0.25f, 0.1f}};
  const AdamWStep step = {1e-2f, 0.9f, 0.95f, 1e-8f, 3};
  device->AdamW(step, ranges, whole.Of());
  const auto optimizer = *HostOptimizer::Create(size, device.get(), host.get());
  optimizer->AdamW(step, ranges, cut.Of());
  CHECK(Values(*cut.parameters) == Values(*whole.parameters));
  CHECK(Values(*cut.m) == Values(*whole.m));
  CHECK(Values(*cut.v) == Values(*whole.v));
  const Arrays before(*device, size);
  for (const size_t gap : {size_t{999}, static_cast<size_t>(border)})
    CHECK(Values(*cut.parameters)[gap] == Values(*before.parameters)[gap]);
}

TEST_CASE("Host optimizer: a stage trains to the same bits, and its state can move there",
          "[model][offload]") {
  const RunConfig config = TinyRun();
  const auto device = CreateCpuBackend(1), host = CreateCpuBackend(1);
  const auto made = [&](Backend* offloaded) {
    return *StageTrainer::Create(config, 0, config.model.layers, true, device.get(), 0,
                                 {0, {}, offloaded});
  };
  const auto step = [&](StageTrainer& trainer, int64_t k) {
    const TinyText text(config, {k, 0});
    std::vector<float> stream(
        static_cast<size_t>(TokensPerMicrobatch(config) * config.model.hidden));
    std::vector<float> gradient(stream.size());
    REQUIRE(trainer.ForwardFirst({k, 0}, text.tokens, stream).ok());
    REQUIRE(trainer.Loss({k, 0}, stream, text.targets, gradient).ok());
    REQUIRE(trainer.Backward({k, 0}, gradient, {}).ok());
    trainer.Accumulate({k, 0});
    REQUIRE(trainer.OptimizerStep(k, 1).ok());
  };
  const auto parameters = [](StageTrainer& trainer) {
    std::vector<float> values(static_cast<size_t>(trainer.layout().size()));
    trainer.ReadParameters(values);
    return values;
  };
  const auto here = made(nullptr);
  auto there = made(host.get());
  for (int64_t k = 0; k < 4; ++k) {
    step(*here, k);
    step(*there, k);
  }
  CHECK(parameters(*there) == parameters(*here));

  // As a joiner: what one has read the other goes on from.
  std::vector<float> first(static_cast<size_t>(here->optimizer().moments())), second(first.size());
  here->optimizer().ReadMoments(first, second);
  there = made(host.get());
  there->WriteParameters(parameters(*here));
  REQUIRE(there->optimizer().WriteMoments(here->optimizer().steps(), first, second).ok());
  for (int64_t k = 4; k < 6; ++k) {
    step(*here, k);
    step(*there, k);
  }
  CHECK(parameters(*there) == parameters(*here));
  here->ResetOptimizer();
  there->ResetOptimizer();
  step(*here, 6);
  step(*there, 6);
  CHECK(parameters(*there) == parameters(*here));
}

}  // namespace
}  // namespace skerry
