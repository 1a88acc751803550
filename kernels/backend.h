// The coarse operations a stage is made of, one body per device, chosen at run time
// (CreateBackend).
//
// Buffers live where the backend computes; a CPU backend's buffer is ordinary memory, a device
// backend's is device memory. All operations are enqueued in order; results may be read after
// Synchronize (a no-op on the CPU). Values are float32. Shapes: T tokens in a microbatch (sequences
// · context), C context, d hidden, h heads, g kv heads, e head size, f ffn, V vocab. On one device
// every operation gives the same bits every time.
//
// Not thread-safe: one thread owns a backend. Bad shapes are bugs (CHECK), running out of memory is
// ResourceExhausted from Allocate.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/statusor.h"
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

struct AdamWStep {
  float learning_rate = 0;
  float beta1 = 0, beta2 = 0, epsilon = 0;
  float weight_decay = 0;
  float gradient_scale =
      1;             // the gradient is multiplied by this first (mean over microbatches, clip)
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

  virtual std::string name() const = 0;             // "cpu (oneDNN 2.6.3, AVX2), 1 thread"
  virtual std::string numeric_profile() const = 0;  // equal profiles compute equal bits
  virtual absl::StatusOr<std::unique_ptr<Buffer>> Allocate(int64_t floats) = 0;  // zeroed
  virtual void Upload(std::span<const float> host, float* device) = 0;
  virtual void Download(const float* device, std::span<float> host) = 0;
  virtual void Synchronize() = 0;

  // c [m, n] = beta·c + op(a)·op(b), beta 0 or 1 (0: c is not read). op(a) is [m, k], op(b) is [k,
  // n].
  virtual void Gemm(Transpose ta, Transpose tb, ConstMatrix a, ConstMatrix b, float beta,
                    Matrix c) = 0;

  // out [T, d] = rows of table [V, d]; tokens [T] in [0, V).
  virtual void EmbeddingForward(std::span<const int32_t> tokens, ConstMatrix table, Matrix out) = 0;
  // d_table += scatter of d_out, in token order.
  virtual void EmbeddingBackward(std::span<const int32_t> tokens, ConstMatrix d_out,
                                 Matrix d_table) = 0;

  // out = x · rstd · weight per row; inverse_rms [T] is kept for the backward pass.
  virtual void RmsNormForward(ConstMatrix x, const float* weight, float epsilon, Matrix out,
                              float* inverse_rms) = 0;
  // d_x += …; d_weight [d] += …
  virtual void RmsNormBackward(ConstMatrix x, const float* weight, const float* inverse_rms,
                               ConstMatrix d_out, Matrix d_x, float* d_weight) = 0;

  // Rotates q [T, h·e] and k [T, g·e] in place, rotate-half convention, position = row mod context.
  // `inverse` applies the transposed rotation (the backward pass).
  virtual void Rope(const AttentionShape& shape, float base, bool inverse, Matrix q, Matrix k) = 0;

  // Causal attention per sequence. q, out [T, h·e]; k, v [T, g·e]; log_sum_exp [T, h] is kept for
  // the backward pass.
  virtual void AttentionForward(const AttentionShape& shape, ConstMatrix q, ConstMatrix k,
                                ConstMatrix v, Matrix out, float* log_sum_exp) = 0;
  // d_q, d_k, d_v are written (not accumulated).
  virtual void AttentionBackward(const AttentionShape& shape, ConstMatrix q, ConstMatrix k,
                                 ConstMatrix v, ConstMatrix out, const float* log_sum_exp,
                                 ConstMatrix d_out, Matrix d_q, Matrix d_k, Matrix d_v) = 0;

  // gate_up [T, 2f]: gate in columns [0, f), up in [f, 2f). out [T, f] = silu(gate) · up.
  virtual void SwigluForward(ConstMatrix gate_up, Matrix out) = 0;
  // d_gate_up [T, 2f] is written.
  virtual void SwigluBackward(ConstMatrix gate_up, ConstMatrix d_out, Matrix d_gate_up) = 0;

  // logits [T, V] are overwritten by ∂(mean loss)/∂logits when `gradient`. Returns the mean
  // cross-entropy, nat.
  virtual float CrossEntropy(std::span<const int32_t> targets, bool gradient, Matrix logits) = 0;

  // y += x, elementwise, n floats.
  virtual void Add(const float* x, float* y, int64_t n) = 0;
  virtual void Fill(float* y, float value, int64_t n) = 0;
  virtual void Copy(const float* x, float* y, int64_t n) = 0;
  // Σ x², summed in float64 in a fixed order.
  virtual double SumOfSquares(const float* x, int64_t n) = 0;

  virtual void AdamW(const AdamWStep& step, const float* gradient, float* parameters, float* m,
                     float* v, int64_t n) = 0;
  // parameters −= learning_rate · scale · gradient
  virtual void Sgd(float learning_rate, float scale, const float* gradient, float* parameters,
                   int64_t n) = 0;
};

// Plain loops in float64 inside, float32 at the border: slow, obvious, the oracle.
std::unique_ptr<Backend> CreateReferenceBackend();

// oneDNN for matrix products, own kernels for the rest. `threads` ≥ 1 bounds every team of threads.
std::unique_ptr<Backend> CreateCpuBackend(int threads);

// The GPU when there is one. Without CUDA in the build (kernels/no_cuda) or without a device:
// Unavailable, and why.
absl::StatusOr<std::unique_ptr<Backend>> CreateCudaBackend(int device);

}  // namespace skerry
