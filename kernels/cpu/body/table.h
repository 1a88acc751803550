// All bodies, and the table of them. A kernel file includes a lanes header, then this.
#pragma once

#include "kernels/cpu/kernel_table.h"
// The order matters: each builds on the ones before.
#include "kernels/cpu/body/lane_math.h"
//
#include "kernels/cpu/body/elementwise.h"
//
#include "kernels/cpu/body/tile.h"
//
#include "kernels/cpu/body/attention.h"
#include "kernels/cpu/body/product.h"
//
#include "kernels/cpu/body/attention_backward.h"
#include "kernels/cpu/body/rows.h"

namespace skerry {
namespace {

template <typename T>
constexpr StorageKernels<T> StorageTable() {
  return {.attention_scratch = AttentionScratch,
          .attention_forward = AttentionForward<T>,
          .attention_backward = AttentionBackward<T>,
          .rms_norm_forward = RmsNormForward<T>,
          .rms_norm_backward = RmsNormBackward<T>,
          .rope = Rope<T>,
          .swiglu_forward = SwigluForward<T>,
          .swiglu_backward = SwigluBackward<T>,
          .cross_entropy = CrossEntropy<T>,
          .round = Convert<float, T>,
          .widen = Convert<T, float>};
}

constexpr ProductKernels kProducts = {.type = DType::kFloat32,
                                      .panel = kPanel,
                                      .depth_step = 1,
                                      .scratch = kProductScratch,
                                      .slice_rows = kPanelsInCache ? 2 * kTileRows : 0,
                                      .side_least = kProductSideLeast,
                                      .of_rows_too = kProductsOfRowsToo,
                                      .pack_factor = PackFactor,
                                      .multiply_packed = MultiplyPacked};

constexpr KernelTable TableNamed(const char* name, const ProductKernels* products,
                                 const ProductKernels* bf16_products,
                                 const StorageKernels<Bf16>* bf16) {
  return {.name = name,
          .f32 = StorageTable<float>(),
          .logit_statistics = LogitStatistics,
          .add = Add,
          .sum_of_squares = SumOfSquares,
          .adamw = AdamW,
          .sgd = Sgd,
          .products = products,
          .bf16_products = bf16_products,
          .bf16 = bf16};
}

}  // namespace
}  // namespace skerry
