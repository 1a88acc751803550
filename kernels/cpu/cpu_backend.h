// The CPU backend with kernels of the caller's choice; CreateCpuBackend (kernels/backend.h) takes
// the best.
#pragma once

#include <memory>

#include "kernels/backend.h"
#include "kernels/cpu/kernel_table.h"

namespace skerry {

// `kernels` must run on this processor, and outlive the backend. One thread owns the backend;
// products use a team of `threads` ≥ 1, everything else the owning thread alone.
std::unique_ptr<Backend> CreateCpuBackendWith(const KernelTable& kernels, int threads);

}  // namespace skerry
