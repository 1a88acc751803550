#include "kernels/cpu/kernel_table.h"

namespace skerry {
namespace {

struct Tables {
  Tables();
  const KernelTable* tables[5] = {};
};

Tables::Tables() {
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") &&
                          __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  int count = 0;
  if (has_avx512 && __builtin_cpu_supports("avx512bf16")) tables[count++] = &kAvx512Bf16Kernels;
  if (has_avx512) tables[count++] = &kAvx512Kernels;
  if (has_avx2) tables[count++] = &kAvx2Kernels;
  tables[count] = &kPortableKernels;
}

}  // namespace

const KernelTable* const* RunnableKernelTables() {
  static const Tables tables;
  return tables.tables;
}

const char* ProcessorMaker() {
  return __builtin_cpu_is("amd") ? "amd" : __builtin_cpu_is("intel") ? "intel" : "others";
}

const KernelTable& BestKernels() {
  return *RunnableKernelTables()[0];
}

}  // namespace skerry
