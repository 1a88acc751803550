// In which memory a stage on a GPU lies: what the plug-in is asked for against the memory model.
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <mutex>

#include "bench/counted_heap.h"
#include "bench/stage_exercise.h"
#include "tests/cuda_on_host/gpu_under_test.h"
#include "tests/model/disk_directory.h"

namespace skerry {
namespace {

// What the devices of a table hold, and held at most.
struct DeviceBooks {
  std::mutex mutex;
  std::map<void*, int64_t> taken;
  int64_t held = 0, most = 0;
};
DeviceBooks& Books() {
  static DeviceBooks books;
  return books;
}

void* Take(GpuDevice* device, int64_t bytes) {
  void* memory = TestGpuTable().allocate(device, bytes);
  const std::lock_guard lock(Books().mutex);
  Books().taken[memory] = bytes;
  Books().held += bytes;
  Books().most = std::max(Books().most, Books().held);
  return memory;
}

void Give(GpuDevice* device, void* memory) {
  {
    const std::lock_guard lock(Books().mutex);
    Books().held -= Books().taken[memory];
    Books().taken.erase(memory);
  }
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

StageCase Case(int32_t hidden, int32_t layers, bool holds_ends) {
  StageCase shape = SmallCase(hidden, layers, holds_ends);
  shape.config.model.vocab = 256;
  shape.config.model.context = 16;
  shape.device = CountedGpu;
  return shape;
}

double Off(int64_t model, int64_t measured) {
  return static_cast<double>(model) / static_cast<double>(measured) - 1;
}

}  // namespace

TEST_CASE("GPU memory: parked stashes leave the device for its host, or for a disk",
          "[cuda][memory][spill]") {
  const DiskDirectory directory;
  const bool on_disk = GENERATE(false, true);
  StageCase shape = Case(256, 2, GENERATE(false, true));
  shape.config.pipeline.in_flight = 6;
  shape.config.pipeline.microbatches_per_step = 12;
  shape.config.pipeline.sequences_per_microbatch = 4;
  const StageHolds holds = HoldsOf(shape.config, 2, 2, shape.holds_ends);
  REQUIRE(holds.microbatches >= 6);
  shape.parked = holds.microbatches - 2;
  if (on_disk) shape.spill = directory.path();
  REQUIRE(MeasureStage(Case(64, 1, true)).ok());  // stacks of fibers, once
  Books().most = 0;
  const auto bytes = MeasureStage(shape);
  REQUIRE(bytes.ok());
  const StageMemory& each = bytes->memory.each;
  INFO("device: model " << BytesText(each.total()) << ", taken " << BytesText(Books().most)
                        << "; all: model " << BytesText(bytes->model) << ", heap "
                        << BytesText(bytes->heap));
  CHECK(std::abs(Off(each.total(), Books().most)) <= 0.05);
  CHECK(std::abs(bytes->error()) <= 0.05);
  const int32_t on_host = on_disk ? kStagedStashes : shape.parked + kSwapSlots;
  CHECK(bytes->memory.host.stash == on_host * each.stash / 2);
  CHECK(Books().held == 0);
}

TEST_CASE("GPU memory: within 5 % of what the device gives, and of what is left to the host",
          "[cuda][memory]") {
  StageCase shape = Case(256, 2, GENERATE(false, true));
  shape.offloads = GENERATE(false, true);
  REQUIRE(MeasureStage(Case(64, 1, true)).ok());  // stacks of fibers, once
  Books().most = 0;
  const auto bytes = MeasureStage(shape);
  REQUIRE(bytes.ok());
  const int64_t on_device = Books().most;
  const StageMemory& each = bytes->memory.each;
  INFO("device: model " << BytesText(each.total()) << ", taken " << BytesText(on_device)
                        << "; all: "
                        << "model " << BytesText(bytes->model) << ", heap "
                        << BytesText(bytes->heap) << "\n"
                        << PartsText(each) << "\n"
                        << PartsText(bytes->memory.host));
  CHECK(std::abs(Off(each.total(), on_device)) <= 0.05);
  CHECK(std::abs(bytes->error()) <= 0.05);
  CHECK((each.optimizer == 0) == shape.offloads);
  CHECK(Books().held == 0);
}

}  // namespace skerry
