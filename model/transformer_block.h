// One LLaMA layer forward and backward, written once over the backend's operations.
//
//   a = RMSNorm(x; input_norm)        q, k, v = a·Wqᵀ, a·Wkᵀ, a·Wvᵀ      q, k rotated by position
//   y = x + Attention(q, k, v)·Woᵀ    b = RMSNorm(y; post_norm)
//   out = y + (silu(b·Wgateᵀ) ⊙ b·Wupᵀ)·Wdownᵀ
//
// Kept for the backward pass (the stash): x, q, k, v, attention, log_sum_exp, y, gate_up and the
// two inverse RMS; a, b and the SwiGLU product are recomputed at memory speed. Letters as in
// kernels/backend.h: T tokens, d hidden, kv = kv_heads · head_size, f ffn.
#pragma once

#include <cstdint>

#include "common/run_config.h"
#include "kernels/backend.h"
#include "model/buffer_pool.h"
#include "model/parameter_layout.h"

namespace skerry {

// Sizes of one pass through the model.
struct PassShape {
  AttentionShape attention;
  int64_t hidden = 0;
  int64_t ffn = 0;
  int64_t vocab = 0;
  float rope_base = 0;
  float norm_epsilon = 0;

  static PassShape Of(const TransformerConfig& config, int64_t sequences, int64_t context);
  int64_t tokens() const { return attention.sequences * attention.context; }
  int64_t kv_width() const { return attention.kv_heads * attention.head_size; }
};

// The tensors of a layer in an arena of parameters (T = const float) or gradients (T = float).
template <typename T>
struct BlockTensors {
  T* input_norm = nullptr;
  BasicMatrix<T> q, k, v, o;  // [d, d], [kv, d], [kv, d], [d, d]
  T* post_norm = nullptr;
  BasicMatrix<T> gate_up;  // [2f, d]: two tensors that lie next to each other
  BasicMatrix<T> down;     // [d, f]

  static BlockTensors At(const ParameterLayout& layout, int32_t layer, T* arena);
};

struct BlockStash {
  Matrix x;             // [T, d]
  float* inverse_rms1;  // [T]
  Matrix q, k, v;       // [T, d], [T, kv], [T, kv], rotated
  Matrix attention;     // [T, d]
  float* log_sum_exp;   // [T, heads]
  Matrix y;             // [T, d]
  float* inverse_rms2;  // [T]
  Matrix gate_up;       // [T, 2f]
  BlockStash(const PassShape& shape, FloatCarver& carver);
};

// What a pass needs between two operations; shared by all layers.
struct BlockScratch {
  Matrix normed;         // [T, d]
  Matrix product;        // [T, f]
  Matrix d_normed;       // [T, d]
  Matrix d_attention;    // [T, d]
  Matrix d_q, d_k, d_v;  // [T, d], [T, kv], [T, kv]
  Matrix d_product;      // [T, f]
  Matrix d_gate_up;      // [T, 2f]
  float* inverse_rms;    // [T]
  BlockScratch(const PassShape& shape, FloatCarver& carver);
};

// stash.x holds the input; fills the rest of the stash and `out` [T, d].
void BlockForward(Backend& backend, const PassShape& shape,
                  const BlockTensors<const float>& weights, const BlockStash& stash,
                  const BlockScratch& scratch, Matrix out);

// stream [T, d] is ∂loss/∂out on entry and ∂loss/∂x on return. Every tensor of `gradients` is
// written.
void BlockBackward(Backend& backend, const PassShape& shape,
                   const BlockTensors<const float>& weights, const BlockStash& stash,
                   const BlockScratch& scratch, const BlockTensors<float>& gradients,
                   Matrix stream);

}  // namespace skerry
