// Two GPUs that share sequences, by the CUDA text on fibers: their gradients are summed beside the
// backward pass, over NCCL's functions or through host memory.
#include <atomic>
#include <cmath>
#include <cstdlib>

#include "common/status.h"
#include "kernels/plugin/gpu_backend.h"
#include "kernels/plugin/loader.h"
#include "model/sequence_team.h"
#include "tests/model/tiny_run.h"

namespace skerry {
namespace {

const GpuTable& PluginTable() {
  static const GpuTable* table = [] {
    setenv("SKERRY_NCCL", SKERRY_FAKE_NCCL, 1);
    return *LoadGpuTable({"", {SKERRY_FIBERS_PLUGIN}});
  }();
  return *table;
}

// Marks, and who waits for them. What was asked for before a mark is done when it is waited for.
struct Marks {
  static inline std::atomic<int64_t> made = 0, awaited = 0;
  static GpuMark* Make(GpuDevice* device) {
    ++made;
    return PluginTable().mark(device);
  }
  static void Await(GpuDevice* device, GpuMark* mark) {
    ++awaited;
    PluginTable().await_mark(device, mark);
  }
};

const GpuTable& Table() {
  static const GpuTable table = [] {
    GpuTable counted = PluginTable();
    counted.mark = &Marks::Make;
    counted.await_mark = &Marks::Await;
    return counted;
  }();
  return table;
}

RunConfig Run(InnerCompute compute, InnerOptimizer optimizer) {
  RunConfig config = TinyRun();
  config.inner.compute = compute;
  config.inner.optimizer = optimizer;
  return config;
}

// Parameters of a whole tiny model after two steps, on GPUs and `processors`.
struct Trained {
  std::vector<float> parameters;
  std::string group;
};
Trained Train(const RunConfig& config, size_t gpus, size_t processors, bool in_parts) {
  std::vector<std::unique_ptr<Backend>> backends;
  std::vector<TeamDevice> team;
  const DType compute = ComputeTypeOf(config.inner);
  for (size_t i = 0; i < gpus + processors; ++i) {
    backends.push_back(i < gpus ? *CreateGpuBackend(Table(), 0, compute)
                                : CreateReferenceBackend(compute));
    team.push_back({backends.back().get()});
  }
  const TeamStage whole{0, config.model.layers, true, 1, DeviceSplit::kSequences, 1};
  const auto stage = *SequenceTeam::Create(config, whole, team);
  std::vector<float> stream(static_cast<size_t>(TokensPerMicrobatch(config) * config.model.hidden));
  for (int64_t step = 0; step < 2; ++step) {
    const MicrobatchKey key{step, 0};
    const TinyText text(config, key);
    REQUIRE(stage->ForwardFirst(key, text.tokens, stream).ok());
    REQUIRE(stage->Loss(key, stream, text.targets, stream).ok());
    for (size_t part = 0; part < stage->parts().size(); ++part) {
      REQUIRE(stage->BackwardPartOf(key, part, stream, {}).ok());
      if (in_parts) stage->SumPart(part, {&key, 1});
    }
    if (!in_parts) stage->Accumulate(key);
    REQUIRE(stage->OptimizerStep(step, 1).ok());
    REQUIRE(stage->CheckEqual().ok());
  }
  Trained trained{std::vector<float>(static_cast<size_t>(stage->layout().size())),
                  stage->group_name()};
  stage->ReadParameters(trained.parameters);
  return trained;
}

}  // namespace

TEST_CASE("GPU team: sums in parts have the bits of sums after the pass", "[cuda][group]") {
  const auto compute = GENERATE(InnerCompute::kFloat32, InnerCompute::kBfloat16);
  const auto optimizer = GENERATE(InnerOptimizer::kAdamW, InnerOptimizer::kMuon);
  const RunConfig config = Run(compute, optimizer);
  const size_t processors = GENERATE(0, 1);
  const size_t gpus = 2 - processors;
  const Trained whole = Train(config, gpus, processors, false);
  Marks::made = Marks::awaited = 0;
  const Trained parted = Train(config, gpus, processors, true);
  const std::string group = processors == 0 ? "NCCL 2.28.9 of 2" : "ring of 2 in this process";
  CHECK(parted.group.substr(0, group.size()) == group);
  CHECK(parted.parameters == whole.parameters);
  // Each sum waits for what its GPUs were given, 2 steps of 5 layers.
  CHECK(Marks::made == static_cast<int64_t>(2 * 5 * gpus));
  CHECK(Marks::awaited == Marks::made);
}

TEST_CASE("GPU team: it trains as one GPU does, but for the rounding of sums", "[cuda][group]") {
  const RunConfig config = Run(InnerCompute::kFloat32, InnerOptimizer::kAdamW);
  const auto one = Train(config, 1, 0, false).parameters;
  const auto two = Train(config, 2, 0, true).parameters;
  double furthest = 0;
  for (size_t i = 0; i < one.size(); ++i)
    furthest = std::max(furthest, std::abs(double{one[i]} - double{two[i]}));
  CHECK(furthest < 2e-5);
}

}  // namespace skerry
