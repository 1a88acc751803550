#include <algorithm>
#include <cmath>

#include "kernels/backend.h"
#include "kernels/host_buffer.h"
#include "kernels/reference/attention.h"
#include "kernels/reference/ops.h"
#include "kernels/shape_checks.h"

namespace skerry {
namespace {

class ReferenceBackend : public Backend {
 public:
  std::string name() const override { return "reference (plain loops, float64), 1 thread"; }
  std::string numeric_profile() const override { return "reference float64"; }

  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(int64_t floats) override {
    return AllocateHostBuffer(floats);
  }
  void Upload(std::span<const float> host, float* device) override {
    std::copy(host.begin(), host.end(), device);
  }
  void Download(const float* device, std::span<float> host) override {
    std::copy(device, device + host.size(), host.begin());
  }
  void Synchronize() override {}

  void Gemm(Transpose ta, Transpose tb, ConstMatrix a, ConstMatrix b, float beta,
            Matrix c) override {
    CheckGemm(ta, tb, a, b, beta, c);
    reference::Gemm<float>(ta, tb, a, b, beta, c);
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

  void RmsNormForward(ConstMatrix x, const float* weight, float epsilon, Matrix out,
                      float* inverse_rms) override {
    SKERRY_CHECK(SameShape(x, out));
    reference::RmsNormForward<float>(x, weight, epsilon, out, inverse_rms);
  }
  void RmsNormBackward(ConstMatrix x, const float* weight, const float* inverse_rms,
                       ConstMatrix d_out, Matrix d_x, float* d_weight) override {
    SKERRY_CHECK(SameShape(x, d_out) && SameShape(x, d_x));
    reference::RmsNormBackward<float>(x, weight, inverse_rms, d_out, d_x, d_weight);
  }

  void Rope(const AttentionShape& shape, float base, bool inverse, Matrix q, Matrix k) override {
    CheckRope(shape, q, k);
    reference::Rope<float>(shape, base, inverse, q, k);
  }
  void AttentionForward(const AttentionShape& shape, ConstMatrix q, ConstMatrix k, ConstMatrix v,
                        Matrix out, float* log_sum_exp) override {
    CheckAttention(shape, q, k);
    SKERRY_CHECK(SameShape(k, v) && SameShape(q, out));
    reference::AttentionForward<float>(shape, q, k, v, out, log_sum_exp);
  }
  void AttentionBackward(const AttentionShape& shape, ConstMatrix q, ConstMatrix k, ConstMatrix v,
                         ConstMatrix out, const float* log_sum_exp, ConstMatrix d_out, Matrix d_q,
                         Matrix d_k, Matrix d_v) override {
    CheckAttention(shape, q, k);
    SKERRY_CHECK(SameShape(k, v) && SameShape(q, out) && SameShape(q, d_out));
    SKERRY_CHECK(SameShape(q, d_q) && SameShape(k, d_k) && SameShape(k, d_v));
    reference::AttentionBackward<float>(shape, q, k, v, out, log_sum_exp, d_out, d_q, d_k, d_v);
  }

  void SwigluForward(ConstMatrix gate_up, Matrix out) override {
    CheckSwiglu(gate_up, out);
    reference::SwigluForward<float>(gate_up, out);
  }
  void SwigluBackward(ConstMatrix gate_up, ConstMatrix d_out, Matrix d_gate_up) override {
    CheckSwiglu(gate_up, d_out);
    SKERRY_CHECK(SameShape(gate_up, d_gate_up));
    reference::SwigluBackward<float>(gate_up, d_out, d_gate_up);
  }

  float CrossEntropy(std::span<const int32_t> targets, bool gradient, Matrix logits) override {
    SKERRY_CHECK(logits.rows >= 1, "a mean needs a token");
    CheckTokens(targets, logits.rows, logits.columns);
    return static_cast<float>(reference::CrossEntropy<float>(targets, gradient, logits));
  }

  void Add(const float* x, float* y, int64_t n) override {
    for (int64_t i = 0; i < n; ++i) y[i] += x[i];
  }
  void Fill(float* y, float value, int64_t n) override { std::fill(y, y + n, value); }
  void Copy(const float* x, float* y, int64_t n) override { std::copy(x, x + n, y); }
  double SumOfSquares(const float* x, int64_t n) override {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * x[i];
    return sum;
  }

  void AdamW(const AdamWStep& step, const float* gradient, float* parameters, float* m, float* v,
             int64_t n) override {
    CheckAdamW(step);
    reference::AdamW<float>(step, gradient, parameters, m, v, n);
  }
  void Sgd(float learning_rate, float scale, const float* gradient, float* parameters,
           int64_t n) override {
    const double rate = static_cast<double>(learning_rate) * scale;
    for (int64_t i = 0; i < n; ++i)
      parameters[i] = static_cast<float>(parameters[i] - rate * gradient[i]);
  }
};

}  // namespace

std::unique_ptr<Backend> CreateReferenceBackend() {
  return std::make_unique<ReferenceBackend>();
}

}  // namespace skerry
