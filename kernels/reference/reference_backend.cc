#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "kernels/backend.h"
#include "kernels/bfloat16.h"
#include "kernels/host_buffer.h"
#include "kernels/reference/attention.h"
#include "kernels/reference/ops.h"
#include "kernels/shape_checks.h"

namespace skerry {
namespace {

float Read(const ConstTensor& x, int64_t at) {
  if (x.type == DType::kFloat32) return x.floats()[at];
  return ToFloat(static_cast<const Bf16*>(x.values)[at]);
}

void Write(const Tensor& y, int64_t at, float value) {
  if (y.type == DType::kFloat32) {
    y.floats()[at] = value;
  } else {
    static_cast<Bf16*>(y.values)[at] = ToBf16(value);
  }
}

// A tensor of any type and step as a dense float32 matrix; bf16 values are float32 values.
class Dense {
 public:
  explicit Dense(const ConstTensor& x) : rows_(x.rows), columns_(x.columns) {
    values_.reserve(static_cast<size_t>(x.size()));
    for (int64_t r = 0; r < x.rows; ++r) {
      for (int64_t c = 0; c < x.columns; ++c) values_.push_back(Read(x, r * x.step + c));
    }
  }
  operator Matrix() { return {values_.data(), rows_, columns_}; }             // NOLINT
  operator ConstMatrix() const { return {values_.data(), rows_, columns_}; }  // NOLINT
  // Rounds once, if `y` is bf16.
  void StoreTo(const Tensor& y) const {
    for (int64_t r = 0; r < rows_; ++r) {
      for (int64_t c = 0; c < columns_; ++c)
        Write(y, r * y.step + c, values_[static_cast<size_t>(r * columns_ + c)]);
    }
  }

 private:
  int64_t rows_, columns_;
  std::vector<float> values_;
};

class ReferenceBackend : public HostBackend {
 public:
  explicit ReferenceBackend(DType compute) : compute_(compute) {}

  std::string name() const override { return "reference (plain loops, float64), 1 thread"; }
  std::string numeric_profile() const override {
    return compute_ == DType::kFloat32 ? "reference float64" : "reference float64, bf16";
  }
  DType compute_type() const override { return compute_; }

  void Gemm(Transpose ta, Transpose tb, ConstTensor a, ConstTensor b, float beta,
            Tensor c) override {
    CheckGemm(ta, tb, a, b, beta, c);
    Dense result(c);
    reference::Gemm<float>(ta, tb, Dense(a), Dense(b), beta, result);
    result.StoreTo(c);
  }
  void Cast(ConstTensor x, Tensor y) override {
    SKERRY_CHECK(SameShape(x, y));
    Dense(x).StoreTo(y);
  }

  void EmbeddingForward(std::span<const int32_t> tokens, ConstMatrix table, Matrix out) override {
    CheckEmbedding(tokens, table, out);
    reference::EmbeddingForward<float>(tokens, table, out);
  }
  void EmbeddingBackward(std::span<const int32_t> tokens, ConstMatrix d_out,
                         Matrix d_table) override {
    CheckEmbedding(tokens, d_table, d_out);
    reference::EmbeddingBackward<float>(tokens, d_out, d_table);
  }

  void RmsNormForward(const RmsNormPass& pass) override;
  void RmsNormBackward(const RmsNormGradient& pass) override;

  void Rope(const AttentionShape& shape, const RopeAngles& angles, bool inverse, Tensor q,
            Tensor k) override {
    CheckRope(shape, q, k);
    Dense turned_q(q), turned_k(k);
    reference::Rope<float>(shape, angles, inverse, turned_q, turned_k);
    turned_q.StoreTo(q);
    turned_k.StoreTo(k);
  }
  void AddBias(const float* bias, Tensor y) override {
    Dense result(y);
    reference::AddBias<float>(bias, result);
    result.StoreTo(y);
  }
  void BiasBackward(ConstTensor d_y, float* d_bias) override {
    reference::BiasBackward<float>(Dense(d_y), d_bias);
  }
  void AttentionForward(const AttentionShape& shape, ConstTensor q, ConstTensor k, ConstTensor v,
                        Tensor out, float* log_sum_exp) override {
    CheckAttentionForward(shape, q, k, v, out);
    Dense result(out);
    reference::AttentionForward<float>(shape, Dense(q), Dense(k), Dense(v), result, log_sum_exp);
    result.StoreTo(out);
  }
  void AttentionBackward(const AttentionShape& shape, ConstTensor q, ConstTensor k, ConstTensor v,
                         ConstTensor out, const float* log_sum_exp, ConstTensor d_out, Tensor d_q,
                         Tensor d_k, Tensor d_v) override;

  void SwigluForward(ConstTensor gate_up, Tensor out) override {
    CheckSwiglu(gate_up, out);
    Dense result(out);
    reference::SwigluForward<float>(Dense(gate_up), result);
    result.StoreTo(out);
  }
  void SwigluBackward(ConstTensor gate_up, ConstTensor d_out, Tensor d_gate_up) override {
    CheckSwiglu(gate_up, d_out);
    SKERRY_CHECK(SameShape(gate_up, d_gate_up));
    Dense result(d_gate_up);
    reference::SwigluBackward<float>(Dense(gate_up), Dense(d_out), result);
    result.StoreTo(d_gate_up);
  }

  void CrossEntropy(std::span<const int32_t> targets, const CrossEntropyTerms& terms,
                    ConstMatrix logits, Tensor d_logits, float* losses) override {
    CheckCrossEntropy(targets, terms, logits, d_logits);
    Dense gradient(logits);
    const Matrix rows = gradient;
    reference::CrossEntropy<float>(targets, terms, rows, losses);
    if (!d_logits.empty()) gradient.StoreTo(d_logits);
  }
  void LogitStatistics(std::span<const int32_t> targets, ConstMatrix logits,
                       float* statistics) override {
    CheckTokens(targets, logits.rows, logits.columns);
    reference::LogitStatistics<float>(targets, logits, statistics);
  }

  void Add(const float* x, float* y, int64_t n) override {
    for (int64_t i = 0; i < n; ++i) y[i] += x[i];
  }
  void Fill(float* y, float value, int64_t n) override { std::fill(y, y + n, value); }
  void Copy(const float* x, float* y, int64_t n) override { std::copy(x, x + n, y); }
  void SumsOfSquares(const float* x, std::span<const UpdateRange> ranges,
                     std::span<double> sums) override {
    for (size_t r = 0; r < ranges.size(); ++r) {
      sums[r] = 0;
      for (int64_t i = ranges[r].offset; i < ranges[r].offset + ranges[r].size; ++i)
        sums[r] += static_cast<double>(x[i]) * x[i];
    }
  }

  void AdamW(const AdamWStep& step, std::span<const UpdateRange> ranges,
             const UpdateArrays& arrays) override {
    CheckAdamW(step);
    for (const UpdateRange& range : ranges) {
      reference::AdamW<float>(step, range, arrays.gradient, arrays.parameters, arrays.m, arrays.v);
      RoundRange(range, arrays);
    }
  }
  void Sgd(float learning_rate, std::span<const UpdateRange> ranges,
           const UpdateArrays& arrays) override {
    for (const UpdateRange& range : ranges) {
      const double rate = static_cast<double>(learning_rate) * range.gradient_scale;
      for (int64_t i = range.offset; i < range.offset + range.size; ++i)
        arrays.parameters[i] = static_cast<float>(arrays.parameters[i] - rate * arrays.gradient[i]);
      RoundRange(range, arrays);
    }
  }

 private:
  static void RoundRange(const UpdateRange& range, const UpdateArrays& arrays) {
    if (arrays.rounded == nullptr) return;
    for (int64_t i = range.offset; i < range.offset + range.size; ++i)
      arrays.rounded[i] = ToBf16(arrays.parameters[i]);
  }

  DType compute_;
};

void ReferenceBackend::RmsNormForward(const RmsNormPass& pass) {
  CheckRmsNorm(pass);
  ConstMatrix x = pass.x;
  if (pass.addend.values != nullptr) {
    for (int64_t i = 0; i < x.size(); ++i)
      pass.sum.values[i] = pass.x.values[i] + pass.addend.values[i];
    x = pass.sum;
  }
  Dense result(pass.out);
  reference::RmsNormForward<float>(x, pass.weight, pass.epsilon, result, pass.inverse_rms);
  result.StoreTo(pass.out);
}

void ReferenceBackend::RmsNormBackward(const RmsNormGradient& pass) {
  CheckRmsNorm(pass);
  reference::RmsNormBackward<float>(pass.x, pass.weight, pass.inverse_rms, Dense(pass.d_out),
                                    pass.d_x, pass.d_weight);
  if (!pass.rounded.empty()) Cast(pass.d_x, pass.rounded);
}

void ReferenceBackend::AttentionBackward(const AttentionShape& shape, ConstTensor q, ConstTensor k,
                                         ConstTensor v, ConstTensor out, const float* log_sum_exp,
                                         ConstTensor d_out, Tensor d_q, Tensor d_k, Tensor d_v) {
  CheckAttentionForward(shape, q, k, v, out);
  SKERRY_CHECK(SameShape(q, d_out) && SameShape(q, d_q) && SameShape(k, d_k) && SameShape(k, d_v));
  Dense query(d_q), key(d_k), value(d_v);
  reference::AttentionBackward<float>(shape, Dense(q), Dense(k), Dense(v), Dense(out), log_sum_exp,
                                      Dense(d_out), query, key, value);
  query.StoreTo(d_q);
  key.StoreTo(d_k);
  value.StoreTo(d_v);
}

}  // namespace

std::unique_ptr<Backend> CreateReferenceBackend(DType compute) {
  return std::make_unique<ReferenceBackend>(compute);
}

}  // namespace skerry
