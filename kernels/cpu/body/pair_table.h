// Bf16 storage with attention on pairs; see kernel_table.h for what may stand here.
#pragma once

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
}  // namespace skerry
