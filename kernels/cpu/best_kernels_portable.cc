#include "kernels/cpu/kernel_table.h"

namespace skerry {

const KernelTable* const* RunnableKernelTables() {
  static const KernelTable* const tables[] = {&kPortableKernels, nullptr};
  return tables;
}

const char* ProcessorMaker() {
  return "others";
}

const KernelTable& BestKernels() {
  return kPortableKernels;
}

}  // namespace skerry
