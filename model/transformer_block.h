// One LLaMA layer forward and backward, written once over the backend's operations.
//
//   a = RMSNorm(x; input_norm)        q, k, v = a·Wqᵀ, a·Wkᵀ, a·Wvᵀ (+ biases)
//                                     q, k rotated by position
//   y = x + Attention(q, k, v)·Woᵀ    b = RMSNorm(y; post_norm)
//   out = y + (silu(b·Wgateᵀ) ⊙ b·Wupᵀ)·Wdownᵀ
//
// q, k and v are columns of one product, gate and up of another. What a half of a layer adds to the
// residual stream (`branch`) is added by the norm that reads the stream next.
//
// Kept for the backward pass (the stash): x, qkv, attention, log_sum_exp, y, gate_up and the two
// inverse RMS; a, b and the SwiGLU product are recomputed at memory speed. A layer may keep x
// alone: then BlockRefill computes the others again, by the same operations on the same values, so
// that gradients have the same bits (Chen et al. 2016, arXiv 1604.06174, a segment a layer).
// Letters as in kernels/backend.h: T tokens, d hidden, q = heads · head_size, kv = kv_heads ·
// head_size, f ffn. The stream (x, y, branch) is float32, what lies between products is of the
// backend's compute type.
//
// Where several devices share a layer's tensors (model/tensor_split.h) heads, kv_heads and f are
// one device's; it makes its part of each branch and of each gradient of a, b, and those are
// summed over all (Shoeybi et al., "Megatron-LM", 2019, section 3). Else q = d.
#pragma once

#include <cstdint>

#include "common/device_split.h"
#include "common/run_config.h"
#include "kernels/backend.h"
#include "model/branch_sum.h"
#include "model/buffer_pool.h"
#include "model/parameter_layout.h"
#include "model/weight_store.h"

namespace skerry {

// Sizes of one pass through the model.
struct PassShape {
  AttentionShape attention;
  int64_t hidden = 0;
  int64_t ffn = 0;
  int64_t vocab = 0;
  int64_t first_token = 0;  // of these, in the whole vocabulary
  TensorShard shard = {};   // heads, kv_heads, ffn and vocab are this one's
  RopeAngles rope;
  float norm_epsilon = 0;
  int64_t mean_tokens = 0;  // that the loss is the mean over: T, or more where others have the rest
  int32_t ladder = 0;       // TransformerConfig::ladder

  DType compute = DType::kFloat32;

  static PassShape Of(const TransformerConfig& config, int64_t sequences, int64_t context,
                      DType compute);
  int64_t tokens() const { return attention.sequences * attention.context; }
  // What one of several devices that share a stage's tensors computes.
  PassShape Share(const TensorShard& of) const;
  int64_t q_width() const { return attention.heads * attention.head_size; }
  int64_t kv_width() const { return attention.kv_heads * attention.head_size; }
  int64_t qkv_width() const { return q_width() + 2 * kv_width(); }
};

// The columns of a product with Wqkv, or of its gradient.
struct QkvColumns {
  Tensor q, k, v;
  QkvColumns(const PassShape& shape, const Tensor& qkv);
};

// What a layer multiplies by; offsets into the arena of a stage.
struct BlockWeights {
  const float* input_norm = nullptr;
  ConstTensor qkv;                  // [q + 2kv, d]: three tensors that lie next to each other
  const float* qkv_bias = nullptr;  // [q + 2kv], likewise; null: the model has none
  ConstTensor o;                    // [d, q]
  const float* post_norm = nullptr;
  ConstTensor gate_up;  // [2f, d]: two tensors, likewise
  ConstTensor down;     // [d, f]

  static BlockWeights At(const ParameterLayout& layout, int32_t layer, const WeightArena& arena);
};

struct BlockGradients {
  float* input_norm = nullptr;
  Matrix qkv;
  float* qkv_bias = nullptr;
  Matrix o;
  float* post_norm = nullptr;
  Matrix gate_up, down;

  static BlockGradients At(const ParameterLayout& layout, int32_t layer, float* arena);
};

struct BlockStash {
  Matrix x;                       // [T, d]
  float* inverse_rms1 = nullptr;  // [T]
  Tensor qkv;                     // [T, q + 2kv]; q and k rotated
  Tensor attention;               // [T, q]
  float* log_sum_exp = nullptr;   // [T, heads]
  Matrix y;                       // [T, d]
  float* inverse_rms2 = nullptr;  // [T]
  Tensor gate_up;                 // [T, 2f]
  // `reads_once`: y is x, as in the first layer of a ladder.
  BlockStash(const PassShape& shape, FloatCarver& carver, bool reads_once = false);
  // Without x: what layers that keep only that share, one pass at a time. In a ladder also without
  // y and the inverse RMS.
  static BlockStash Shared(const PassShape& shape, FloatCarver& carver);
  // What that is without, all else of `shared`.
  static BlockStash InputOnly(const PassShape& shape, const BlockStash& shared, FloatCarver& carver,
                              bool reads_once = false);

 private:
  BlockStash() = default;
  void TakeStatistics(const PassShape& shape, FloatCarver& carver, bool reads_once);
  void TakeActivations(const PassShape& shape, FloatCarver& carver);
};

// What a pass needs between two operations; shared by all layers.
struct BlockScratch {
  Matrix branch;       // [T, d]: what comes on top of the stream
  Tensor normed;       // [T, d]
  Tensor product;      // [T, f]
  Tensor rounded;      // [T, d]: the stream's gradient in compute type; empty where that is float32
  Tensor d_normed;     // [T, d]
  Tensor d_attention;  // [T, q]
  Tensor d_qkv;        // [T, q + 2kv]
  Tensor d_product;    // [T, f]
  Tensor d_gate_up;    // [T, 2f]
  float* inverse_rms;  // [T]
  // In a ladder what the MLP adds is made while attention's is summed, and likewise back; else
  // these are `branch` and `d_normed`.
  Matrix mlp_branch;         // [T, d]
  Tensor mlp_d_normed;       // [T, d], in the memory of mlp_branch
  BranchSum* sum = nullptr;  // over the devices that share the layers; nullptr: one has them whole
  BlockScratch(const PassShape& shape, FloatCarver& carver);
};

// Where attention and MLP read the stream with all that comes before them; other wirings:
// model/ladder_block.h.
//
// The input is `before` + scratch.branch, which becomes stash.x; or stash.x, where `before` is
// empty. Fills the rest of the stash. The output is stash.y + scratch.branch.
void BlockForward(Backend& backend, const PassShape& shape, const BlockWeights& weights,
                  const BlockStash& stash, const BlockScratch& scratch, ConstMatrix before);

// Fills the stash from stash.x as BlockForward did; overwrites scratch.branch and scratch.normed.
void BlockRefill(Backend& backend, const PassShape& shape, const BlockWeights& weights,
                 const BlockStash& stash, const BlockScratch& scratch);

// out = stash.y + scratch.branch, after the last layer.
void BlockOutput(Backend& backend, const BlockStash& stash, const BlockScratch& scratch,
                 Matrix out);

// scratch.rounded from ∂loss/∂out, before the last layer's BlockBackward.
void BeginBackward(Backend& backend, const BlockScratch& scratch, ConstMatrix stream);

// stream [T, d] is ∂loss/∂out on entry and ∂loss/∂x on return; scratch.rounded follows it. Every
// tensor of `gradients` is written.
void BlockBackward(Backend& backend, const PassShape& shape, const BlockWeights& weights,
                   const BlockStash& stash, const BlockScratch& scratch,
                   const BlockGradients& gradients, Matrix stream);

}  // namespace skerry
