// Compiled for AVX-512 F, BW, DQ, VL, BF16; see kernel_table.h for what may stand here.
#include "kernels/cpu/lanes_bf16.h"
// Lanes first: the bodies are written over them.
#include "kernels/cpu/body/table.h"
// Then what only these processors have.
#include "kernels/cpu/body/bf16_math.h"
//
#include "kernels/cpu/body/pair_product.h"
//
#include "kernels/cpu/body/pair_tile.h"
//
#include "kernels/cpu/body/pair_table.h"

namespace skerry {

constexpr KernelTable kAvx512Bf16Kernels =
    TableNamed("AVX-512-BF16", &kProducts, nullptr, &kStoredAsBf16);

}  // namespace skerry
