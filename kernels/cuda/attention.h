// The two bodies of attention, picked by attention.cu: on tensor cores for head sizes 64 and 128 of
// 16-byte aligned rows, plain float32 for any other.
#pragma once

#include "kernels/cuda/device.h"

namespace skerry::cuda {

inline constexpr int64_t kPlainHeadMax = 256;

void TensorForward(GpuDevice& device, const GpuAttention& args);
void PlainForward(GpuDevice& device, const GpuAttention& args);

// `own_dot` [T, h] is Σ ∂out·out over a head.
void TensorBackward(GpuDevice& device, const GpuAttention& args, const float* own_dot);
void PlainBackward(GpuDevice& device, const GpuAttention& args, const float* own_dot);

}  // namespace skerry::cuda
