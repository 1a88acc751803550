// Compiled for AVX-512 F, BW, DQ, VL, BF16; see kernel_table.h for what may stand here.
#include "kernels/cpu/lanes_bf16.h"
// Lanes first: the bodies are written over them.
#include "kernels/cpu/body/table.h"

namespace skerry {
namespace {

constexpr StorageKernels<Bf16> kStoredAsBf16 = StorageTable<Bf16>();

}  // namespace

constexpr KernelTable kAvx512Bf16Kernels = TableNamed("AVX-512-BF16", &kStoredAsBf16);

}  // namespace skerry
