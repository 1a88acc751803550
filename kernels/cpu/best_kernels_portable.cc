#include "kernels/cpu/kernel_table.h"

namespace skerry {

const KernelTable& BestKernels() {
  return kPortableKernels;
}

}  // namespace skerry
