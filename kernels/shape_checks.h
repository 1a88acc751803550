// What backend.h asks of shapes, checked by every backend in the same words. Bad shapes are bugs.
//
// Letters as in backend.h: T tokens, h heads, g kv heads, e head size, f ffn, V vocab.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <span>

#include "common/check.h"
#include "kernels/backend.h"

namespace skerry {

inline bool HasShape(const ConstTensor& matrix, int64_t rows, int64_t columns) {
  return matrix.rows == rows && matrix.columns == columns;
}

inline bool SameShape(const ConstTensor& a, const ConstTensor& b) {
  return HasShape(a, b.rows, b.columns);
}

inline bool SameType(std::initializer_list<ConstTensor> tensors) {
  return std::all_of(tensors.begin(), tensors.end(),
                     [&](const ConstTensor& t) { return t.type == tensors.begin()->type; });
}

struct GemmSizes {
  int64_t m = 0, n = 0, k = 0;
};

inline GemmSizes CheckGemm(Transpose ta, Transpose tb, const ConstTensor& a, const ConstTensor& b,
                           float beta, const ConstTensor& c) {
  const bool swap_a = ta == Transpose::kYes, swap_b = tb == Transpose::kYes;
  const GemmSizes sizes = {swap_a ? a.columns : a.rows, swap_b ? b.rows : b.columns,
                           swap_a ? a.rows : a.columns};
  SKERRY_CHECK((swap_b ? b.columns : b.rows) == sizes.k, "inner sizes of a product must agree");
  SKERRY_CHECK(HasShape(c, sizes.m, sizes.n), "a product has the outer sizes of its factors");
  SKERRY_CHECK(beta == 0 || (beta == 1 && c.type == DType::kFloat32));
  SKERRY_CHECK(a.type == b.type && (c.type == a.type || c.type == DType::kFloat32),
               "a product is of its factors' type, or float32");
  return sizes;
}

inline void CheckTokens(std::span<const int32_t> tokens, int64_t rows, int64_t vocabulary) {
  SKERRY_CHECK(static_cast<int64_t>(tokens.size()) == rows, "one token per row");
  for (const int32_t token : tokens) {
    SKERRY_CHECK((token >= 0 && token < vocabulary) || token == kTokenElsewhere,
                 "a token is an index into the vocabulary");
  }
}

inline void CheckEmbedding(std::span<const int32_t> tokens, ConstMatrix table, ConstMatrix rows) {
  SKERRY_CHECK(table.columns == rows.columns);
  CheckTokens(tokens, rows.rows, table.rows);
}

inline void CheckAttention(const AttentionShape& s, const ConstTensor& q, const ConstTensor& k) {
  SKERRY_CHECK(s.sequences >= 1 && s.context >= 1 && s.head_size >= 1);
  SKERRY_CHECK(s.kv_heads >= 1 && s.heads >= 1 && s.heads % s.kv_heads == 0,
               "every kv head serves the same number of heads");
  const int64_t tokens = s.sequences * s.context;
  SKERRY_CHECK(HasShape(q, tokens, s.heads * s.head_size));
  SKERRY_CHECK(HasShape(k, tokens, s.kv_heads * s.head_size));
}

inline void CheckRope(const AttentionShape& s, const ConstTensor& q, const ConstTensor& k) {
  CheckAttention(s, q, k);
  SKERRY_CHECK(s.head_size % 2 == 0, "rotation pairs the halves of a head");
}

// gate_up [T, 2f] beside out [T, f].
inline void CheckSwiglu(const ConstTensor& gate_up, const ConstTensor& out) {
  SKERRY_CHECK(HasShape(gate_up, out.rows, 2 * out.columns) && SameType({gate_up, out}));
}

inline void CheckRmsNorm(const RmsNormPass& pass) {
  SKERRY_CHECK(SameShape(pass.x, pass.out));
  SKERRY_CHECK(pass.addend.values == nullptr ||
               (SameShape(pass.x, pass.addend) && SameShape(pass.x, pass.sum)));
}

inline void CheckRmsNorm(const RmsNormGradient& pass) {
  SKERRY_CHECK(SameShape(pass.x, pass.d_out) && SameShape(pass.x, pass.d_x));
  SKERRY_CHECK(pass.rounded.empty() || SameShape(pass.x, pass.rounded));
}

inline void CheckAttentionForward(const AttentionShape& s, const ConstTensor& q,
                                  const ConstTensor& k, const ConstTensor& v,
                                  const ConstTensor& out) {
  CheckAttention(s, q, k);
  SKERRY_CHECK(SameShape(k, v) && SameShape(q, out) && SameType({q, k, v, out}));
}

inline void CheckCrossEntropy(std::span<const int32_t> targets, const CrossEntropyTerms& terms,
                              const ConstMatrix& logits, const ConstTensor& d_logits) {
  CheckTokens(targets, logits.rows, logits.columns);
  SKERRY_CHECK(d_logits.empty() || SameShape(logits, d_logits));
  SKERRY_CHECK(terms.parts >= 0 && (terms.parts == 0) == (terms.statistics == nullptr));
  const bool elsewhere = std::ranges::find(targets, kTokenElsewhere) != targets.end();
  SKERRY_CHECK(terms.parts > 0 || !elsewhere, "a whole vocabulary has every target");
}

inline void CheckAdamW(const AdamWStep& step) {
  SKERRY_CHECK(step.step >= 1, "steps count from 1");
  SKERRY_CHECK(step.beta1 >= 0 && step.beta1 < 1 && step.beta2 >= 0 && step.beta2 < 1);
}

}  // namespace skerry
