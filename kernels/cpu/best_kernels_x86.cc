#include "kernels/cpu/kernel_table.h"

namespace skerry {

const KernelTable& BestKernels() {
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return has_avx2 ? kAvx2Kernels : kPortableKernels;
}

}  // namespace skerry
