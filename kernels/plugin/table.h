// What the GPU plug-in (libskerry_cuda.so) and the programs say to each other: one function that
// returns a table of functions over plain types. No C++ class, exception or allocator crosses this
// border, so both sides may be built by different compilers.
//
// Letters and shapes as in kernels/backend.h; every pointer but those called `host` is device
// memory. Operations of one device are enqueued in order and do not
// wait; what goes wrong in one is told by the next `synchronize`, after which the device is not
// used again. One thread owns a device.
//
// A change of anything here is a new kGpuTableVersion.
#pragma once

#include <cstdint>

namespace skerry {

inline constexpr uint32_t kGpuTableVersion = 6;
inline constexpr char kGpuTableSymbol[] = "skerry_gpu_table";

struct GpuDevice;  // the plug-in's own
struct GpuLane;    // too: copies beside what the device computes (kernels/copy_lane.h)
struct GpuMark;    // too: what the device was given so far (kernels/device_mark.h)

struct GpuText {
  char text[256];  // ends in 0
};

// Row r begins at element r · step.
struct GpuTensor {
  void* values;
  int64_t rows, columns, step;
  int32_t bf16;  // 0: float32
};

struct GpuProduct {
  int32_t transpose_a, transpose_b;
  int64_t m, n, k;
  GpuTensor a, b;  // of one type
  float beta;      // 0, or 1 with a float32 c
  GpuTensor c;
};

struct GpuAttention {
  int64_t sequences, context, heads, kv_heads, head_size;
  GpuTensor q, k, v, out;
  float* log_sum_exp;  // [T, h]
  // Backward only; out and log_sum_exp are read then.
  GpuTensor d_out, d_q, d_k, d_v;
};

struct GpuRmsNorm {
  int64_t rows, width;
  const float *x, *addend, *weight;  // addend: or null
  float* sum;                        // with an addend
  float epsilon;
  GpuTensor out;
  float* inverse_rms;  // [rows]
};

struct GpuRmsNormGradient {
  int64_t rows, width;
  const float *x, *weight, *inverse_rms;
  GpuTensor d_out;
  float *d_x, *d_weight;  // added to
  GpuTensor rounded;      // the new d_x; or without values
};

struct GpuRope {
  int64_t context, head_size;
  const float *cosines, *sines;  // [context, e / 2]
  int32_t inverse;
  GpuTensor x;
};

struct GpuSwiglu {
  int64_t rows, ffn;
  GpuTensor gate_up, d_out;  // d_out: backward only
  GpuTensor out;             // backward: d_gate_up
};

// A token below 0 is in another part of the vocabulary.

// Tokens that occur, ascending, and where each occurs: places[starts[i]] … places[starts[i + 1] −
// 1], ascending.
struct GpuScatter {
  int64_t distinct, rows, width;
  const int32_t *host_tokens, *host_starts, *host_places;
  const float* d_out;  // [rows, width]
  float* d_table;
};

struct GpuCrossEntropy {
  int64_t rows, vocabulary;
  const int32_t* host_targets;
  float gradient_scale, z_loss;
  const float* logits;
  int64_t parts;       // of the vocabulary, of which logits are one; 0: they are of all
  float* statistics;   // [parts, 3, rows] of all; the call that makes them: [3, rows], its own
  GpuTensor d_logits;  // or without values; may be the memory of logits
  float* losses;       // [rows]
};

struct GpuRange {
  int64_t offset, size;
  float scale;  // of the gradient
  float keep;   // 1 − learning rate · weight decay
};

// m ← β₁·m + (1 − β₁)·s·g   v ← β₂·v + (1 − β₂)·(s·g)²   p ← keep·p − rate·m / (√v·root + ε)
// or, without m: p ← p − rate·s·g. In every range of arrays of one length.
struct GpuUpdate {
  int64_t ranges;
  const GpuRange* host_ranges;
  const float* gradient;
  float *parameters, *m, *v;
  uint16_t* rounded;  // bf16, or null
  float beta1, one_minus_beta1, beta2, one_minus_beta2, rate, root, epsilon;
};

// u = base − theta + residual [n], formed in that order; theta, residual may be null.
struct GpuDelta {
  int64_t n;
  const float *base, *theta, *residual;
};

// Codecs of compression/, by the numbers of DeltaCodec. A *symbol* form has the message's values in
// a layout that needs no entropy coding; the message itself is made of it by the host
// (compression/cuda/symbols.h).
struct GpuCodecTable {
  int64_t (*symbol_bytes)(int32_t codec, int64_t n);
  // `symbols` is device memory of symbol_bytes; *voided (device memory) becomes 1 if a value is not
  // finite or beyond the largest magnitude, and stays as it is otherwise.
  void (*encode)(GpuDevice*, int32_t codec, const GpuDelta*, uint8_t* symbols, uint32_t* voided);
  // sum [n] += weight · units of the symbols' values.
  void (*accumulate)(GpuDevice*, int32_t codec, int64_t n, const uint8_t* symbols, int64_t weight,
                     int64_t* sum);
  // values [n] ← those the symbols stand for.
  void (*decode)(GpuDevice*, int32_t codec, int64_t n, const uint8_t* symbols, float* values);
};

// How one device reaches another's memory.
struct GpuWay {
  int32_t direct;      // 1: without the host, as the driver says
  int32_t atomic;      // 1: with atomic operations: NVLink carries them, PCI Express does not
  double bytes_per_s;  // of copies, measured; 0: they fail
};

struct GpuTable {
  uint32_t version;  // kGpuTableVersion
  uint32_t bytes;    // sizeof(GpuTable)

  int32_t (*count)(GpuText* why);                   // of usable devices; 0: why there is none
  GpuDevice* (*open)(int32_t index, GpuText* why);  // null: why not
  void (*close)(GpuDevice*);
  void (*name)(GpuDevice*, GpuText* out);
  void (*profile)(GpuDevice*, GpuText* out);
  int64_t (*memory_free)(GpuDevice*);  // bytes
  // Of two different ones; waits.
  void (*measure_way)(GpuDevice* from, GpuDevice* to, GpuWay* out);
  void* (*allocate)(GpuDevice*, int64_t bytes);  // zeroed; null: no such memory
  void (*release)(GpuDevice*, void* memory);
  void (*upload)(GpuDevice*, const void* host, void* to, int64_t bytes);
  void (*download)(GpuDevice*, const void* from, void* host, int64_t bytes);  // waits
  void (*copy)(GpuDevice*, const void* from, void* to, int64_t bytes);
  // With so much host memory, which the device reaches by itself; null: there is none.
  GpuLane* (*open_lane)(GpuDevice*, int64_t bytes);
  void (*close_lane)(GpuDevice*, GpuLane*);  // waits
  void* (*lane_memory)(GpuDevice*, GpuLane*);
  // After what the device was given before; `host` is in the lane's memory. The copy's number.
  int64_t (*lane_fetch)(GpuDevice*, GpuLane*, const void* from, void* host, int64_t bytes);
  int64_t (*lane_send)(GpuDevice*, GpuLane*, const void* host, void* to, int64_t bytes);
  void (*lane_wait)(GpuDevice*, GpuLane*, int64_t copies);  // until the first so many are done
  bool (*synchronize)(GpuDevice*, GpuText* why);            // false: why the device failed
  GpuMark* (*mark)(GpuDevice*);
  void (*await_mark)(GpuDevice*, GpuMark*);  // until that is done, and ends the mark; any thread

  void (*product)(GpuDevice*, const GpuProduct*);
  void (*cast)(GpuDevice*, const GpuTensor* x, const GpuTensor* y);
  void (*embedding_forward)(GpuDevice*, const int32_t* host_tokens, int64_t rows, int64_t width,
                            const float* table, float* out);
  void (*embedding_backward)(GpuDevice*, const GpuScatter*);
  void (*rms_norm_forward)(GpuDevice*, const GpuRmsNorm*);
  void (*rms_norm_backward)(GpuDevice*, const GpuRmsNormGradient*);
  void (*rope)(GpuDevice*, const GpuRope*);
  void (*add_bias)(GpuDevice*, const float* bias, const GpuTensor* y);
  void (*sum_rows)(GpuDevice*, const GpuTensor* x, float* sums);
  void (*attention_forward)(GpuDevice*, const GpuAttention*);
  void (*attention_backward)(GpuDevice*, const GpuAttention*);
  void (*swiglu_forward)(GpuDevice*, const GpuSwiglu*);
  void (*swiglu_backward)(GpuDevice*, const GpuSwiglu*);
  void (*cross_entropy)(GpuDevice*, const GpuCrossEntropy*);
  void (*logit_statistics)(GpuDevice*, const GpuCrossEntropy*);
  void (*add)(GpuDevice*, const float* x, float* y, int64_t n);
  void (*fill)(GpuDevice*, float* y, float value, int64_t n);
  // host_sums [ranges]; waits.
  void (*sums_of_squares)(GpuDevice*, const float* x, const GpuRange* host_ranges, int64_t ranges,
                          double* host_sums);
  void (*update)(GpuDevice*, const GpuUpdate*);

  const GpuCodecTable* codecs;
};

// The exported function. `wanted` is the caller's version; a plug-in of another one may return
// null, or a table whose `version` says so.
using GpuTableFunction = const GpuTable* (*)(uint32_t wanted);

}  // namespace skerry
