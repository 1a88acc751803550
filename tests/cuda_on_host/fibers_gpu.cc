#include "tests/cuda_on_host/block_runner.h"
#include "tests/cuda_on_host/gpu_under_test.h"

extern "C" const skerry::GpuTable* skerry_gpu_table(uint32_t wanted);

namespace skerry {

const GpuTable& TestGpuTable() {
  const GpuTable* table = skerry_gpu_table(kGpuTableVersion);
  REQUIRE(table != nullptr);
  return *table;
}

void OrderThreads(uint64_t seed) {
  cuda::SeedFiberOrder(seed);
}

}  // namespace skerry
