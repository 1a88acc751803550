// All bodies, and the table of them. A kernel file includes a lanes header, then this.
#pragma once

#include "kernels/cpu/kernel_table.h"
// The order matters: each builds on the ones before.
#include "kernels/cpu/body/lane_math.h"
//
#include "kernels/cpu/body/tile.h"
//
#include "kernels/cpu/body/attention.h"
//
#include "kernels/cpu/body/attention_backward.h"
#include "kernels/cpu/body/elementwise.h"
#include "kernels/cpu/body/rows.h"

namespace skerry {
namespace {

constexpr KernelTable TableNamed(const char* name) {
  return {.name = name,
          .attention_scratch = AttentionScratch,
          .attention_forward = AttentionForward,
          .attention_backward = AttentionBackward,
          .rms_norm_forward = RmsNormForward,
          .rms_norm_backward = RmsNormBackward,
          .rope = Rope,
          .swiglu_forward = SwigluForward,
          .swiglu_backward = SwigluBackward,
          .cross_entropy = CrossEntropy,
          .add = Add,
          .sum_of_squares = SumOfSquares,
          .adamw = AdamW,
          .sgd = Sgd};
}

}  // namespace
}  // namespace skerry
