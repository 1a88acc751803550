// The operations of backend.h as plain loops: slow, obvious, the oracle.
//
// Written over the scalar T that is stored. Arithmetic inside is always float64, so T = float is
// the reference backend, and T = double lets tests compare every backward pass with central
// differences. Shapes and letters as in backend.h; nothing is checked here. Call with T given:
// Gemm<float>(…).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/backend.h"

namespace skerry::reference {

template <typename T>
using In = BasicMatrix<const T>;
template <typename T>
using Out = BasicMatrix<T>;

template <typename T>
void Gemm(Transpose ta, Transpose tb, In<T> a, In<T> b, double beta, Out<T> c) {
  const int64_t depth = ta == Transpose::kYes ? a.rows : a.columns;
  const int64_t a_row = ta == Transpose::kYes ? 1 : a.columns;
  const int64_t a_depth = ta == Transpose::kYes ? a.columns : 1;
  const int64_t b_column = tb == Transpose::kYes ? b.columns : 1;
  const int64_t b_depth = tb == Transpose::kYes ? 1 : b.columns;
  for (int64_t i = 0; i < c.rows; ++i) {
    for (int64_t j = 0; j < c.columns; ++j) {
      double sum = 0;
      for (int64_t x = 0; x < depth; ++x) {
        sum += static_cast<double>(a.values[i * a_row + x * a_depth]) *
               static_cast<double>(b.values[j * b_column + x * b_depth]);
      }
      T& out = c.values[i * c.columns + j];
      out = static_cast<T>(beta == 0 ? sum : beta * static_cast<double>(out) + sum);
    }
  }
}

template <typename T>
void EmbeddingForward(std::span<const int32_t> tokens, In<T> table, Out<T> out) {
  for (int64_t t = 0; t < out.rows; ++t) {
    const int32_t token = tokens[static_cast<size_t>(t)];
    for (int64_t i = 0; i < out.columns; ++i) {
      const bool is_here = token != kTokenElsewhere;
      out.values[t * out.columns + i] = is_here ? table.values[token * table.columns + i] : 0;
    }
  }
}

template <typename T>
void EmbeddingBackward(std::span<const int32_t> tokens, In<T> d_out, Out<T> d_table) {
  for (int64_t t = 0; t < d_out.rows; ++t) {
    const int32_t token = tokens[static_cast<size_t>(t)];
    if (token == kTokenElsewhere) continue;
    T* row = d_table.values + token * d_table.columns;
    for (int64_t i = 0; i < d_out.columns; ++i) row[i] += d_out.values[t * d_out.columns + i];
  }
}

template <typename T>
void RmsNormForward(In<T> x, const T* weight, double epsilon, Out<T> out, T* inverse_rms) {
  for (int64_t t = 0; t < x.rows; ++t) {
    const T* row = x.values + t * x.columns;
    double sum = 0;
    for (int64_t i = 0; i < x.columns; ++i) sum += static_cast<double>(row[i]) * row[i];
    const double inverse = 1 / std::sqrt(sum / static_cast<double>(x.columns) + epsilon);
    inverse_rms[t] = static_cast<T>(inverse);
    for (int64_t i = 0; i < x.columns; ++i)
      out.values[t * x.columns + i] = static_cast<T>(row[i] * inverse * weight[i]);
  }
}

// With y = x·r·w and r = (mean x² + ε)^(−1/2): ∂x = r·w·∂y − x·r³/d·Σ(w·∂y·x).
template <typename T>
void RmsNormBackward(In<T> x, const T* weight, const T* inverse_rms, In<T> d_out, Out<T> d_x,
                     T* d_weight) {
  const int64_t width = x.columns;
  std::vector<double> weight_sum(static_cast<size_t>(width));
  for (int64_t t = 0; t < x.rows; ++t) {
    const T* row = x.values + t * width;
    const T* d_row = d_out.values + t * width;
    const double inverse = inverse_rms[t];
    double dot = 0;
    for (int64_t i = 0; i < width; ++i)
      dot += static_cast<double>(weight[i]) * static_cast<double>(d_row[i]) * row[i];
    const double shrink = inverse * inverse * inverse * dot / static_cast<double>(width);
    for (int64_t i = 0; i < width; ++i) {
      T& d = d_x.values[t * width + i];
      d = static_cast<T>(d + inverse * weight[i] * d_row[i] - row[i] * shrink);
      weight_sum[static_cast<size_t>(i)] += static_cast<double>(d_row[i]) * row[i] * inverse;
    }
  }
  for (int64_t i = 0; i < width; ++i)
    d_weight[i] = static_cast<T>(d_weight[i] + weight_sum[static_cast<size_t>(i)]);
}

// One matrix of heads [T, heads·e]: pair (i, i + e/2) turns by position · base^(−2i/e).
template <typename T>
void RotateHeads(const AttentionShape& shape, const RopeAngles& angles, bool inverse, Out<T> x) {
  const int64_t half = shape.head_size / 2;
  for (int64_t t = 0; t < x.rows; ++t) {
    for (int64_t first = 0; first < x.columns; first += shape.head_size) {
      T* head = x.values + t * x.columns + first;
      for (int64_t i = 0; i < half; ++i) {
        const double angle =
            static_cast<double>(t % shape.context) * angles.Frequency(i, shape.head_size);
        const double c = std::cos(angle), s = inverse ? -std::sin(angle) : std::sin(angle);
        const double low = head[i], high = head[i + half];
        head[i] = static_cast<T>(low * c - high * s);
        head[i + half] = static_cast<T>(high * c + low * s);
      }
    }
  }
}

template <typename T>
void Rope(const AttentionShape& shape, const RopeAngles& angles, bool inverse, Out<T> q, Out<T> k) {
  RotateHeads<T>(shape, angles, inverse, q);
  RotateHeads<T>(shape, angles, inverse, k);
}

template <typename T>
void AddBias(const T* bias, Out<T> y) {
  for (int64_t i = 0; i < y.size(); ++i) y.values[i] += bias[i % y.columns];
}

template <typename T>
void BiasBackward(In<T> d_y, T* d_bias) {
  for (int64_t column = 0; column < d_y.columns; ++column) {
    double sum = 0;
    for (int64_t row = 0; row < d_y.rows; ++row) sum += d_y.values[row * d_y.columns + column];
    d_bias[column] = static_cast<T>(sum);
  }
}

template <typename T>
void SwigluForward(In<T> gate_up, Out<T> out) {
  for (int64_t t = 0; t < out.rows; ++t) {
    for (int64_t i = 0; i < out.columns; ++i) {
      const double gate = gate_up.values[t * gate_up.columns + i];
      const double up = gate_up.values[t * gate_up.columns + out.columns + i];
      out.values[t * out.columns + i] = static_cast<T>(gate / (1 + std::exp(-gate)) * up);
    }
  }
}

template <typename T>
void SwigluBackward(In<T> gate_up, In<T> d_out, Out<T> d_gate_up) {
  for (int64_t t = 0; t < d_out.rows; ++t) {
    for (int64_t i = 0; i < d_out.columns; ++i) {
      const int64_t at_gate = t * gate_up.columns + i, at_up = at_gate + d_out.columns;
      const double gate = gate_up.values[at_gate], up = gate_up.values[at_up];
      const double d = d_out.values[t * d_out.columns + i];
      const double sigmoid = 1 / (1 + std::exp(-gate));
      d_gate_up.values[at_gate] = static_cast<T>(d * up * sigmoid * (1 + gate * (1 - sigmoid)));
      d_gate_up.values[at_up] = static_cast<T>(d * gate * sigmoid);
    }
  }
}

// A row's logits: Σ e^logit = sum · e^top, and the target's.
struct LogitRow {
  double top = 0, sum = 0, aim = 0;
};

template <typename T>
LogitRow RowOf(const T* row, int64_t columns, int32_t target) {
  LogitRow of = {*std::max_element(row, row + columns), 0, 0};
  for (int64_t i = 0; i < columns; ++i) of.sum += std::exp(row[i] - of.top);
  if (target != kTokenElsewhere) of.aim = row[target];
  return of;
}

inline LogitRow RowOfParts(const CrossEntropyTerms& terms, int64_t rows, int64_t t) {
  LogitRow of = {terms.statistics[t], 0, 0};
  for (int32_t p = 1; p < terms.parts; ++p)
    of.top = std::max<double>(of.top, terms.statistics[3 * p * rows + t]);
  for (int32_t p = 0; p < terms.parts; ++p) {
    const float* const part = terms.statistics + 3 * p * rows + t;
    of.sum += part[rows] * std::exp(part[0] - of.top);
    of.aim += part[2 * rows];
  }
  return of;
}

// statistics [3, rows]
template <typename T>
void LogitStatistics(std::span<const int32_t> targets, In<T> logits, T* statistics) {
  for (int64_t t = 0; t < logits.rows; ++t) {
    const LogitRow of =
        RowOf(logits.values + t * logits.columns, logits.columns, targets[static_cast<size_t>(t)]);
    statistics[t] = static_cast<T>(of.top);
    statistics[logits.rows + t] = static_cast<T>(of.sum);
    statistics[2 * logits.rows + t] = static_cast<T>(of.aim);
  }
}

// logits become the gradient. Loss of a token: log Σ e^logit − logit[target] + z·(log Σ e^logit)².
template <typename T>
void CrossEntropy(std::span<const int32_t> targets, const CrossEntropyTerms& terms, Out<T> logits,
                  T* losses) {
  const double z = terms.z_loss;
  for (int64_t t = 0; t < logits.rows; ++t) {
    T* row = logits.values + t * logits.columns;
    const int32_t target = targets[static_cast<size_t>(t)];
    const auto [top, sum, aim] =
        terms.parts > 0 ? RowOfParts(terms, logits.rows, t) : RowOf<T>(row, logits.columns, target);
    const double lse = top + std::log(sum);
    losses[t] = static_cast<T>(lse - aim + z * lse * lse);
    for (int64_t i = 0; i < logits.columns; ++i) {
      const double p = std::exp(row[i] - top) / sum;
      row[i] =
          static_cast<T>((p * (1 + 2 * z * lse) - (i == target ? 1 : 0)) * terms.gradient_scale);
    }
  }
}

// Decoupled weight decay (Loshchilov, Hutter 2019), as PyTorch applies it: decay first.
template <typename T>
void AdamW(const AdamWStep& step, const UpdateRange& range, const T* gradient, T* parameters, T* m,
           T* v) {
  const double lr = step.learning_rate, beta1 = step.beta1, beta2 = step.beta2;
  const double correct1 = 1 - std::pow(beta1, static_cast<double>(step.step));
  const double correct2 = 1 - std::pow(beta2, static_cast<double>(step.step));
  for (int64_t i = range.offset; i < range.offset + range.size; ++i) {
    const double g = static_cast<double>(gradient[i]) * range.gradient_scale;
    const double first = beta1 * m[i] + (1 - beta1) * g;
    const double second = beta2 * v[i] + (1 - beta2) * g * g;
    const double move = first / correct1 / (std::sqrt(second / correct2) + step.epsilon);
    m[i] = static_cast<T>(first);
    v[i] = static_cast<T>(second);
    parameters[i] = static_cast<T>(parameters[i] * (1 - lr * range.weight_decay) - lr * move);
  }
}

}  // namespace skerry::reference
