#include "sim/device_catalog.h"

#include <catch2/catch.hpp>
#include <set>

#include "common/status.h"
#include "sim/scenario.h"

namespace skerry {
namespace {

TEST_CASE("DeviceCatalog: every device has sources, memory, and sustains less than its peak",
          "[sim][device]") {
  std::set<std::string> names;
  for (const DeviceSpec& device : DeviceCatalog()) {
    INFO(device.name);
    CHECK(names.insert(device.name).second);
    CHECK(device.memory_gib > 0);
    const bool is_card = device.title.find("NVIDIA") == 0 || device.title.find("GeForce") == 0;
    CHECK((device.host_gib > 0) == is_card);
    CHECK(device.memory_gb_per_s > 0);
    CHECK_FALSE(device.peak_source.empty());
    CHECK_FALSE(device.sustained_source.empty());
    CHECK(device.fp32.sustained_tflops > 0);
    CHECK(device.fp32.sustained_tflops <= device.fp32.peak_tflops);
    CHECK(device.bf16.sustained_tflops <= device.bf16.peak_tflops);
    CHECK((device.bf16.peak_tflops > 0) == (device.bf16.sustained_tflops > 0));
    CHECK((device.bf16.peak_tflops > 0) == (device.natural_format() == NumberFormat::kBf16));
  }
  for (const char* wanted :
       {"h100", "h200", "a100", "l4", "t4", "v100", "a10g", "rtx-3060", "rtx-3080", "rtx-3090",
        "rtx-4060", "rtx-4070", "rtx-4080", "rtx-4090", "rtx-5090"}) {
    CHECK(FindDevice(wanted));
  }
  CHECK_FALSE(FindDevice("voodoo-2"));
}

TEST_CASE("DeviceCatalog: a scenario's device may have a disk for activations",
          "[sim][device][spill]") {
  const auto parsed = [](const std::string& disk) {
    return ParseScenario(
        "name = \"test\"\nhorizon_s = 600\nregions = [\"us\"]\n[run]\nnodes_min = 1\n"
        "[device.box]\nfp32_tflops = 1\nmemory_gib = 8\n" +
            disk + "[[nodes]]\nregion = \"us\"\ndevice = \"box\"\n",
        "s.toml");
  };
  const auto with = parsed("spill_gib = 100\nspill_gb_per_s = 1.5\n");
  REQUIRE(with.ok());
  const DeviceProfile profile = ProfileOf(with->nodes.front().device, NumberFormat::kFp32);
  CHECK(profile.spill_bytes == int64_t{100} << 30);
  CHECK(profile.spill_bytes_per_s == Approx(1.5e9));
  CHECK(ErrorText(parsed("spill_gib = 100\n").status()).find("spill_gb_per_s") !=
        std::string::npos);
}

TEST_CASE("DeviceCatalog: a profile says rate, memory and whose bits agree", "[sim][device]") {
  const DeviceProfile profile = ProfileOf(*FindDevice("rtx-4090"), NumberFormat::kBf16);
  CHECK(profile.gflops == Approx(157'000));
  CHECK(profile.memory_bytes == int64_t{24} << 30);
  CHECK(profile.host_bytes == int64_t{32} << 30);
  CHECK(profile.numeric_profile == "simulated rtx-4090 bf16");
  CHECK(ProfileOf(*FindDevice("rtx-4090"), NumberFormat::kFp32).numeric_profile !=
        profile.numeric_profile);
}

}  // namespace
}  // namespace skerry
