// Every CPU backend that this processor can run, for tests that hold for all of them.
#pragma once

#include <memory>
#include <vector>

#include "kernels/cpu/cpu_backend.h"

namespace skerry {

constexpr double kForwardError = 1e-5;  // normwise, against the reference backend
constexpr double kGradientError = 5e-5;

// One table for every instruction set that this processor has, the best first.
inline std::vector<const KernelTable*> RunnableKernels() {
  std::vector<const KernelTable*> tables;
  for (auto table = RunnableKernelTables(); *table != nullptr; ++table) tables.push_back(*table);
  return tables;
}

}  // namespace skerry
