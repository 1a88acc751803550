// Own kernels of the CPU backend: everything but matrix products, once per instruction set.
//
// The bodies (body/*.h) are written over a vector of lanes and compiled into one file per
// instruction set, each with its own compiler flags. Those files define nothing but one KernelTable
// and functions of internal linkage, and use no std:: templates: otherwise the linker might keep an
// AVX2 copy of a shared inline function for everybody, and old processors would die of it. For the
// same reason this header has plain pointers and nothing else.
//
// Letters as in backend.h. Matrices are dense and row-major; columns are given where a kernel needs
// them. One thread, no allocation: scratch comes from the caller, 64-byte aligned, contents
// arbitrary. Every kernel gives the same bits on every call.
#pragma once

#include <cstdint>

namespace skerry {

struct AttentionSizes {
  int64_t sequences, context, heads, kv_heads, head_size;
};

struct AttentionForwardArgs {
  AttentionSizes sizes;
  const float *q, *k, *v;
  float* out;
  float* log_sum_exp;  // [T, h]
  float* scratch;      // attention_scratch(sizes) floats
};

struct AttentionBackwardArgs {
  AttentionSizes sizes;
  const float *q, *k, *v, *out;
  const float* log_sum_exp;
  const float* d_out;
  float *d_q, *d_k, *d_v;
  float* scratch;  // attention_scratch(sizes) floats
};

struct RmsNormArgs {
  int64_t rows, width;
  const float *x, *weight, *d_out;  // d_out: backward only
  float epsilon;                    // forward only
  float* inverse_rms;               // [rows]; written forward, read backward
  float *out, *d_weight;            // forward: out; backward: out is d_x, added to, like d_weight
};

struct RopeArgs {
  int64_t rows, columns, context, head_size;
  const float *cosines, *sines;  // [context, e/2]
  bool inverse;
  float* x;  // [rows, columns], in place
};

struct CrossEntropyArgs {
  int64_t rows, vocabulary;
  const int32_t* targets;
  float* logits;
  bool gradient;
};

// Coefficients of one AdamW step, rounded once from float64:
//   m ← β₁·m + (1 − β₁)·s·g    v ← β₂·v + (1 − β₂)·(s·g)²    p ← keep·p − rate·m / (√v·root + ε)
struct AdamWArgs {
  int64_t n;
  const float* gradient;
  float *parameters, *m, *v;
  float scale, beta1, one_minus_beta1, beta2, one_minus_beta2;
  float keep;  // 1 − learning rate · weight decay
  float rate;  // learning rate / (1 − β₁ᵗ)
  float root;  // 1 / √(1 − β₂ᵗ)
  float epsilon;
};

struct KernelTable {
  const char* name;  // "AVX2"

  int64_t (*attention_scratch)(const AttentionSizes& sizes);
  void (*attention_forward)(const AttentionForwardArgs& args);
  void (*attention_backward)(const AttentionBackwardArgs& args);
  void (*rms_norm_forward)(const RmsNormArgs& args);
  void (*rms_norm_backward)(const RmsNormArgs& args);
  void (*rope)(const RopeArgs& args);
  // One row of gate_up [2f] and of out [f].
  void (*swiglu_forward)(const float* gate_up, float* out, int64_t ffn);
  void (*swiglu_backward)(const float* gate_up, const float* d_out, float* d_gate_up, int64_t ffn);
  double (*cross_entropy)(const CrossEntropyArgs& args);  // Σ over rows of the loss, nat
  void (*add)(const float* x, float* y, int64_t n);       // y += x
  double (*sum_of_squares)(const float* x, int64_t n);
  void (*adamw)(const AdamWArgs& args);
  void (*sgd)(float rate, const float* gradient, float* parameters, int64_t n);
};

extern const KernelTable kPortableKernels;  // whatever the compiler makes of vectors of four
extern const KernelTable kAvx2Kernels;      // only on x86, and only if the processor has it

// What this processor runs fastest.
const KernelTable& BestKernels();

}  // namespace skerry
