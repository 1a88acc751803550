// Every operation but attention, done once on random values: `backend` makes all that a function
// returns, in one row. Whoever has a backend holds it against the reference's.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "tests/kernels/calls.h"
#include "tests/kernels/values.h"

namespace skerry::operations {

inline Values& Append(Values& values, const Values& more) {
  values.insert(values.end(), more.begin(), more.end());
  return values;
}

struct Sizes {
  int64_t m, n, k;
};

inline Values Product(Backend& backend, const Sizes& sizes, Transpose ta, Transpose tb,
                      float beta) {
  const auto [m, n, k] = sizes;
  const Values a = Normals(m * k, "a"), b = Normals(k * n, "b");
  Values c = Normals(m * n, "c");
  backend.Gemm(ta, tb, AsRows(a, ta == Transpose::kYes ? k : m),
               AsRows(b, tb == Transpose::kYes ? n : k), beta, AsRows(c, m));
  return c;
}

constexpr int64_t kVocabulary = 29;

inline Values Embedding(Backend& backend, int64_t rows, int64_t width) {
  const Values table = Normals(kVocabulary * width, "table");
  Values out(static_cast<size_t>(rows * width));
  backend.EmbeddingForward(Tokens(rows, kVocabulary, "tokens"), AsRows(table, kVocabulary),
                           AsRows(out, rows));
  return out;
}

// Tokens repeat.
inline Values EmbeddingGradient(Backend& backend, int64_t rows, int64_t width) {
  const Values d_out = Normals(rows * width, "d_out");
  Values d_table = Normals(kVocabulary * width, "d_table");
  backend.EmbeddingBackward(Tokens(rows, kVocabulary, "tokens"), AsRows(d_out, rows),
                            AsRows(d_table, kVocabulary));
  return d_table;
}

inline Values Norm(Backend& backend, int64_t rows, int64_t width) {
  const Values x = Normals(rows * width, "x"), weight = Normals(width, "weight");
  Values out(x.size()), inverse(static_cast<size_t>(rows));
  Normalise(backend, AsRows(x, rows), weight.data(), 1e-5f, AsRows(out, rows), inverse.data());
  return Append(out, inverse);
}

inline Values NormGradients(Backend& backend, int64_t rows, int64_t width) {
  const Values x = Normals(rows * width, "x"), weight = Normals(width, "weight");
  Values unused(x.size()), inverse(static_cast<size_t>(rows));
  Normalise(*CreateReferenceBackend(), AsRows(x, rows), weight.data(), 1e-5f, AsRows(unused, rows),
            inverse.data());
  const Values d_out = Normals(rows * width, "d_out");
  Values d_x = Normals(rows * width, "d_x"), d_weight = Normals(width, "d_weight");
  backend.RmsNormBackward({AsRows(x, rows),
                           weight.data(),
                           inverse.data(),
                           AsRows(d_out, rows),
                           AsRows(d_x, rows),
                           {},
                           d_weight.data()});
  return Append(d_x, d_weight);
}

// Some on both flat ends of the sigmoid, and beyond the exponential's range.
inline Values Gates(int64_t rows, int64_t ffn) {
  Values gate_up = Normals(rows * 2 * ffn, "gate_up");
  for (size_t i = 5; i < gate_up.size(); i += 5) gate_up[i] *= 40;
  return gate_up;
}

inline Values Swiglu(Backend& backend, int64_t rows, int64_t ffn) {
  const Values gate_up = Gates(rows, ffn);
  Values out(static_cast<size_t>(rows * ffn));
  backend.SwigluForward(AsRows(gate_up, rows), AsRows(out, rows));
  return out;
}

inline Values SwigluGradient(Backend& backend, int64_t rows, int64_t ffn) {
  const Values gate_up = Gates(rows, ffn), d_out = Normals(rows * ffn, "d_out");
  Values d_gate_up(gate_up.size(), NAN);
  backend.SwigluBackward(AsRows(gate_up, rows), AsRows(d_out, rows), AsRows(d_gate_up, rows));
  return d_gate_up;
}

inline Values Logits(int64_t rows, int64_t vocabulary) {
  Values logits = Normals(rows * vocabulary, "logits");
  for (float& logit : logits) logit = 5 * logit + 1000;  // e^1000 must not be taken
  return logits;
}

struct Scored {
  Values logits;  // as they are afterwards
  float loss;
};

inline Scored CrossEntropy(Backend& backend, int64_t rows, int64_t vocabulary, bool gradient) {
  Scored scored = {Logits(rows, vocabulary), 0};
  scored.loss =
      MeanLoss(backend, Tokens(rows, vocabulary, "targets"), gradient, AsRows(scored.logits, rows));
  return scored;
}

// Tokens of the part of the vocabulary that begins at `first`, counted from there.
inline std::vector<int32_t> OfPart(const std::vector<int32_t>& tokens, int64_t first,
                                   int64_t size) {
  std::vector<int32_t> own;
  for (const int32_t token : tokens) {
    const bool is_here = token >= first && token < first + size;
    own.push_back(is_here ? token - static_cast<int32_t>(first) : kTokenElsewhere);
  }
  return own;
}

// Rows and gradients of a part of the table, as a device has them that shares it.
inline Values EmbeddingOfPart(Backend& backend, int64_t rows, int64_t width) {
  constexpr int64_t kFirst = 11, kSize = 9;
  const auto tokens = OfPart(Tokens(rows, kVocabulary, "tokens"), kFirst, kSize);
  const Values table = Normals(kSize * width, "table"), d_out = Normals(rows * width, "d_out");
  Values out(static_cast<size_t>(rows * width), NAN), d_table = Normals(kSize * width, "d_table");
  backend.EmbeddingForward(tokens, AsRows(table, kSize), AsRows(out, rows));
  backend.EmbeddingBackward(tokens, AsRows(d_out, rows), AsRows(d_table, kSize));
  return Append(out, d_table);
}

struct LossesAndGradient {
  Values losses, gradient;  // [rows], [rows, vocabulary]
};

// In place, of the whole vocabulary; and put together from parts of these sizes.
constexpr CrossEntropyTerms kWithZLoss = {0.25f, 1e-3f};
inline LossesAndGradient WholeLosses(Backend& backend, int64_t rows, int64_t vocabulary) {
  LossesAndGradient whole = {Values(static_cast<size_t>(rows)), Logits(rows, vocabulary)};
  const Matrix logits = AsRows(whole.gradient, rows);
  backend.CrossEntropy(Tokens(rows, vocabulary, "targets"), kWithZLoss, logits, logits,
                       whole.losses.data());
  return whole;
}

inline LossesAndGradient LossesOfParts(Backend& backend, int64_t rows,
                                       const std::vector<int64_t>& sizes) {
  const int64_t vocabulary = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  const auto targets = Tokens(rows, vocabulary, "targets");
  LossesAndGradient all = {Values(static_cast<size_t>(rows)), Logits(rows, vocabulary)};
  const auto columns = [&](int64_t row, int64_t first) {
    return all.gradient.begin() + row * vocabulary + first;
  };
  std::vector<Values> parts;
  std::vector<std::vector<int32_t>> own_targets;
  Values statistics;
  int64_t first = 0;
  for (const int64_t size : sizes) {
    Values& part = parts.emplace_back();
    for (int64_t row = 0; row < rows; ++row)
      part.insert(part.end(), columns(row, first), columns(row, first + size));
    own_targets.push_back(OfPart(targets, first, size));
    Values own(static_cast<size_t>(3 * rows));
    backend.LogitStatistics(own_targets.back(), AsRows(part, rows), own.data());
    Append(statistics, own);
    first += size;
  }
  CrossEntropyTerms terms = kWithZLoss;
  terms.statistics = statistics.data();
  terms.parts = static_cast<int32_t>(sizes.size());
  first = 0;
  for (size_t p = 0; p < parts.size(); ++p) {
    const Matrix logits = AsRows(parts[p], rows);
    backend.CrossEntropy(own_targets[p], terms, logits, logits, all.losses.data());
    for (int64_t row = 0; row < rows; ++row)
      std::copy_n(parts[p].begin() + row * sizes[p], sizes[p], columns(row, first));
    first += sizes[p];
  }
  return all;
}

inline Values Rotation(Backend& backend, const AttentionShape& shape, bool inverse) {
  const int64_t tokens = shape.sequences * shape.context;
  Values q = Normals(tokens * shape.heads * shape.head_size, "q");
  Values k = Normals(tokens * shape.kv_heads * shape.head_size, "k");
  backend.Rope(shape, 10000, inverse, AsRows(q, tokens), AsRows(k, tokens));
  return Append(q, k);
}

inline Values Bias(Backend& backend, int64_t rows, int64_t columns) {
  const Values bias = Normals(columns, "bias");
  Values x = Normals(rows * columns, "x"), sums(static_cast<size_t>(columns), 7.0f);
  backend.BiasBackward(AsRows(x, rows), sums.data());
  backend.AddBias(bias.data(), AsRows(x, rows));
  return Append(x, sums);
}

inline std::vector<UpdateRange> TwoRanges(int64_t n) {
  return {{0, n / 3, 0.25f, 0.1f}, {n / 3, n - n / 3, 0.5f, 0}};
}

inline Values AdamW(Backend& backend, int64_t n, int64_t step) {
  const Values gradient = Normals(n, "gradient");
  Values parameters = Normals(n, "parameters"), m = Normals(n, "m"), v = Normals(n, "v");
  for (float& value : v) value *= value;
  backend.AdamW({0.01f, 0.9f, 0.95f, 1e-8f, step}, TwoRanges(n),
                {gradient.data(), parameters.data(), m.data(), v.data(), nullptr});
  return Append(Append(parameters, m), v);
}

inline Values Sgd(Backend& backend, int64_t n) {
  const Values gradient = Normals(n, "gradient");
  Values parameters = Normals(n, "parameters");
  backend.Sgd(0.1f, TwoRanges(n), {.gradient = gradient.data(), .parameters = parameters.data()});
  return parameters;
}

inline Values SumsFillsAndCopies(Backend& backend, int64_t n) {
  const Values x = Normals(n, "x");
  Values y = Normals(n, "y"), filled(x.size()), copied(x.size());
  backend.Add(x.data(), y.data(), n);
  backend.Fill(filled.data(), 2.5f, n);
  backend.Copy(x.data(), copied.data(), n);
  return Append(Append(y, filled), copied);
}

}  // namespace skerry::operations
