// What backend.h asks of shapes, checked by every backend in the same words. Bad shapes are bugs.
//
// Letters as in backend.h: T tokens, h heads, g kv heads, e head size, f ffn, V vocab.
#pragma once

#include <cstdint>
#include <span>

#include "common/check.h"
#include "kernels/backend.h"

namespace skerry {

inline bool HasShape(ConstMatrix matrix, int64_t rows, int64_t columns) {
  return matrix.rows == rows && matrix.columns == columns;
}

inline bool SameShape(ConstMatrix a, ConstMatrix b) {
  return HasShape(a, b.rows, b.columns);
}

struct GemmSizes {
  int64_t m = 0, n = 0, k = 0;
};

inline GemmSizes CheckGemm(Transpose ta, Transpose tb, ConstMatrix a, ConstMatrix b, float beta,
                           ConstMatrix c) {
  const bool swap_a = ta == Transpose::kYes, swap_b = tb == Transpose::kYes;
  const GemmSizes sizes = {swap_a ? a.columns : a.rows, swap_b ? b.rows : b.columns,
                           swap_a ? a.rows : a.columns};
  SKERRY_CHECK((swap_b ? b.columns : b.rows) == sizes.k, "inner sizes of a product must agree");
  SKERRY_CHECK(HasShape(c, sizes.m, sizes.n), "a product has the outer sizes of its factors");
  SKERRY_CHECK(beta == 0 || beta == 1);
  return sizes;
}

inline void CheckTokens(std::span<const int32_t> tokens, int64_t rows, int64_t vocabulary) {
  SKERRY_CHECK(static_cast<int64_t>(tokens.size()) == rows, "one token per row");
  for (const int32_t token : tokens) {
    SKERRY_CHECK(token >= 0 && token < vocabulary, "a token is an index into the vocabulary");
  }
}

inline void CheckEmbedding(std::span<const int32_t> tokens, ConstMatrix table, ConstMatrix rows) {
  SKERRY_CHECK(table.columns == rows.columns);
  CheckTokens(tokens, rows.rows, table.rows);
}

inline void CheckAttention(const AttentionShape& s, ConstMatrix q, ConstMatrix k) {
  SKERRY_CHECK(s.sequences >= 1 && s.context >= 1 && s.head_size >= 1);
  SKERRY_CHECK(s.kv_heads >= 1 && s.heads >= 1 && s.heads % s.kv_heads == 0,
               "every kv head serves the same number of heads");
  const int64_t tokens = s.sequences * s.context;
  SKERRY_CHECK(HasShape(q, tokens, s.heads * s.head_size));
  SKERRY_CHECK(HasShape(k, tokens, s.kv_heads * s.head_size));
}

inline void CheckRope(const AttentionShape& s, ConstMatrix q, ConstMatrix k) {
  CheckAttention(s, q, k);
  SKERRY_CHECK(s.head_size % 2 == 0, "rotation pairs the halves of a head");
}

// gate_up [T, 2f] beside out [T, f].
inline void CheckSwiglu(ConstMatrix gate_up, ConstMatrix out) {
  SKERRY_CHECK(HasShape(gate_up, out.rows, 2 * out.columns));
}

inline void CheckAdamW(const AdamWStep& step) {
  SKERRY_CHECK(step.step >= 1, "steps count from 1");
  SKERRY_CHECK(step.beta1 >= 0 && step.beta1 < 1 && step.beta2 >= 0 && step.beta2 < 1);
}

}  // namespace skerry
