// bf16 tensors with row steps: every operation of the plug-in's kernels beside the reference on the
// same rounded operands. What the reference loses by rounding its results alone is the yardstick;
// the kernels may lose twice that.
#include "kernels/bfloat16.h"
#include "tests/cuda_on_host/gpu_under_test.h"
#include "tests/kernels/values.h"

namespace skerry {
namespace {

constexpr Transpose kNo = Transpose::kNo, kYes = Transpose::kYes;
constexpr int64_t kGap = 8;  // values between rows

// Random numbers that bf16 has, stored as either type, a step apart.
class Operand {
 public:
  Operand(int64_t rows, int64_t columns, const std::string& name, bool as_bf16)
      : rows_(rows), columns_(columns), as_bf16_(as_bf16) {
    const Values draw = Normals(rows * step(), name);
    for (const float value : draw) {
      halves_.push_back(ToBf16(value));
      floats_.push_back(ToFloat(halves_.back()));
    }
  }
  operator Tensor() {  // NOLINT
    void* at = as_bf16_ ? static_cast<void*>(halves_.data()) : floats_.data();
    return {at, rows_, columns_, step(), as_bf16_ ? DType::kBfloat16 : DType::kFloat32};
  }
  operator ConstTensor() { return Tensor(*this); }  // NOLINT
  Values values() const {
    Values all;
    for (int64_t i = 0; i < rows_ * step(); ++i) {
      if (i % step() >= columns_) continue;
      const auto at = static_cast<size_t>(i);
      all.push_back(as_bf16_ ? ToFloat(halves_[at]) : floats_[at]);
    }
    return all;
  }

 private:
  int64_t step() const { return columns_ + kGap; }
  int64_t rows_, columns_;
  bool as_bf16_;
  std::vector<Bf16> halves_;
  Values floats_;
};

// `run(backend, operands in bf16 or not)` returns results. Exact: float32 operands of the same
// values through the reference.
template <typename Run>
void CheckTwiceTheRounding(Run&& run) {
  const auto gpu = TestGpu(DType::kBfloat16);
  const auto reference = CreateReferenceBackend(DType::kBfloat16);
  const std::vector<Values> exact = run(*CreateReferenceBackend(), false);
  const std::vector<Values> rounded = run(*reference, true);
  const std::vector<Values> got = InEveryOrder([&] { return run(*gpu, true); });
  for (size_t i = 0; i < exact.size(); ++i) {
    INFO("result " << i);
    CHECK(NormwiseError(got[i], exact[i]) <= 2 * NormwiseError(rounded[i], exact[i]) + 1e-5);
  }
}

}  // namespace

TEST_CASE("CUDA text: bf16 products, casts, SwiGLU and rotation", "[cuda]") {
  const int64_t ffn = GENERATE(20, 24);
  CheckTwiceTheRounding([ffn](Backend& backend, bool bf16) {
    Operand a(13, 24, "a", bf16), b(9, 24, "b", bf16), c(13, 9, "c", bf16), d(24, 24, "d", false);
    Values sums = Normals(24 * 24, "sums");
    backend.Gemm(kNo, kYes, a, b, 0, c);
    backend.Gemm(kYes, kNo, a, a, 1, AsRows(sums, 24));
    Operand gates(13, 2 * ffn, "gates", bf16), out(13, ffn, "out", bf16),
        d_out(13, ffn, "d_out", bf16), d_gates(13, 2 * ffn, "d_gates", bf16);
    backend.SwigluForward(gates, out);
    backend.SwigluBackward(gates, d_out, d_gates);
    Operand q(26, 32, "q", bf16), k(26, 16, "k", bf16), cast(26, 32, "cast", !bf16);
    backend.Rope({2, 13, 2, 1, 16}, 10000, true, q, k);
    backend.Cast(q, cast);
    return std::vector<Values>{c.values(), sums,       out.values(), d_gates.values(),
                               q.values(), k.values(), cast.values()};
  });
}

TEST_CASE("CUDA text: bf16 norms add to the stream and round its gradient", "[cuda]") {
  const int64_t rows = 7, width = GENERATE(5, 64, 300);
  CheckTwiceTheRounding([&](Backend& backend, bool bf16) {
    const Values x = Normals(rows * width, "x"), addend = Normals(rows * width, "addend"),
                 weight = Normals(width, "weight");
    Values sum(x.size()), inverse(static_cast<size_t>(rows)), d_x = Normals(rows * width, "d_x"),
                                                              d_weight = Normals(width, "d_weight");
    Operand out(rows, width, "out", bf16), d_out(rows, width, "d_out", bf16),
        rounded(rows, width, "rounded", bf16);
    backend.RmsNormForward({AsRows(x, rows), AsRows(addend, rows), AsRows(sum, rows), weight.data(),
                            1e-5f, out, inverse.data()});
    backend.RmsNormBackward({AsRows(sum, rows), weight.data(), inverse.data(), d_out,
                             AsRows(d_x, rows), rounded, d_weight.data()});
    return std::vector<Values>{sum, inverse, out.values(), d_x, d_weight, rounded.values()};
  });
}

TEST_CASE("CUDA text: bf16 gradients of the loss, with z-loss", "[cuda]") {
  CheckTwiceTheRounding([](Backend& backend, bool bf16) {
    const std::vector<int32_t> targets = Tokens(9, 300, "targets");
    Values logits = Normals(9 * 300, "logits"), losses(9);
    Operand d_logits(9, 300, "d_logits", bf16);
    backend.CrossEntropy(targets, {0.1f, 0.01f}, AsRows(logits, 9), d_logits, losses.data());
    Values part = Normals(9 * 300, "part"), statistics(2 * 3 * 9, 1.0f), part_losses(9);
    backend.LogitStatistics(targets, AsRows(part, 9), statistics.data());
    Operand d_part(9, 300, "d_part", bf16);
    backend.CrossEntropy(targets, {0.1f, 0.01f, statistics.data(), 2}, AsRows(part, 9), d_part,
                         part_losses.data());
    return std::vector<Values>{losses, d_logits.values(), part_losses, d_part.values()};
  });
}

TEST_CASE("CUDA text: bf16 attention over columns of one product", "[cuda]") {
  const AttentionShape s =
      GENERATE(AttentionShape{1, 70, 2, 1, 64}, AttentionShape{1, 40, 2, 2, 128},
               AttentionShape{2, 150, 4, 2, 64}, AttentionShape{2, 171, 2, 1, 128},
               AttentionShape{2, 19, 4, 2, 16});
  const int64_t tokens = s.sequences * s.context, width = s.heads * s.head_size,
                kv_width = s.kv_heads * s.head_size;
  CheckTwiceTheRounding([&](Backend& backend, bool bf16) {
    Operand qkv(tokens, width + 2 * kv_width, "qkv", bf16), out(tokens, width, "out", bf16),
        d_out(tokens, width, "d_out", bf16), d_qkv(tokens, width + 2 * kv_width, "d_qkv", bf16);
    const Tensor all = qkv, d_all = d_qkv;
    const Tensor q = all.Columns(0, width), k = all.Columns(width, kv_width),
                 v = all.Columns(width + kv_width, kv_width);
    Values log_sum_exp(static_cast<size_t>(tokens * s.heads));
    backend.AttentionForward(s, q, k, v, out, log_sum_exp.data());
    backend.AttentionBackward(s, q, k, v, out, log_sum_exp.data(), d_out, d_all.Columns(0, width),
                              d_all.Columns(width, kv_width),
                              d_all.Columns(width + kv_width, kv_width));
    return std::vector<Values>{out.values(), log_sum_exp, d_qkv.values()};
  });
}

TEST_CASE("CUDA text: optimizers write the bf16 copy of the weights", "[cuda]") {
  CheckTwiceTheRounding([](Backend& backend, bool) {
    const Values gradient = Normals(100, "gradient");
    Values p = Normals(100, "p"), m = Normals(100, "m"), v(100, 1.0f);
    std::vector<Bf16> rounded(100);
    const std::vector<UpdateRange> ranges = {{0, 60, 1, 0.1f}, {60, 40, 0.5f, 0}};
    backend.AdamW({0.01f, 0.9f, 0.95f, 1e-8f, 3}, ranges,
                  {gradient.data(), p.data(), m.data(), v.data(), rounded.data()});
    backend.Sgd(0.1f, ranges, {gradient.data(), p.data(), nullptr, nullptr, rounded.data()});
    for (size_t i = 0; i < p.size(); ++i) CHECK(ToFloat(rounded[i]) == ToFloat(ToBf16(p[i])));
    return std::vector<Values>{p, m, v};
  });
}

}  // namespace skerry
