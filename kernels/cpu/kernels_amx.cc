// Compiled for AVX-512 F, BW, DQ, VL, BF16 and AMX with bf16; see kernel_table.h for what may stand
// here.
#include "kernels/cpu/lanes_bf16.h"
// Lanes first: the bodies are written over them.
#include "kernels/cpu/body/table.h"
// Then what only these processors have.
#include "kernels/cpu/body/bf16_math.h"
//
#include "kernels/cpu/body/pair_product.h"
//
#include "kernels/cpu/body/amx_tile.h"
//
#include "kernels/cpu/body/amx_product.h"
//
#include "kernels/cpu/body/pair_table.h"

namespace skerry {

constexpr KernelTable kAmxKernels = TableNamed("AMX", &kProducts, &kPairProducts, &kStoredAsBf16);

}  // namespace skerry
