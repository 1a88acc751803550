#include "kernels/cpu/cpu_backend.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "common/status.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/rope_table.h"
#include "kernels/cpu/row_sums.h"
#include "kernels/cpu/team.h"
#include "kernels/cpu/tiled_products.h"
#include "kernels/cpu/vocabulary.h"
#include "kernels/host_buffer.h"
#include "kernels/shape_checks.h"

namespace skerry {
namespace {

constexpr int64_t kRowsGrain = 32;         // tokens of a member's share, at least
constexpr int64_t kFlatGrain = 16 * 1024;  // values, likewise
constexpr int64_t kSumChunk = 64 * 1024;   // values of a partial sum; does not depend on threads

AttentionSizes SizesOf(const AttentionShape& s) {
  return {s.sequences, s.context, s.heads, s.kv_heads, s.head_size};
}

template <typename T>
const T* As(const ConstTensor& x) {
  return static_cast<const T*>(x.values);
}

template <typename T>
T* As(const Tensor& x) {
  return static_cast<T*>(x.values);
}

class CpuBackend : public HostBackend {
 public:
  CpuBackend(const KernelTable& kernels, int threads, DType compute)
      : kernels_(kernels), threads_(threads), compute_(compute), gemm_(threads) {}

  std::string name() const override {
    return absl::StrFormat("cpu (%s%s), %d thread%s", Products(), TypeText(), threads_,
                           threads_ == 1 ? "" : "s");
  }
  std::string numeric_profile() const override {
    const bool bf16 = compute_ == DType::kBfloat16;
    return absl::StrFormat("cpu, %s, %s kernels %d%s%s, threads %d", Products(), kernels_.name,
                           kKernelRevision, bf16 ? ", bf16 of " : "", bf16 ? ProcessorMaker() : "",
                           threads_);
  }
  DType compute_type() const override { return compute_; }

  void Gemm(Transpose ta, Transpose tb, ConstTensor a, ConstTensor b, float beta,
            Tensor c) override;
  void Cast(ConstTensor x, Tensor y) override;

  void EmbeddingForward(std::span<const int32_t> tokens, ConstMatrix table, Matrix out) override {
    CheckEmbedding(tokens, table, out);
    FetchRows(tokens, table, out);
  }
  void EmbeddingBackward(std::span<const int32_t> tokens, ConstMatrix d_out,
                         Matrix d_table) override {
    CheckEmbedding(tokens, d_table, d_out);
    AddToTable(kernels_, tokens, d_out, d_table);
  }

  void RmsNormForward(const RmsNormPass& pass) override {
    CheckRmsNorm(pass);
    Typed(pass.out.type, [&]<typename T>(const StorageKernels<T>& k) { Norm<T>(k, pass); });
  }
  void RmsNormBackward(const RmsNormGradient& pass) override {
    CheckRmsNorm(pass);
    Typed(pass.d_out.type, [&]<typename T>(const StorageKernels<T>& k) { NormBack<T>(k, pass); });
  }

  void Rope(const AttentionShape& shape, const RopeAngles& angles, bool inverse, Tensor q,
            Tensor k) override {
    CheckRope(shape, q, k);
    rope_.Prepare(shape.context, shape.head_size, angles);
    SKERRY_CHECK(SameType({q, k}));
    // q and k in turn, a few rows at a time: they are columns of the same rows.
    Typed(q.type, [&]<typename T>(const StorageKernels<T>& kernels) {
      InShares(threads_, q.rows, kRowsGrain, [&](const Share& rows, int) {
        for (int64_t first = rows.first; first < rows.last; first += kRowsGrain) {
          const int64_t count = std::min(kRowsGrain, rows.last - first);
          for (const Tensor& x : {q, k}) {
            kernels.rope({count, first, x.columns, x.step, shape.context, shape.head_size,
                          rope_.cosines(), rope_.sines(), inverse, As<T>(x) + first * x.step});
          }
        }
      });
    });
  }
  void AddBias(const float* bias, Tensor y) override { AddToRows(kernels_, threads_, bias, y); }
  void BiasBackward(ConstTensor d_y, float* d_bias) override {
    SumRows(kernels_, threads_, d_y, d_bias);
  }
  void AttentionForward(const AttentionShape& shape, ConstTensor q, ConstTensor k, ConstTensor v,
                        Tensor out, float* log_sum_exp) override;
  void AttentionBackward(const AttentionShape& shape, ConstTensor q, ConstTensor k, ConstTensor v,
                         ConstTensor out, const float* log_sum_exp, ConstTensor d_out, Tensor d_q,
                         Tensor d_k, Tensor d_v) override;

  void SwigluForward(ConstTensor gate_up, Tensor out) override {
    CheckSwiglu(gate_up, out);
    Typed(out.type, [&]<typename T>(const StorageKernels<T>& k) {
      InShares(threads_, out.rows, kRowsGrain, [&](const Share& rows, int) {
        for (int64_t t = rows.first; t < rows.last; ++t)
          k.swiglu_forward(As<T>(gate_up) + t * gate_up.step, As<T>(out) + t * out.step,
                           out.columns);
      });
    });
  }
  void SwigluBackward(ConstTensor gate_up, ConstTensor d_out, Tensor d_gate_up) override {
    CheckSwiglu(gate_up, d_out);
    SKERRY_CHECK(SameShape(gate_up, d_gate_up) && SameType({gate_up, d_gate_up}));
    Typed(d_out.type, [&]<typename T>(const StorageKernels<T>& k) {
      InShares(threads_, d_out.rows, kRowsGrain, [&](const Share& rows, int) {
        for (int64_t t = rows.first; t < rows.last; ++t)
          k.swiglu_backward(As<T>(gate_up) + t * gate_up.step, As<T>(d_out) + t * d_out.step,
                            As<T>(d_gate_up) + t * d_gate_up.step, d_out.columns);
      });
    });
  }

  void CrossEntropy(std::span<const int32_t> targets, const CrossEntropyTerms& terms,
                    ConstMatrix logits, Tensor d_logits, float* losses) override;
  void LogitStatistics(std::span<const int32_t> targets, ConstMatrix logits,
                       float* statistics) override {
    CheckTokens(targets, logits.rows, logits.columns);
    DescribeLogits(kernels_, threads_, targets, logits, statistics);
  }

  void Add(const float* x, float* y, int64_t n) override {
    Flat(n, [&](const Share& s) { kernels_.add(x + s.first, y + s.first, s.last - s.first); });
  }
  void Fill(float* y, float value, int64_t n) override {
    Flat(n, [&](const Share& s) { std::fill(y + s.first, y + s.last, value); });
  }
  void Copy(const float* x, float* y, int64_t n) override {
    Flat(n, [&](const Share& s) { std::copy(x + s.first, x + s.last, y + s.first); });
  }
  void SumsOfSquares(const float* x, std::span<const UpdateRange> ranges,
                     std::span<double> sums) override;

  void AdamW(const AdamWStep& step, std::span<const UpdateRange> ranges,
             const UpdateArrays& arrays) override;
  void Sgd(float learning_rate, std::span<const UpdateRange> ranges,
           const UpdateArrays& arrays) override {
    for (const UpdateRange& range : ranges) {
      Flat(range.size, [&](const Share& s) {
        const int64_t at = range.offset + s.first;
        kernels_.sgd(learning_rate * range.gradient_scale, arrays.gradient + at,
                     arrays.parameters + at, s.last - s.first);
        Round(arrays, at, s.last - s.first);
      });
    }
  }

 private:
  // Whose: the numeric profile tells by it what else has these bits.
  std::string Products() const {
    return own_.empty() ? GemmLibrary() : own_[0].Names(kernels_.name);
  }
  const char* TypeText() const { return compute_ == DType::kBfloat16 ? ", bf16" : ""; }

  // Calls body(kernels for tensors of this type).
  template <typename Body>
  void Typed(DType type, const Body& body) const {
    if (type == DType::kFloat32) return body(kernels_.f32);
    SKERRY_CHECK(compute_ == DType::kBfloat16, "bf16 only from a backend that computes in it");
    body(*kernels_.bf16);
  }
  template <typename Body>
  void Flat(int64_t n, const Body& body) const {
    InShares(threads_, n, kFlatGrain, [&](const Share& share, int) { body(share); });
  }
  template <typename T>
  void Norm(const StorageKernels<T>& kernels, const RmsNormPass& pass);
  template <typename T>
  void NormBack(const StorageKernels<T>& kernels, const RmsNormGradient& pass);
  void Round(const UpdateArrays& arrays, int64_t at, int64_t n) const {
    if (arrays.rounded == nullptr) return;
    SKERRY_CHECK(compute_ == DType::kBfloat16);
    kernels_.bf16->round(arrays.parameters + at, arrays.rounded + at, n);
  }

  // At least `floats` of memory, contents arbitrary, good until the next call. It only grows, so a
  // training run allocates it once.
  float* Scratch(int64_t floats);

  const KernelTable& kernels_;
  int threads_;
  DType compute_;
  GemmCache gemm_;
  std::vector<TiledProducts> own_ = OwnProducts(kernels_, threads_);  // for what they suit
  RopeTable rope_;
  std::unique_ptr<Buffer> scratch_;
  std::vector<double> partial_sums_;
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

void CpuBackend::Gemm(Transpose ta, Transpose tb, ConstTensor a, ConstTensor b, float beta,
                      Tensor c) {
  const GemmSizes sizes = CheckGemm(ta, tb, a, b, beta, c);
  SKERRY_CHECK(a.type == DType::kFloat32 || compute_ == DType::kBfloat16,
               "bf16 only from a backend that computes in it");
  if (c.size() == 0) return;
  if (sizes.k == 0) {
    const auto row_bytes = static_cast<size_t>(c.columns * BytesOf(c.type));
    for (int64_t r = 0; beta == 0 && r < c.rows; ++r)
      std::memset(c.Rows(r, 1).values, 0, row_bytes);
    return;
  }
  const GemmCall call = {ta, tb, sizes, a, b, beta, c};
  const auto own = std::ranges::find_if(own_, [&](const auto& o) { return o.Suit(call); });
  const absl::Status status = own != own_.end() ? own->Run(call) : gemm_.Run(call);
  SKERRY_CHECK(status.ok(), "every shape of types that the backend has can be multiplied");
}

void CpuBackend::Cast(ConstTensor x, Tensor y) {
  SKERRY_CHECK(SameShape(x, y) && x.type != y.type, "a cast goes from one type to the other");
  const DType narrow = DType::kBfloat16;
  Typed(narrow, [&]<typename T>(const StorageKernels<T>& kernels) {
    const bool dense = x.is_dense() && ConstTensor(y).is_dense();
    const int64_t rows = dense ? 1 : x.rows, columns = dense ? x.size() : x.columns;
    InShares(threads_, rows * columns, columns > kFlatGrain ? kFlatGrain : columns,
             [&](const Share& share, int) {
               for (int64_t at = share.first; at < share.last;) {
                 const int64_t row = at / columns, column = at % columns;
                 const int64_t n = std::min(columns - column, share.last - at);
                 const int64_t from = row * x.step + column, to = row * y.step + column;
                 if (y.type == narrow) {
                   kernels.round(As<float>(x) + from, As<T>(y) + to, n);
                 } else {
                   kernels.widen(As<T>(x) + from, As<float>(y) + to, n);
                 }
                 at += n;
               }
             });
  });
}

template <typename T>
void CpuBackend::Norm(const StorageKernels<T>& kernels, const RmsNormPass& pass) {
  SKERRY_CHECK(ConstTensor(pass.out).is_dense());
  const int64_t width = pass.x.columns;
  InShares(threads_, pass.x.rows, kRowsGrain, [&](const Share& rows, int) {
    const int64_t at = rows.first * width;
    const bool adds = pass.addend.values != nullptr;
    kernels.rms_norm_forward({rows.last - rows.first, width, pass.x.values + at,
                              adds ? pass.addend.values + at : nullptr,
                              adds ? pass.sum.values + at : nullptr, pass.weight, pass.epsilon,
                              As<T>(pass.out) + at, pass.inverse_rms + rows.first});
  });
}

// Members sum the gradient of the weight apart, then their sums are added in order.
template <typename T>
void CpuBackend::NormBack(const StorageKernels<T>& kernels, const RmsNormGradient& pass) {
  SKERRY_CHECK(pass.d_out.is_dense() && ConstTensor(pass.rounded).is_dense());
  SKERRY_CHECK(pass.rounded.empty() || pass.rounded.type == pass.d_out.type);
  const int64_t width = pass.x.columns;
  float* const partial = threads_ == 1 ? nullptr : Scratch(threads_ * width);
  if (partial != nullptr) std::fill(partial, partial + threads_ * width, 0.0f);
  InFixedShares(threads_, pass.x.rows, kRowsGrain, [&](const Share& rows, int member) {
    const int64_t at = rows.first * width;
    kernels.rms_norm_backward({rows.last - rows.first, width, pass.x.values + at, pass.weight,
                               pass.inverse_rms + rows.first, As<T>(pass.d_out) + at,
                               pass.d_x.values + at,
                               pass.rounded.empty() ? nullptr : As<T>(pass.rounded) + at,
                               partial == nullptr ? pass.d_weight : partial + member * width});
  });
  for (int member = 0; partial != nullptr && member < threads_; ++member)
    kernels_.add(partial + member * width, pass.d_weight, width);
}

void CpuBackend::AttentionForward(const AttentionShape& shape, ConstTensor q, ConstTensor k,
                                  ConstTensor v, Tensor out, float* log_sum_exp) {
  CheckAttentionForward(shape, q, k, v, out);
  SKERRY_CHECK(k.step == v.step);
  const AttentionSizes sizes = SizesOf(shape);
  Typed(q.type, [&]<typename T>(const StorageKernels<T>& kernels) {
    const int64_t room = kernels.attention_scratch(sizes);
    float* const scratch = Scratch(threads_ * room);
    InShares(threads_, sizes.sequences * sizes.kv_heads, 1, [&](const Share& units, int member) {
      kernels.attention_forward({sizes, As<T>(q), As<T>(k), As<T>(v), q.step, k.step, As<T>(out),
                                 out.step, log_sum_exp, scratch + member * room},
                                {units.first, units.last});
    });
  });
}

void CpuBackend::AttentionBackward(const AttentionShape& shape, ConstTensor q, ConstTensor k,
                                   ConstTensor v, ConstTensor out, const float* log_sum_exp,
                                   ConstTensor d_out, Tensor d_q, Tensor d_k, Tensor d_v) {
  CheckAttentionForward(shape, q, k, v, out);
  SKERRY_CHECK(SameShape(q, d_out) && SameShape(q, d_q) && SameShape(k, d_k) && SameShape(k, d_v));
  SKERRY_CHECK(SameType({q, d_out, d_q, d_k, d_v}));
  SKERRY_CHECK(k.step == v.step && out.step == d_out.step && d_k.step == d_v.step);
  const AttentionSizes sizes = SizesOf(shape);
  Typed(q.type, [&]<typename T>(const StorageKernels<T>& kernels) {
    const int64_t room = kernels.attention_scratch(sizes);
    float* const scratch = Scratch(threads_ * room);
    InShares(threads_, sizes.sequences * sizes.kv_heads, 1, [&](const Share& units, int member) {
      kernels.attention_backward({sizes, As<T>(q), As<T>(k), As<T>(v), q.step, k.step, As<T>(out),
                                  log_sum_exp, As<T>(d_out), out.step, As<T>(d_q), As<T>(d_k),
                                  As<T>(d_v), d_q.step, d_k.step, scratch + member * room},
                                 {units.first, units.last});
    });
  });
}

void CpuBackend::CrossEntropy(std::span<const int32_t> targets, const CrossEntropyTerms& terms,
                              ConstMatrix logits, Tensor d_logits, float* losses) {
  CheckCrossEntropy(targets, terms, logits, d_logits);
  SKERRY_CHECK(d_logits.empty() || ConstTensor(d_logits).is_dense());
  Typed(d_logits.type, [&]<typename T>(const StorageKernels<T>& kernels) {
    InShares(threads_, logits.rows, 1, [&](const Share& rows, int) {
      const int64_t at = rows.first * logits.columns;
      kernels.cross_entropy({rows.last - rows.first, logits.columns, targets.data() + rows.first,
                             const_cast<float*>(logits.values) + at,
                             d_logits.empty() ? nullptr : As<T>(d_logits) + at,
                             terms.gradient_scale, terms.z_loss,
                             terms.parts > 0 ? terms.statistics + rows.first : nullptr, terms.parts,
                             logits.rows, losses + rows.first});
    });
  });
}

void CpuBackend::SumsOfSquares(const float* x, std::span<const UpdateRange> ranges,
                               std::span<double> sums) {
  for (size_t r = 0; r < ranges.size(); ++r) {
    const int64_t offset = ranges[r].offset, size = ranges[r].size;
    const int64_t chunks = (size + kSumChunk - 1) / kSumChunk;
    partial_sums_.resize(static_cast<size_t>(chunks));
    InShares(threads_, chunks, 1, [&](const Share& share, int) {
      for (int64_t c = share.first; c < share.last; ++c)
        partial_sums_[static_cast<size_t>(c)] = kernels_.sum_of_squares(
            x + offset + c * kSumChunk, std::min(kSumChunk, size - c * kSumChunk));
    });
    sums[r] = 0;
    for (const double partial : partial_sums_) sums[r] += partial;
  }
}

void CpuBackend::AdamW(const AdamWStep& step, std::span<const UpdateRange> ranges,
                       const UpdateArrays& arrays) {
  CheckAdamW(step);
  const double lr = step.learning_rate, beta1 = step.beta1, beta2 = step.beta2;
  const double t = static_cast<double>(step.step);
  for (const UpdateRange& range : ranges) {
    Flat(range.size, [&](const Share& share) {
      const int64_t at = range.offset + share.first;
      kernels_.adamw({.n = share.last - share.first,
                      .gradient = arrays.gradient + at,
                      .parameters = arrays.parameters + at,
                      .m = arrays.m + at,
                      .v = arrays.v + at,
                      .scale = range.gradient_scale,
                      .beta1 = step.beta1,
                      .one_minus_beta1 = static_cast<float>(1 - beta1),
                      .beta2 = step.beta2,
                      .one_minus_beta2 = static_cast<float>(1 - beta2),
                      .keep = static_cast<float>(1 - lr * range.weight_decay),
                      .rate = static_cast<float>(lr / (1 - std::pow(beta1, t))),
                      .root = static_cast<float>(1 / std::sqrt(1 - std::pow(beta2, t))),
                      .epsilon = step.epsilon});
      Round(arrays, at, share.last - share.first);
    });
  }
}

}  // namespace

std::unique_ptr<Backend> CreateCpuBackendWith(const KernelTable& kernels, int threads,
                                              DType compute) {
  SKERRY_CHECK(threads >= 1, "a backend computes with at least the thread that owns it");
  const bool has_bf16 = kernels.bf16 != nullptr && MultipliesBfloat16();
  return std::make_unique<CpuBackend>(kernels, threads, has_bf16 ? compute : DType::kFloat32);
}

std::unique_ptr<Backend> CreateCpuBackend(int threads, DType compute) {
  if (compute == DType::kBfloat16 && !Bfloat16Pays()) compute = DType::kFloat32;
  return CreateCpuBackendWith(BestKernels(), threads, compute);
}

}  // namespace skerry
