#include <sys/syscall.h>
#include <unistd.h>

#include "kernels/cpu/kernel_table.h"

namespace skerry {
namespace {

struct Tables {
  Tables();
  const KernelTable* tables[6] = {};
};

Tables::Tables() {
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") &&
                          __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  int count = 0;
  const bool has_bf16 = has_avx512 && __builtin_cpu_supports("avx512bf16");
  if (has_bf16 && HasAmx()) tables[count++] = &kAmxKernels;
  if (has_bf16) tables[count++] = &kAvx512Bf16Kernels;
  if (has_avx512) tables[count++] = &kAvx512Kernels;
  if (has_avx2) tables[count++] = &kAvx2Kernels;
  tables[count] = &kPortableKernels;
}

}  // namespace

// Linux keeps room for tiles only for who asks (Documentation/arch/x86/xstate.rst).
bool HasAmx() {
  constexpr int kAsk = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  static const bool has = __builtin_cpu_supports("amx-tile") &&
                          __builtin_cpu_supports("amx-bf16") &&
                          syscall(SYS_arch_prctl, kAsk, kTileData) == 0;
  return has;
}

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
