// Compiled for AVX-512 F, BW, DQ, VL, BF16; see kernel_table.h for what may stand here.
#include "kernels/cpu/lanes_bf16.h"
// Lanes first: the bodies are written over them.
#include "kernels/cpu/body/table.h"
// Then what only these processors have.
#include "kernels/cpu/body/bf16_math.h"
//
#include "kernels/cpu/body/pair_tile.h"
//
#include "kernels/cpu/body/pair_attention.h"
//
#include "kernels/cpu/body/pair_attention_backward.h"

namespace skerry {
namespace {

constexpr StorageKernels<Bf16> TableInPairs() {
  StorageKernels<Bf16> table = StorageTable<Bf16>();
  table.attention_scratch = PairAttentionScratch;
  table.attention_forward = PairAttentionForward;
  table.attention_backward = PairAttentionBackward;
  return table;
}

constexpr StorageKernels<Bf16> kStoredAsBf16 = TableInPairs();

}  // namespace

constexpr KernelTable kAvx512Bf16Kernels = TableNamed("AVX-512-BF16", &kProducts, &kStoredAsBf16);

}  // namespace skerry
