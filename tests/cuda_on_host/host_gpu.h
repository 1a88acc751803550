// The plug-in's kernels as a backend that needs no GPU, and what tests ask of one.
#pragma once

#include <catch2/catch.hpp>
#include <functional>
#include <memory>

#include "kernels/plugin/gpu_backend.h"
#include "tests/cuda_on_host/block_runner.h"

extern "C" const skerry::GpuTable* skerry_gpu_table(uint32_t wanted);

namespace skerry {

inline const GpuTable& HostGpuTable() {
  const GpuTable* table = skerry_gpu_table(kGpuTableVersion);
  REQUIRE(table != nullptr);
  return *table;
}

inline std::unique_ptr<Backend> HostGpu(DType compute = DType::kFloat32) {
  auto backend = CreateGpuBackend(HostGpuTable(), 0, compute);
  REQUIRE(backend.ok());
  return *std::move(backend);
}

// `run()`, which must give the same whatever the order of a block's threads.
template <typename Run>
auto InEveryOrder(Run&& run) {
  cuda::SeedFiberOrder(0);
  const auto ascending = run();
  for (const uint64_t seed : {1, 2}) {
    cuda::SeedFiberOrder(seed);
    CHECK(run() == ascending);
  }
  cuda::SeedFiberOrder(0);
  return ascending;
}

}  // namespace skerry
