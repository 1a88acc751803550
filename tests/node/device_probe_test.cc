// What a machine says of its memory, read.
#include "node/device_probe.h"

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

}  // namespace
}  // namespace skerry
