// Compiled with -mavx2 -mfma; see kernel_table.h for what may stand here.
#include "kernels/cpu/lanes_avx2.h"
// Lanes first: the bodies are written over them.
#include "kernels/cpu/body/table.h"

namespace skerry {

constexpr KernelTable kAvx2Kernels = TableNamed("AVX2", &kProducts, nullptr, nullptr);

}  // namespace skerry
