#include "kernels/cpu/cpu_backend.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "common/status.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/rope_table.h"
#include "kernels/host_buffer.h"
#include "kernels/shape_checks.h"

namespace skerry {
namespace {

AttentionSizes SizesOf(const AttentionShape& s) {
  return {s.sequences, s.context, s.heads, s.kv_heads, s.head_size};
}

class CpuBackend : public Backend {
 public:
  CpuBackend(const KernelTable& kernels, int threads)
      : kernels_(kernels), threads_(threads), gemm_(threads) {}

  std::string name() const override {
    return absl::StrFormat("cpu (%s), %d thread%s", GemmLibrary(), threads_,
                           threads_ == 1 ? "" : "s");
  }
  std::string numeric_profile() const override {
    return absl::StrFormat("cpu, %s, %s kernels, threads %d", GemmLibrary(), kernels_.name,
                           threads_);
  }

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
            Matrix c) override;

  void EmbeddingForward(std::span<const int32_t> tokens, ConstMatrix table, Matrix out) override {
    CheckEmbedding(tokens, table, out);
    float* row = out.values;
    for (const int32_t token : tokens) {
      const float* from = table.values + token * table.columns;
      row = std::copy(from, from + table.columns, row);
    }
  }
  void EmbeddingBackward(std::span<const int32_t> tokens, ConstMatrix d_out,
                         Matrix d_table) override {
    CheckEmbedding(tokens, d_table, d_out);
    const float* row = d_out.values;
    for (const int32_t token : tokens) {
      kernels_.add(row, d_table.values + token * d_table.columns, d_table.columns);
      row += d_out.columns;
    }
  }

  void RmsNormForward(ConstMatrix x, const float* weight, float epsilon, Matrix out,
                      float* inverse_rms) override {
    SKERRY_CHECK(SameShape(x, out));
    kernels_.rms_norm_forward(
        {x.rows, x.columns, x.values, weight, nullptr, epsilon, inverse_rms, out.values, nullptr});
  }
  void RmsNormBackward(ConstMatrix x, const float* weight, const float* inverse_rms,
                       ConstMatrix d_out, Matrix d_x, float* d_weight) override {
    SKERRY_CHECK(SameShape(x, d_out) && SameShape(x, d_x));
    kernels_.rms_norm_backward({x.rows, x.columns, x.values, weight, d_out.values, 0,
                                const_cast<float*>(inverse_rms), d_x.values, d_weight});
  }

  void Rope(const AttentionShape& shape, float base, bool inverse, Matrix q, Matrix k) override {
    CheckRope(shape, q, k);
    rope_.Prepare(shape.context, shape.head_size, base);
    for (const Matrix& x : {q, k}) {
      kernels_.rope({x.rows, x.columns, shape.context, shape.head_size, rope_.cosines(),
                     rope_.sines(), inverse, x.values});
    }
  }
  void AttentionForward(const AttentionShape& shape, ConstMatrix q, ConstMatrix k, ConstMatrix v,
                        Matrix out, float* log_sum_exp) override;
  void AttentionBackward(const AttentionShape& shape, ConstMatrix q, ConstMatrix k, ConstMatrix v,
                         ConstMatrix out, const float* log_sum_exp, ConstMatrix d_out, Matrix d_q,
                         Matrix d_k, Matrix d_v) override;

  void SwigluForward(ConstMatrix gate_up, Matrix out) override {
    CheckSwiglu(gate_up, out);
    for (int64_t t = 0; t < out.rows; ++t) {
      kernels_.swiglu_forward(gate_up.values + t * gate_up.columns, out.values + t * out.columns,
                              out.columns);
    }
  }
  void SwigluBackward(ConstMatrix gate_up, ConstMatrix d_out, Matrix d_gate_up) override {
    CheckSwiglu(gate_up, d_out);
    SKERRY_CHECK(SameShape(gate_up, d_gate_up));
    for (int64_t t = 0; t < d_out.rows; ++t) {
      kernels_.swiglu_backward(gate_up.values + t * gate_up.columns,
                               d_out.values + t * d_out.columns,
                               d_gate_up.values + t * gate_up.columns, d_out.columns);
    }
  }

  float CrossEntropy(std::span<const int32_t> targets, bool gradient, Matrix logits) override {
    SKERRY_CHECK(logits.rows >= 1, "a mean needs a token");
    CheckTokens(targets, logits.rows, logits.columns);
    const double sum = kernels_.cross_entropy(
        {logits.rows, logits.columns, targets.data(), logits.values, gradient});
    return static_cast<float>(sum / static_cast<double>(logits.rows));
  }

  void Add(const float* x, float* y, int64_t n) override { kernels_.add(x, y, n); }
  void Fill(float* y, float value, int64_t n) override { std::fill(y, y + n, value); }
  void Copy(const float* x, float* y, int64_t n) override { std::copy(x, x + n, y); }
  double SumOfSquares(const float* x, int64_t n) override { return kernels_.sum_of_squares(x, n); }

  void AdamW(const AdamWStep& step, const float* gradient, float* parameters, float* m, float* v,
             int64_t n) override;
  void Sgd(float learning_rate, float scale, const float* gradient, float* parameters,
           int64_t n) override {
    kernels_.sgd(learning_rate * scale, gradient, parameters, n);
  }

 private:
  // At least `floats` of memory, contents arbitrary, good until the next call. It only grows, so a
  // training run allocates it once.
  float* Scratch(int64_t floats);

  const KernelTable& kernels_;
  int threads_;
  GemmCache gemm_;
  RopeTable rope_;
  std::unique_ptr<Buffer> scratch_;
};

float* CpuBackend::Scratch(int64_t floats) {
  if (scratch_ == nullptr || scratch_->size() < floats) {
    scratch_.reset();
    auto grown = AllocateHostBuffer(floats);
    SKERRY_CHECK(grown.ok(), "a few megabytes beside the activations");
    scratch_ = *std::move(grown);
  }
  return scratch_->data();
}

void CpuBackend::Gemm(Transpose ta, Transpose tb, ConstMatrix a, ConstMatrix b, float beta,
                      Matrix c) {
  const GemmSizes sizes = CheckGemm(ta, tb, a, b, beta, c);
  if (c.size() == 0) return;
  if (sizes.k == 0) {
    if (beta == 0) Fill(c.values, 0, c.size());
    return;
  }
  const absl::Status status = gemm_.Run({ta, tb, sizes, a.values, b.values, beta, c.values});
  SKERRY_CHECK(status.ok(), "oneDNN multiplies every dense float32 shape");
}

void CpuBackend::AttentionForward(const AttentionShape& shape, ConstMatrix q, ConstMatrix k,
                                  ConstMatrix v, Matrix out, float* log_sum_exp) {
  CheckAttention(shape, q, k);
  SKERRY_CHECK(SameShape(k, v) && SameShape(q, out));
  const AttentionSizes sizes = SizesOf(shape);
  kernels_.attention_forward({sizes, q.values, k.values, v.values, out.values, log_sum_exp,
                              Scratch(kernels_.attention_scratch(sizes))});
}

void CpuBackend::AttentionBackward(const AttentionShape& shape, ConstMatrix q, ConstMatrix k,
                                   ConstMatrix v, ConstMatrix out, const float* log_sum_exp,
                                   ConstMatrix d_out, Matrix d_q, Matrix d_k, Matrix d_v) {
  CheckAttention(shape, q, k);
  SKERRY_CHECK(SameShape(k, v) && SameShape(q, out) && SameShape(q, d_out));
  SKERRY_CHECK(SameShape(q, d_q) && SameShape(k, d_k) && SameShape(k, d_v));
  const AttentionSizes sizes = SizesOf(shape);
  kernels_.attention_backward({sizes, q.values, k.values, v.values, out.values, log_sum_exp,
                               d_out.values, d_q.values, d_k.values, d_v.values,
                               Scratch(kernels_.attention_scratch(sizes))});
}

void CpuBackend::AdamW(const AdamWStep& step, const float* gradient, float* parameters, float* m,
                       float* v, int64_t n) {
  CheckAdamW(step);
  const double lr = step.learning_rate, beta1 = step.beta1, beta2 = step.beta2;
  const double t = static_cast<double>(step.step);
  kernels_.adamw({.n = n,
                  .gradient = gradient,
                  .parameters = parameters,
                  .m = m,
                  .v = v,
                  .scale = step.gradient_scale,
                  .beta1 = step.beta1,
                  .one_minus_beta1 = static_cast<float>(1 - beta1),
                  .beta2 = step.beta2,
                  .one_minus_beta2 = static_cast<float>(1 - beta2),
                  .keep = static_cast<float>(1 - lr * step.weight_decay),
                  .rate = static_cast<float>(lr / (1 - std::pow(beta1, t))),
                  .root = static_cast<float>(1 / std::sqrt(1 - std::pow(beta2, t))),
                  .epsilon = step.epsilon});
}

}  // namespace

std::unique_ptr<Backend> CreateCpuBackendWith(const KernelTable& kernels, int threads) {
  SKERRY_CHECK(threads >= 1, "a backend computes with at least the thread that owns it");
  return std::make_unique<CpuBackend>(kernels, threads);
}

std::unique_ptr<Backend> CreateCpuBackend(int threads) {
  return CreateCpuBackendWith(BestKernels(), threads);
}

}  // namespace skerry
