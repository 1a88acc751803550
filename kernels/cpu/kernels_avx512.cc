// Compiled for AVX-512 F, BW, DQ, VL; see kernel_table.h for what may stand here.
#include "kernels/cpu/lanes_avx512.h"
// Lanes first: the bodies are written over them.
#include "kernels/cpu/body/table.h"

namespace skerry {

constexpr KernelTable kAvx512Kernels = TableNamed("AVX-512", &kProducts, nullptr, nullptr);

}  // namespace skerry
