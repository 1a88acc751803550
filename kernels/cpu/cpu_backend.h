// The CPU backend with kernels of the caller's choice; CreateCpuBackend (kernels/backend.h) takes
// the best.
#pragma once

#include <memory>

#include "kernels/backend.h"
#include "kernels/cpu/kernel_table.h"

namespace skerry {

// `kernels` must run on this processor, and outlive the backend. One thread owns the backend; every
// operation may use a team of `threads` ≥ 1. bf16 where kernels and oneDNN have it, else float32.
std::unique_ptr<Backend> CreateCpuBackendWith(const KernelTable& kernels, int threads,
                                              DType compute = DType::kFloat32);

}  // namespace skerry
