// Every operation but attention, done once on random values: `backend` makes all that a function
// returns, in one row. Whoever has a backend holds it against the reference's.
#pragma once

#include <cmath>
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
