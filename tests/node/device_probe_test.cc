// What a machine says of its memory, read.
#include "node/device_probe.h"

#include "node/device_choice.h"

#include <catch2/catch.hpp>

namespace skerry {
namespace {

TEST_CASE("Device probe: memory that only caches files is free", "[node]") {
  CHECK(AvailableMemory("MemTotal:       16384 kB\nMemFree:          100 kB\n"
                        "MemAvailable:   12288 kB\nBuffers: 1 kB\n") == 12288 * 1024);
  CHECK(AvailableMemory("MemTotal: 16384 kB\n") == 0);
  CHECK(AvailableMemory("") == 0);
}

TEST_CASE("Device probe: a control group's limit bounds it", "[node]") {
  CHECK(LeftOfGroup("1000\n", "700\n", "anon 500\nfile 200\nkernel 1\n") == 500);
  CHECK(LeftOfGroup("1000\n", "1200\n", "anon 1200\nfile 0\n") == 0);
  CHECK(LeftOfGroup("max\n", "700\n", "anon 1\n") == INT64_MAX);
  CHECK(LeftOfGroup("", "", "") == INT64_MAX);
}

TEST_CASE("Device probe: of a computer with more GPUs a node offers its own GPUs' part", "[node]") {
  CHECK(AvailableMemory("MemTotal: 16384 kB\nMemAvailable: 1 kB\n", "MemTotal:") == 16384 * 1024);
  CHECK(HostShare(700, 800, 1, 8) == 100);
  CHECK(HostShare(70, 800, 1, 8) == 70);  // others have taken theirs, and more
  CHECK(HostShare(700, 800, 3, 8) == 300);
  CHECK(HostShare(700, 800, 8, 8) == 700);
  CHECK(HostShare(700, 800, 1, 0) == 700);  // no driver says how many there are
  CHECK(HostShare(700, 0, 1, 8) == 700);
}

TEST_CASE("Device probe: the rate in bf16 is said where there is one", "[node]") {
  CHECK(RatesText({"", "", 210.4, 0, 430}) == "210 GFLOP/s in float32, 430 in bf16");
  CHECK(RatesText({"", "", 210.4, 0, 0}) == "210 GFLOP/s in float32, no bf16");
  const auto profile = ProbeDevice({.threads = 1, .why = ""});
  REQUIRE(profile.ok());
  CHECK(profile->gflops > 0);
  CHECK(profile->memory_bytes > 0);
  CHECK((profile->bf16_gflops > 0) ==
        (CreateCpuBackend(1, DType::kBfloat16)->compute_type() == DType::kBfloat16));
}

TEST_CASE("Devices: a list is of GPUs that work and of equal parts of the processor", "[node]") {
  const auto cpus = ChooseDevices("cpu,cpu,cpu", DeviceWish::kAuto, 7);
  REQUIRE(cpus.ok());
  REQUIRE(cpus->size() == 3);
  for (const DeviceChoice& device : *cpus) CHECK((!device.gpu && device.threads == 2));
  CHECK(DevicesText(*cpus) == "cpu, cpu, cpu: as asked for");
  CHECK(ChooseDevices("cpu,cpu", DeviceWish::kAuto, 1)->front().threads == 1);
  CHECK(ChooseDevices("", DeviceWish::kCpu, 7)->size() == 1);
  CHECK(ChooseDevices("all", DeviceWish::kAuto, 7)->size() >= 1);
  const std::string bad =
      GENERATE("gpu", "cuda", "cuda:", "cuda:x", "cuda:-1", "cpu,", ",", "cuda:123");
  INFO(bad);
  CHECK(absl::IsInvalidArgument(ChooseDevices(bad, DeviceWish::kAuto, 2).status()));
  CHECK(absl::IsInvalidArgument(ChooseDevices("cuda:7,cuda:7", DeviceWish::kAuto, 2).status()));
}

TEST_CASE("Devices: several are announced as one", "[node]") {
  constexpr int64_t kGiB = int64_t{1} << 30;
  const DeviceProfile gpu{"GPU A", "cuda A", 100, 20 * kGiB, 400};
  const DeviceProfile faster{"GPU A", "cuda A", 140, 16 * kGiB, 500};
  const DeviceProfile cpu{"CPU", "cpu", 20, 24 * kGiB, 0};
  const DeviceChoice on_gpu{true, 0, 1, ""}, on_cpu{false, 0, 1, ""};

  const TeamProfile gpus = TeamOf({gpu, faster}, std::vector{on_gpu, on_gpu});
  CHECK(gpus.whole.name == "2 × GPU A");
  CHECK(gpus.whole.numeric_profile == "2 × cuda A");
  CHECK(gpus.whole.gflops == 240);
  CHECK(gpus.whole.bf16_gflops == 900);
  CHECK(gpus.whole.memory_bytes == 16 * kGiB);         // each holds all weights
  CHECK(gpus.rates == std::vector<double>{120, 120});  // equal devices share equally

  const TeamProfile split =
      TeamOf({gpu, faster}, std::vector{on_gpu, on_gpu}, DeviceSplit::kTensors);
  CHECK(split.whole.numeric_profile == "2 ÷ cuda A");
  CHECK(split.whole.memory_bytes == 16 * kGiB);

  const TeamProfile mixed = TeamOf({gpu, cpu, cpu}, std::vector{on_gpu, on_cpu, on_cpu});
  CHECK(mixed.whole.name == "2 × CPU + GPU A");
  CHECK(mixed.whole.memory_bytes == 12 * kGiB);  // two share the host's
  CHECK(mixed.whole.bf16_gflops == 0);
  CHECK(mixed.rates == std::vector<double>{100, 20, 20});
  CHECK(mixed.whole.numeric_profile == "cuda A + cpu + cpu");

  const TeamProfile alone = TeamOf({cpu}, std::vector{on_cpu});
  CHECK(alone.whole == cpu);
}

}  // namespace
}  // namespace skerry
