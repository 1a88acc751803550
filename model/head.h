// The two ends of the model: token embedding, and final norm with the output head. Both live on
// stage 0.
//
// A tied head uses the embedding's matrix; its gradient is then the head's part, to which the
// embedding's part is added: in that order, so that bits do not depend on when either is computed.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/backend.h"
#include "model/buffer_pool.h"
#include "model/parameter_layout.h"
#include "model/transformer_block.h"

namespace skerry {

// In an arena of parameters (T = const float) or gradients (T = float).
template <typename T>
struct EndTensors {
  BasicMatrix<T> embedding;  // [V, d]
  T* norm = nullptr;         // [d]
  BasicMatrix<T> head;       // [V, d]; the same memory as embedding when tied
  bool is_tied() const { return head.values == embedding.values; }

  static EndTensors At(const ParameterLayout& layout, T* arena);
};

struct HeadScratch {
  Matrix normed;       // [T, d]
  Matrix d_normed;     // [T, d]
  Matrix logits;       // [T, V]
  float* inverse_rms;  // [T]
  HeadScratch(const PassShape& shape, FloatCarver& carver);
};

// scratch.logits = head(RMSNorm(x)), x [T, d]
void HeadForward(Backend& backend, const PassShape& shape, const EndTensors<const float>& weights,
                 ConstMatrix x, const HeadScratch& scratch);

// After HeadForward, when scratch.logits has become ∂loss/∂logits: d_x [T, d] and the gradients of
// norm and head are written.
void HeadBackward(Backend& backend, const EndTensors<const float>& weights, ConstMatrix x,
                  const HeadScratch& scratch, const EndTensors<float>& gradients, Matrix d_x);

// Adds to a tied matrix, which HeadBackward has written; else begins at zero.
void EmbeddingGradient(Backend& backend, std::span<const int32_t> tokens, ConstMatrix d_out,
                       const EndTensors<float>& gradients);

}  // namespace skerry
