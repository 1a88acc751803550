// The two ends of the model: token embedding, and final norm with the output head. Both live on
// stage 0.
//
// Devices that share a stage's tensors have so many rows of embedding and head each
// (common/device_split.h; Shoeybi et al., "Megatron-LM", 2019, section 3). Who has a token's row
// embeds it, the others add zeros. Of the logits of a chunk each has its columns: the parts tell
// each other their largest logits and sums, and so all know every token's loss and each the
// gradient of its own logits. Its part of ∂loss/∂x is summed with the others'. Letters: V is then
// one device's.
//
// A tied head uses the embedding's matrix; its gradient is then the head's part, to which the
// embedding's part is added: in that order, so that bits do not depend on when either is computed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/backend.h"
#include "model/branch_sum.h"
#include "model/buffer_pool.h"
#include "model/parameter_layout.h"
#include "model/transformer_block.h"

namespace skerry {

// Tokens as the device has them whose part of the vocabulary this is.
std::vector<int32_t> OwnTokens(const PassShape& shape, std::span<const int32_t> tokens);

struct EndWeights {
  ConstMatrix embedding;        // [V, d]
  const float* norm = nullptr;  // [d]
  ConstTensor head;             // [V, d]; the embedding's values when tied

  static EndWeights At(const ParameterLayout& layout, const WeightArena& arena);
};

struct EndGradients {
  Matrix embedding;  // [V, d]
  float* norm = nullptr;
  Matrix head;  // the same memory as embedding when tied
  bool is_tied() const { return head.values == embedding.values; }

  static EndGradients At(const ParameterLayout& layout, float* arena);
};

// Logits exist for so many tokens at a time: a training pass never holds [T, V] of them.
inline constexpr int64_t kHeadChunk = 512;

struct HeadScratch {
  Tensor normed;       // [T, d], compute type
  Tensor d_normed;     // [T, d], compute type
  Matrix logits;       // [chunk, V]
  Tensor d_logits;     // [chunk, V], compute type: the logits' own memory where that is float32
  float* inverse_rms;  // [T]
  float* losses;       // [T]
  // Where devices share the vocabulary: what each says of the logits, and how they say it.
  float* statistics;  // [devices, 3, chunk]
  BranchSum* sum = nullptr;
  // `logits_rows`: the chunk.
  HeadScratch(const PassShape& shape, int64_t logits_rows, FloatCarver& carver);
};

// Final norm of x [T, d] into scratch.normed, with its inverse RMS.
void HeadNorm(Backend& backend, const PassShape& shape, const EndWeights& weights, ConstMatrix x,
              const HeadScratch& scratch);

// After HeadNorm: scratch.logits of `rows` tokens from `first` on; as many as scratch has room for.
void HeadLogits(Backend& backend, const EndWeights& weights, const HeadScratch& scratch,
                int64_t first, int64_t rows);

// After HeadNorm: scratch.losses of all T tokens, without gradients.
void HeadLosses(Backend& backend, const PassShape& shape, const EndWeights& weights,
                std::span<const int32_t> targets, const HeadScratch& scratch);

// The whole head in training, chunk by chunk: scratch.losses, d_x [T, d] = ∂(mean loss)/∂x, the
// mean over shape.mean_tokens, and the gradients of norm and head are written. `z_loss`:
// kernels/backend.h. `targets` are OwnTokens.
void HeadForwardBackward(Backend& backend, const PassShape& shape, const EndWeights& weights,
                         std::span<const int32_t> targets, float z_loss, ConstMatrix x,
                         const HeadScratch& scratch, const EndGradients& gradients, Matrix d_x);

// Mean of scratch.losses, summed in float64 in order.
float MeanLoss(Backend& backend, const HeadScratch& scratch, int64_t tokens);

// Adds to a tied matrix, which the head has written; else begins at zero.
void EmbeddingGradient(Backend& backend, std::span<const int32_t> tokens, ConstMatrix d_out,
                       const EndGradients& gradients);

}  // namespace skerry
