// Causal attention with grouped kv heads as plain loops (see ops.h): out = softmax(q·kᵀ/√e)·v.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/backend.h"
#include "kernels/reference/ops.h"

namespace skerry::reference {

// Where one query head finds its rows: `query`, `key` are columns, `first` is the first token.
struct HeadPlace {
  int64_t first, head, query, key;
};

template <typename Body>
void ForEachHead(const AttentionShape& s, Body&& body) {
  const int64_t group = s.heads / s.kv_heads;
  for (int64_t sequence = 0; sequence < s.sequences; ++sequence) {
    for (int64_t h = 0; h < s.heads; ++h)
      body(HeadPlace{sequence * s.context, h, h * s.head_size, h / group * s.head_size});
  }
}

// Σ a[row_a][column_a + x] · b[row_b][column_b + x] over a head.
template <typename T>
double HeadDot(const AttentionShape& s, const T* a, const T* b) {
  double sum = 0;
  for (int64_t x = 0; x < s.head_size; ++x) sum += static_cast<double>(a[x]) * b[x];
  return sum;
}

template <typename T>
void AttentionForward(const AttentionShape& s, In<T> q, In<T> k, In<T> v, Out<T> out,
                      T* log_sum_exp) {
  const double scale = 1 / std::sqrt(static_cast<double>(s.head_size));
  std::vector<double> scores(static_cast<size_t>(s.context));
  ForEachHead(s, [&](const HeadPlace& at) {
    for (int64_t i = at.first; i < at.first + s.context; ++i) {
      const size_t visible = static_cast<size_t>(i - at.first) + 1;
      for (size_t j = 0; j < visible; ++j) {
        const T* key = k.values + (at.first + static_cast<int64_t>(j)) * k.columns + at.key;
        scores[j] = scale * HeadDot(s, q.values + i * q.columns + at.query, key);
      }
      const double top = *std::max_element(scores.begin(), scores.begin() + visible);
      double sum = 0;
      for (size_t j = 0; j < visible; ++j) sum += std::exp(scores[j] - top);
      const double lse = top + std::log(sum);
      log_sum_exp[i * s.heads + at.head] = static_cast<T>(lse);
      for (int64_t x = 0; x < s.head_size; ++x) {
        double value = 0;
        for (size_t j = 0; j < visible; ++j) {
          const int64_t row = at.first + static_cast<int64_t>(j);
          value += std::exp(scores[j] - lse) * v.values[row * v.columns + at.key + x];
        }
        out.values[i * out.columns + at.query + x] = static_cast<T>(value);
      }
    }
  });
}

// p = exp(score − lse); ∂v += p·∂out; ∂score = p·(∂out·v − ∂out·out); ∂q, ∂k through score.
template <typename T>
struct AttentionGradient {
  const AttentionShape& s;
  In<T> q, k, v, out;
  const T* log_sum_exp;
  In<T> d_out;
  std::vector<double> d_q, d_k, d_v;  // like q, k, v

  void Query(const HeadPlace& at, int64_t i) {
    const double scale = 1 / std::sqrt(static_cast<double>(s.head_size));
    const int64_t at_q = i * q.columns + at.query;
    const double own = HeadDot(s, d_out.values + at_q, out.values + at_q);
    for (int64_t j = at.first; j <= i; ++j) {
      const int64_t at_k = j * k.columns + at.key;
      const double score = scale * HeadDot(s, q.values + at_q, k.values + at_k);
      const double p = std::exp(score - log_sum_exp[i * s.heads + at.head]);
      const double d_score = p * (HeadDot(s, d_out.values + at_q, v.values + at_k) - own) * scale;
      for (int64_t x = 0; x < s.head_size; ++x) {
        d_v[static_cast<size_t>(at_k + x)] += p * d_out.values[at_q + x];
        d_q[static_cast<size_t>(at_q + x)] += d_score * k.values[at_k + x];
        d_k[static_cast<size_t>(at_k + x)] += d_score * q.values[at_q + x];
      }
    }
  }
};

template <typename T>
void AttentionBackward(const AttentionShape& s, In<T> q, In<T> k, In<T> v, In<T> out,
                       const T* log_sum_exp, In<T> d_out, Out<T> d_q, Out<T> d_k, Out<T> d_v) {
  const size_t query_size = static_cast<size_t>(q.size()), key_size = static_cast<size_t>(k.size());
  AttentionGradient<T> gradient = {s,
                                   q,
                                   k,
                                   v,
                                   out,
                                   log_sum_exp,
                                   d_out,
                                   std::vector<double>(query_size),
                                   std::vector<double>(key_size),
                                   std::vector<double>(key_size)};
  ForEachHead(s, [&](const HeadPlace& at) {
    for (int64_t i = at.first; i < at.first + s.context; ++i) gradient.Query(at, i);
  });
  const auto store = [](const std::vector<double>& from, Out<T> to) {
    std::transform(from.begin(), from.end(), to.values, [](double x) { return static_cast<T>(x); });
  };
  store(gradient.d_q, d_q);
  store(gradient.d_k, d_k);
  store(gradient.d_v, d_v);
}

}  // namespace skerry::reference
