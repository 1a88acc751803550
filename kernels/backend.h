// The coarse operations a stage is made of, one body per device, chosen at run time
// (CreateBackend).
//
// Buffers live where the backend computes; a CPU backend's buffer is ordinary memory, a device
// backend's is device memory. All operations are enqueued in order; results may be read after
// Synchronize (a no-op on the CPU). Shapes: T tokens in a microbatch (sequences · context), C
// context, d hidden, h heads, g kv heads, e head size, f ffn, V vocab. On one device every
// operation gives the same bits every time.
//
// Types. Parameters, gradients, moments, the residual stream and statistics are float32 (Matrix,
// float*). What lies between products is of compute_type() (Tensor): float32, or bf16 with
// float32 arithmetic inside every operation, one rounding when a result is stored. Weights are then
// multiplied by in a bf16 copy (`rounded`), made when they change. A Tensor may have a row step, so
// that q, k and v can be columns of one product.
//
// Not thread-safe: one thread owns a backend. Bad shapes are bugs (CHECK), running out of memory is
// ResourceExhausted from Allocate.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/rope_angles.h"
#include "kernels/tensor_view.h"

namespace skerry {

enum class Transpose : uint8_t { kNo, kYes };

struct AttentionShape {
  int64_t sequences = 0;
  int64_t context = 0;  // tokens per sequence; T = sequences · context
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_size = 0;
};

// out = s · rstd · weight per row, where s = x, or x + addend, which is then stored in `sum`.
struct RmsNormPass {
  ConstMatrix x;        // [T, d]
  ConstMatrix addend;   // [T, d], or empty
  Matrix sum;           // [T, d]; only with an addend
  const float* weight;  // [d]
  float epsilon = 0;    //
  Tensor out;           // [T, d], compute type
  float* inverse_rms;   // [T], kept for the backward pass
};

// d_x += …, d_weight += …; where `rounded` is not empty it becomes the new d_x in its type.
struct RmsNormGradient {
  ConstMatrix x;             // [T, d]: what was normalised
  const float* weight;       // [d]
  const float* inverse_rms;  // [T]
  ConstTensor d_out;         // [T, d], compute type
  Matrix d_x;                // [T, d]
  Tensor rounded;            // [T, d], compute type, or empty
  float* d_weight;           // [d]
};

// A token of the part of the vocabulary that another device has, where devices share it.
inline constexpr int32_t kTokenElsewhere = -1;

struct CrossEntropyTerms {
  float gradient_scale = 0;  // 1/T for the gradient of a mean
  float z_loss = 0;          // adds z_loss · log(Σ e^logit)² to a token's loss (PaLM, section 5)
  // Where logits are of a part of the vocabulary: LogitStatistics of all `parts`, one after the
  // other, [parts, 3, T], in an order that is the same for all of them.
  const float* statistics = nullptr;
  int32_t parts = 0;  // 0: logits are of the whole vocabulary
};

// A run of the flat arena of a stage's parameters, and what one optimizer step does with it.
struct UpdateRange {
  int64_t offset = 0;
  int64_t size = 0;
  float gradient_scale = 1;  // the gradient is multiplied by this first (mean, clip)
  float weight_decay = 0;
};

// The arena: all arrays have its length. `rounded` (or null) becomes the bf16 copy of parameters.
struct UpdateArrays {
  const float* gradient = nullptr;
  float* parameters = nullptr;
  float *m = nullptr, *v = nullptr;  // AdamW only
  Bf16* rounded = nullptr;
};

struct AdamWStep {
  float learning_rate = 0;
  float beta1 = 0, beta2 = 0, epsilon = 0;
  int64_t step = 1;  // 1-based, for bias correction
};

class Buffer {  // owns `size` floats
 public:
  virtual ~Buffer() = default;
  virtual float* data() = 0;  // address in the backend's own memory
  virtual int64_t size() const = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string name() const = 0;             // "cpu (own products, AVX2), 1 thread"
  virtual std::string numeric_profile() const = 0;  // equal profiles compute equal bits
  virtual DType compute_type() const = 0;
  virtual bool is_host() const { return false; }  // its memory is the program's own
  virtual absl::StatusOr<std::unique_ptr<Buffer>> Allocate(int64_t floats) = 0;  // zeroed
  virtual void Upload(std::span<const float> host, float* device) = 0;
  virtual void Download(const float* device, std::span<float> host) = 0;
  virtual void Synchronize() = 0;

  // c [m, n] = beta·c + op(a)·op(b), beta 0 or 1 (0: c is not read). op(a) is [m, k], op(b) is [k,
  // n]. a and b are of one type, c of that type or float32. beta 1: c is float32 and dense.
  virtual void Gemm(Transpose ta, Transpose tb, ConstTensor a, ConstTensor b, float beta,
                    Tensor c) = 0;

  // y = x in y's type, rounded to nearest even; one shape.
  virtual void Cast(ConstTensor x, Tensor y) = 0;

  // out [T, d] = rows of table [V, d]; tokens [T] in [0, V), in host memory. Of kTokenElsewhere the
  // row is zero, and its gradient goes nowhere.
  virtual void EmbeddingForward(std::span<const int32_t> tokens, ConstMatrix table, Matrix out) = 0;
  // d_table += scatter of d_out, in token order.
  virtual void EmbeddingBackward(std::span<const int32_t> tokens, ConstMatrix d_out,
                                 Matrix d_table) = 0;

  virtual void RmsNormForward(const RmsNormPass& pass) = 0;
  virtual void RmsNormBackward(const RmsNormGradient& pass) = 0;

  // Rotates q [T, h·e] and k [T, g·e] in place, rotate-half convention, position = row mod context.
  // `inverse` applies the transposed rotation (the backward pass).
  virtual void Rope(const AttentionShape& shape, const RopeAngles& angles, bool inverse, Tensor q,
                    Tensor k) = 0;

  // y [T, n] += bias [n] in every row.
  virtual void AddBias(const float* bias, Tensor y) = 0;
  // d_bias [n] = Σ over rows of d_y [T, n], in a fixed order.
  virtual void BiasBackward(ConstTensor d_y, float* d_bias) = 0;

  // Causal attention per sequence. q, out [T, h·e]; k, v [T, g·e]; log_sum_exp [T, h] is kept for
  // the backward pass. All of one type.
  virtual void AttentionForward(const AttentionShape& shape, ConstTensor q, ConstTensor k,
                                ConstTensor v, Tensor out, float* log_sum_exp) = 0;
  // d_q, d_k, d_v are written (not accumulated).
  virtual void AttentionBackward(const AttentionShape& shape, ConstTensor q, ConstTensor k,
                                 ConstTensor v, ConstTensor out, const float* log_sum_exp,
                                 ConstTensor d_out, Tensor d_q, Tensor d_k, Tensor d_v) = 0;

  // gate_up [T, 2f]: gate in columns [0, f), up in [f, 2f). out [T, f] = silu(gate) · up.
  virtual void SwigluForward(ConstTensor gate_up, Tensor out) = 0;
  // d_gate_up [T, 2f] is written.
  virtual void SwigluBackward(ConstTensor gate_up, ConstTensor d_out, Tensor d_gate_up) = 0;

  // losses [T] (device memory) = cross-entropy of each token, nat, z_loss included. Where d_logits
  // [T, V] is not empty it becomes gradient_scale · ∂loss/∂logits; it may be the memory of logits,
  // which are float32. Of a part of the vocabulary V is the part's, and so are targets, or
  // kTokenElsewhere; losses are of the whole. With one part the bits are those without parts.
  virtual void CrossEntropy(std::span<const int32_t> targets, const CrossEntropyTerms& terms,
                            ConstMatrix logits, Tensor d_logits, float* losses) = 0;
  // What parts of the vocabulary tell each other (Shoeybi et al., 2019, section 3): statistics
  // [3, T] = of each token's logits the largest, Σ e^(logit − largest), and the target's, 0 where
  // it is elsewhere.
  virtual void LogitStatistics(std::span<const int32_t> targets, ConstMatrix logits,
                               float* statistics) = 0;

  // y += x, elementwise, n floats.
  virtual void Add(const float* x, float* y, int64_t n) = 0;
  virtual void Fill(float* y, float value, int64_t n) = 0;
  virtual void Copy(const float* x, float* y, int64_t n) = 0;
  // sums[i] = Σ x² over ranges[i], summed in float64 in a fixed order; `sums` is host memory and is
  // there when the call returns.
  virtual void SumsOfSquares(const float* x, std::span<const UpdateRange> ranges,
                             std::span<double> sums) = 0;

  // One step on every range of the arena (Loshchilov, Hutter 2019).
  virtual void AdamW(const AdamWStep& step, std::span<const UpdateRange> ranges,
                     const UpdateArrays& arrays) = 0;
  // parameters −= learning_rate · scale · gradient
  virtual void Sgd(float learning_rate, std::span<const UpdateRange> ranges,
                   const UpdateArrays& arrays) = 0;
};

// Plain loops in float64 inside, the stored types at the border: slow, obvious, the oracle.
std::unique_ptr<Backend> CreateReferenceBackend(DType compute = DType::kFloat32);

// oneDNN for matrix products, on AVX2 own ones; own kernels for the rest. `threads` ≥ 1 bounds
// every team of threads. bf16 only where the processor multiplies it faster than float32 (AMX;
// AVX512-BF16 of some), else float32: ask compute_type().
std::unique_ptr<Backend> CreateCpuBackend(int threads, DType compute = DType::kFloat32);

// The GPU when there is one, by a plug-in that is opened at run time (kernels/plugin/loader.h): its
// own kernels, cuBLASLt for products (float32 ones of factors rounded to TF32). Unavailable, and
// why: no driver, no plug-in, no device, or one that is too old.
absl::StatusOr<std::unique_ptr<Backend>> CreateCudaBackend(int device,
                                                           DType compute = DType::kFloat32);

}  // namespace skerry
