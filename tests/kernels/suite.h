// Every CPU backend that this processor can run, for tests that hold for all of them.
#pragma once

#include <memory>
#include <vector>

#include "kernels/cpu/cpu_backend.h"

namespace skerry {

constexpr double kForwardError = 1e-5;  // normwise, against the reference backend
constexpr double kGradientError = 5e-5;

// The kernels that CreateCpuBackend would pick, and the portable ones.
inline std::vector<const KernelTable*> RunnableKernels() {
  if (&BestKernels() == &kPortableKernels) return {&kPortableKernels};
  return {&kPortableKernels, &BestKernels()};
}

}  // namespace skerry
