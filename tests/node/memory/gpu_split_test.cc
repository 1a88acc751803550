// Devices with memory of their own that share every layer's tensors, by the CUDA text on fibers.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <mutex>

#include "bench/stage_exercise.h"
#include "model/stage_team.h"
#include "tests/cuda_on_host/gpu_under_test.h"
#include "tests/model/tiny_run.h"

namespace skerry {
namespace {

// What each device holds, and held at most.
struct DeviceHeld {
  std::map<void*, int64_t> taken;
  int64_t held = 0, most = 0;
};
std::map<GpuDevice*, DeviceHeld>& Held() {
  static std::map<GpuDevice*, DeviceHeld> held;
  return held;
}

std::mutex held_mutex;

void* Take(GpuDevice* device, int64_t bytes) {
  const std::lock_guard lock(held_mutex);
  void* memory = TestGpuTable().allocate(device, bytes);
  DeviceHeld& books = Held()[device];
  books.taken[memory] = bytes;
  books.held += bytes;
  books.most = std::max(books.most, books.held);
  return memory;
}
void Give(GpuDevice* device, void* memory) {
  const std::lock_guard lock(held_mutex);
  DeviceHeld& books = Held()[device];
  books.held -= books.taken[memory];
  books.taken.erase(memory);
  TestGpuTable().release(device, memory);
}

std::unique_ptr<Backend> CountedGpu(DType compute) {
  static const GpuTable table = [] {
    GpuTable counted = TestGpuTable();
    counted.allocate = &Take;
    counted.release = &Give;
    return counted;
  }();
  return *CreateGpuBackend(table, 0, compute);
}

double Off(int64_t model, int64_t measured) {
  return static_cast<double>(model) / static_cast<double>(measured) - 1;
}

// A whole tiny model on so many GPUs: its parameters after two steps, then streams and losses of
// those.
std::vector<float> Trained(const RunConfig& config, int devices) {
  std::vector<std::unique_ptr<Backend>> gpus;
  std::vector<TeamDevice> team;
  for (int i = 0; i < devices; ++i)
    team.push_back({gpus.emplace_back(CountedGpu(ComputeTypeOf(config.inner))).get()});
  const int32_t layers = config.model.layers;
  const auto stage = *StageTeam::Create(config, {0, layers, true, 1, DeviceSplit::kTensors}, team);
  REQUIRE(stage->devices() == devices);
  std::vector<float> values(static_cast<size_t>(stage->layout().size()));
  std::vector<float> stream(static_cast<size_t>(TokensPerMicrobatch(config) * config.model.hidden));
  for (int64_t step = 0; step < 2; ++step) {
    const TinyText text(config, {step, 0});
    REQUIRE(stage->ForwardFirst({step, 0}, text.tokens, stream).ok());
    values.insert(values.end(), stream.begin(), stream.end());
    values.push_back(*stage->Loss({step, 0}, stream, text.targets, stream));
    REQUIRE(stage->Backward({step, 0}, stream, {}).ok());
    stage->Accumulate({step, 0});
    REQUIRE(stage->OptimizerStep(step, 1).ok());
    REQUIRE(stage->CheckEqual().ok());
  }
  stage->ReadParameters(std::span(values).first(static_cast<size_t>(stage->layout().size())));
  return values;
}

}  // namespace

TEST_CASE("GPU split: two devices that share tensors train as one does", "[cuda]") {
  RunConfig config = TinyRun();
  config.model.layers = 2;
  config.model.ffn = 20;
  config.model.qkv_bias = true;
  config.model.ladder = GENERATE(0, 1, 2);
  config.inner.compute = GENERATE(InnerCompute::kFloat32, InnerCompute::kBfloat16);
  INFO("ladder " << config.model.ladder);
  const std::vector<float> one = Trained(config, 1), two = Trained(config, 2);
  const double most = config.inner.compute == InnerCompute::kFloat32 ? 2e-5 : 1e-3;
  CHECK(two != one);
  double furthest = 0;
  for (size_t i = 0; i < one.size(); ++i)
    furthest = std::max(furthest, std::abs(double{one[i]} - double{two[i]}));
  CHECK(furthest < most);
}

TEST_CASE("GPU split: within 5 % of what devices and host hold", "[cuda][memory]") {
  StageCase shape = SmallCase(256, 2, GENERATE(false, true));
  shape.config.model.vocab = 256;
  shape.config.model.context = 16;
  shape.device = CountedGpu;
  shape.devices = 2;
  shape.split = DeviceSplit::kTensors;
  shape.offloads = GENERATE(false, true);
  StageCase small = shape;
  small.layers = 1;
  REQUIRE(MeasureStage(small).ok());  // stacks of fibers, once
  Held().clear();
  const auto bytes = MeasureStage(shape);
  REQUIRE(bytes.ok());
  const NodeMemory& memory = bytes->memory;
  std::vector<int64_t> most;
  for (const auto& [device, books] : Held()) most.push_back(books.most);
  std::sort(most.rbegin(), most.rend());
  REQUIRE(most.size() == 2);
  // Deltas are made on the first device, where all have room for it.
  const int64_t other = memory.each.total() - memory.each.codec;
  const int64_t all = bytes->model - memory.each.codec;
  INFO("devices: model " << BytesText(memory.each.total()) << ", " << BytesText(other) << ", taken "
                         << BytesText(most[0]) << ", " << BytesText(most[1]) << "; all: model "
                         << BytesText(all) << ", heap " << BytesText(bytes->heap));
  CHECK(std::abs(Off(memory.each.total(), most[0])) <= 0.05);
  CHECK(std::abs(Off(other, most[1])) <= 0.05);
  CHECK(std::abs(Off(all, bytes->heap)) <= 0.05);
}

}  // namespace skerry
