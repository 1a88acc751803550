// Finding the plug-in: what is said when there is none, and the way to a device through one.
#include "kernels/plugin/loader.h"

#include <cstdlib>
#include <string>

#include "kernels/plugin/gpu_ways.h"
#include "kernels/plugin/table.h"
#include "tests/cuda_on_host/gpu_under_test.h"
#include "tests/kernels/values.h"

namespace skerry {
namespace {

std::string Refusal(const GpuPluginSearch& search) {
  const auto table = LoadGpuTable(search);
  REQUIRE(absl::IsUnavailable(table.status()));
  return std::string(table.status().message());
}

}  // namespace

TEST_CASE("Loader: without a driver nothing else is looked for", "[cuda][error]") {
  CHECK_THAT(Refusal({"libno_such_driver.so.1", {SKERRY_FIBERS_PLUGIN}}),
             Catch::Contains("no NVIDIA driver") && Catch::Contains("libno_such_driver.so.1"));
}

TEST_CASE("Loader: without a plug-in it names every place it looked at", "[cuda][error]") {
  CHECK_THAT(
      Refusal({"", {"/nowhere/a.so", "/nowhere/b.so"}}),
      Catch::Contains("/nowhere/a.so, /nowhere/b.so") && Catch::Contains("./dev build cuda"));
}

TEST_CASE("Loader: a library of somebody else, and one of another version", "[cuda][error]") {
  CHECK_THAT(Refusal({"", {SKERRY_FOREIGN_PLUGIN}}), Catch::Contains("is not a plug-in"));
  CHECK_THAT(Refusal({"", {SKERRY_OLDER_PLUGIN}}),
             Catch::Contains("version " + std::to_string(kGpuTableVersion + 1)) &&
                 Catch::Contains("wants " + std::to_string(kGpuTableVersion) + ":"));
}

TEST_CASE("Loader: a plug-in that loads gives its devices", "[cuda]") {
  const auto table = LoadGpuTable({"", {"/nowhere/a.so", SKERRY_FIBERS_PLUGIN}});
  REQUIRE(table.ok());
  const auto backend = CreateGpuBackend(**table, 0);
  REQUIRE(backend.ok());
  CHECK((*backend)->name() == "CUDA kernels on fibers of the CPU");
  const auto none = CreateGpuBackend(**table, 3).status();
  CHECK_THAT(std::string(none.message()),
             Catch::Contains("no GPU 3") && Catch::Contains("1 usable"));
}

TEST_CASE("Loader: the plug-in of this build works, or says that there is no device", "[cuda]") {
  if (std::string(SKERRY_REAL_PLUGIN).empty()) {
    WARN("this build has no CUDA toolkit");
    return;
  }
  const auto table = LoadGpuTable({"", {SKERRY_REAL_PLUGIN}});
  if (!table.ok()) {  // cuBLASLt is linked, and is not where the linker looks
    CHECK_THAT(std::string(table.status().message()), Catch::Contains("does not load"));
    return;
  }
  GpuText why = {};
  if ((*table)->count(&why) > 0) return;
  WARN("no device: " << why.text);
  CHECK(std::string(why.text).size() > 10);
  CHECK(absl::IsUnavailable(CreateGpuBackend(**table, 0).status()));
}

TEST_CASE("CreateCudaBackend: says for which device there is none, and why", "[cuda][error]") {
  REQUIRE(setenv("SKERRY_CUDA_PLUGIN", "/nowhere/c.so", 1) == 0);
  const auto backend = CreateCudaBackend(3);
  unsetenv("SKERRY_CUDA_PLUGIN");
  REQUIRE(absl::IsUnavailable(backend.status()));
  CHECK_THAT(std::string(backend.status().message()),
             Catch::Contains("device 3") && Catch::Contains("/nowhere/c.so"));
}

TEST_CASE("GPU ways: between two GPUs, and not of one or of a processor", "[cuda]") {
  const auto one = TestGpu(), other = TestGpu();
  const auto way = MeasureWay(*one, *other);
  REQUIRE(way.ok());
  CHECK(WayText(*way) == "direct over PCI Express, 25.0 GB/s");
  CHECK(absl::IsInvalidArgument(MeasureWay(*one, *one).status()));
  CHECK(absl::IsInvalidArgument(MeasureWay(*one, *CreateReferenceBackend()).status()));
  CHECK(WayText({1, 1, 2.314e11}) == "direct over NVLink, 231.4 GB/s");
  CHECK(WayText({0, 0, 9.8e9}) == "through the host, 9.8 GB/s");
  CHECK(WayText({1, 0, 0}) == "direct over PCI Express, but copies fail");
}

TEST_CASE("GpuBackend: more memory than there is is refused, buffers are zeros", "[cuda]") {
  const auto gpu = TestGpu();
  CHECK(absl::IsResourceExhausted(gpu->Allocate(INT64_MAX).status()));
  CHECK(absl::IsResourceExhausted(gpu->Allocate(int64_t{1} << 40).status()));
  const auto buffer = gpu->Allocate(37);
  REQUIRE(buffer.ok());
  Values host(37, 1.0f);
  gpu->Download((*buffer)->data(), host);
  CHECK(host == Values(37));
}

}  // namespace skerry
