// The GPU that these tests are about, and what they ask of one: the CUDA text on fibers of the
// processor (fibers_gpu.cc), or, in test_gpu, a GPU of this machine (real_gpu.cc). Both reach what
// operator new gives, so arrays of tests are arrays of the device.
#pragma once

#include <catch2/catch.hpp>
#include <memory>

#include "kernels/plugin/gpu_backend.h"

namespace skerry {

const GpuTable& TestGpuTable();

// Of the threads of a block from now on, where that can be chosen; 0 is ascending.
void OrderThreads(uint64_t seed);

inline std::unique_ptr<Backend> TestGpu(DType compute = DType::kFloat32) {
  auto backend = CreateGpuBackend(TestGpuTable(), 0, compute);
  REQUIRE(backend.ok());
  return *std::move(backend);
}

// `run()`, which must give the same whatever the order of a block's threads.
template <typename Run>
auto InEveryOrder(Run&& run) {
  OrderThreads(0);
  const auto ascending = run();
  for (const uint64_t seed : {1, 2}) {
    OrderThreads(seed);
    CHECK(run() == ascending);
  }
  OrderThreads(0);
  return ascending;
}

}  // namespace skerry
