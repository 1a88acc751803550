// Own kernels of the CPU backend: everything but some matrix products, once per instruction set.
//
// The bodies (body/*.h) are written over a vector of lanes and compiled into one file per
// instruction set, each with its own compiler flags. Those files define nothing but one KernelTable
// and functions of internal linkage, and use no std:: templates: otherwise the linker might keep an
// AVX2 copy of a shared inline function for everybody, and old processors would die of it. For the
// same reason this header has plain pointers and nothing else.
//
// Letters as in backend.h. T is how activations are stored: float, or Bf16 with float32 arithmetic
// inside. Matrices are row-major; `step` is from row to row. One thread, no allocation: scratch
// comes from the caller, 64-byte aligned, contents arbitrary. Every kernel gives the same bits on
// every call. Kernels that go by rows, or by (sequence, kv head), take a part of them: the backend
// cuts.
#pragma once

#include <cstdint>

#include "kernels/dtype.h"

namespace skerry {

struct AttentionSizes {
  int64_t sequences, context, heads, kv_heads, head_size;
};

// Units [first, last) of sequences · kv_heads, a kv head with its group of heads each.
struct AttentionUnits {
  int64_t first, last;
};

template <typename T>
struct AttentionForwardArgs {
  AttentionSizes sizes;
  const T *q, *k, *v;
  int64_t q_step, kv_step;
  T* out;
  int64_t out_step;
  float* log_sum_exp;  // [T, h]
  float* scratch;      // attention_scratch(sizes) floats
};

template <typename T>
struct AttentionBackwardArgs {
  AttentionSizes sizes;
  const T *q, *k, *v;
  int64_t q_step, kv_step;
  const T* out;
  const float* log_sum_exp;
  const T* d_out;
  int64_t out_step;  // of out and d_out
  T *d_q, *d_k, *d_v;
  int64_t d_q_step, d_kv_step;
  float* scratch;  // attention_scratch(sizes) floats
};

template <typename T>
struct RmsNormForwardArgs {
  int64_t rows, width;
  const float *x, *addend;  // addend, sum: may be null
  float* sum;
  const float* weight;
  float epsilon;
  T* out;  // dense
  float* inverse_rms;
};

template <typename T>
struct RmsNormBackwardArgs {
  int64_t rows, width;
  const float *x, *weight, *inverse_rms;
  const T* d_out;
  float* d_x;       // added to
  T* rounded;       // may be null
  float* d_weight;  // added to
};

template <typename T>
struct RopeArgs {
  int64_t rows, first_row, columns, step, context, head_size;
  const float *cosines, *sines;  // [context, e/2]
  bool inverse;
  T* x;  // row first_row; in place
};

// Of each row the largest logit, Σ e^(logit − largest) and the target's logit; here and below a
// target below 0 is in another part of the vocabulary.
struct LogitStatisticsArgs {
  int64_t rows, vocabulary;
  const int32_t* targets;
  const float* logits;
  float *tops, *sums, *aims;
};

template <typename T>
struct CrossEntropyArgs {
  int64_t rows, vocabulary;
  const int32_t* targets;
  float* logits;  // arbitrary afterwards where there is a gradient
  T* d_logits;    // null: no gradient; may be `logits`
  float scale, z_loss;
  const float* statistics;  // of all parts, [parts, 3, step], from the first of these rows on
  int64_t parts, step;      // parts: 0 where there is nothing but these logits
  float* losses;
};

// Coefficients of one AdamW step, rounded once from float64:
//   m ← β₁·m + (1 − β₁)·s·g    v ← β₂·v + (1 − β₂)·(s·g)²    p ← keep·p − rate·m / (√v·root + ε)
// |m| < 2⁻⁵⁴ and v < 2⁻¹²⁴ become zero, |s·g| < 2⁻⁵⁷ counts as zero: no denormals.
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

// A factor of a product, row-major or, if transposed, column-major.
struct ProductFactor {
  const void* values;
  int64_t step;
  bool transposed;
};

// c [rows, columns] (+)= a [rows, depth] · b [depth, columns]
inline constexpr int64_t kProductColumns = 1024;
struct ProductArgs {
  int64_t rows, columns, depth;  // columns ≤ kProductColumns
  ProductFactor a;
  const float* panels;  // b, as pack_factor left it
  void* c;
  int64_t c_step;
  DType c_type;  // float32, or the factors' without `adds`
  bool adds;
  float* scratch;  // ProductKernels::scratch floats
};

// Products of factors of one type, where own ones are faster than the library's
// (tiled_products.h).
struct ProductKernels {
  DType type;          // of factors
  int64_t panel;       // columns of b that are packed together
  int64_t depth_step;  // panels are packed to a multiple of it
  int64_t scratch;     // floats
  // Rows of a that are best multiplied by one call where panels are read once for few rows of a,
  // and so are best kept in the second cache; 0 where they are read once for many.
  int64_t slice_rows;
  // Where m, n or k is smaller, the library is faster.
  int64_t side_least;
  // Also where a is not transposed; else gradients of weights only.
  bool of_rows_too;
  // b [depth, columns] to panels of so many columns each, [columns/panel][depth][panel].
  void (*pack_factor)(const ProductFactor& b, int64_t columns, int64_t depth, float* panels);
  void (*multiply_packed)(const ProductArgs& args);
};

// What touches activations, for one way to store them.
template <typename T>
struct StorageKernels {
  int64_t (*attention_scratch)(const AttentionSizes& sizes);  // floats; the larger of both passes
  void (*attention_forward)(const AttentionForwardArgs<T>& args, const AttentionUnits& units);
  void (*attention_backward)(const AttentionBackwardArgs<T>& args, const AttentionUnits& units);
  void (*rms_norm_forward)(const RmsNormForwardArgs<T>& args);
  void (*rms_norm_backward)(const RmsNormBackwardArgs<T>& args);
  void (*rope)(const RopeArgs<T>& args);
  // One row of gate_up [2f] and of out [f].
  void (*swiglu_forward)(const T* gate_up, T* out, int64_t ffn);
  void (*swiglu_backward)(const T* gate_up, const T* d_out, T* d_gate_up, int64_t ffn);
  void (*cross_entropy)(const CrossEntropyArgs<T>& args);
  void (*round)(const float* x, T* y, int64_t n);
  void (*widen)(const T* x, float* y, int64_t n);
};

struct KernelTable {
  const char* name;  // "AVX2"
  StorageKernels<float> f32;
  void (*logit_statistics)(const LogitStatisticsArgs& args);
  void (*add)(const float* x, float* y, int64_t n);  // y += x
  double (*sum_of_squares)(const float* x, int64_t n);
  void (*adamw)(const AdamWArgs& args);
  void (*sgd)(float rate, const float* gradient, float* parameters, int64_t n);
  const ProductKernels* products;       // of float32; null: the library multiplies all
  const ProductKernels* bf16_products;  // likewise
  const StorageKernels<Bf16>* bf16;     // null: this instruction set has none
};

extern const KernelTable kPortableKernels;    // whatever the compiler makes of vectors of four
extern const KernelTable kAvx2Kernels;        // these only on x86, and only if the processor has it
extern const KernelTable kAvx512Kernels;      // F, BW, DQ, VL
extern const KernelTable kAvx512Bf16Kernels;  // the same with bf16
extern const KernelTable kAmxKernels;         // the same with AMX for products in bf16

// Raised with every change of a bit that own kernels make, or of which products are theirs: nodes
// of one numeric profile are held to the same bits.
inline constexpr int kKernelRevision = 3;

// "amd", "intel" or "others": rough reciprocals, of which bf16 makes use, differ by who made them.
const char* ProcessorMaker();

// What this processor runs fastest.
const KernelTable& BestKernels();

// All that this processor can run, the best first; ends with null. For tests and `skerry-node
// bench`.
const KernelTable* const* RunnableKernelTables();

// Whether this processor has AMX with bf16 and the system lets this process use it.
bool HasAmx();

}  // namespace skerry
