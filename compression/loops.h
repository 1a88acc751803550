// The inner loops of the codecs and of exact sums: one source (value_loops.h, mask_loops.h,
// product_loops.h), compiled for the baseline, AVX2 and AVX-512, chosen at run time.
//
// Every loop is element-wise IEEE arithmetic without contraction, or integer, or a sum whose order
// is written down: all variants give equal bits. Pointers cover `n` elements; outputs must not
// overlap inputs. `scales` holds one byte per block of kCodecBlock values, the last block may be
// short. A *mask* is ⌈n / 64⌉ words with bit i of word i / 64 for value i, zeros past the end.
#pragma once

#include <cstddef>
#include <cstdint>

#include "compression/bit_stream.h"
#include "compression/codec.h"
#include "compression/mask_code.h"

namespace skerry {

// DeltaSource as raw pointers; null leaves a term out.
struct LoopSource {
  const float* base = nullptr;
  const float* theta = nullptr;
  const float* residual = nullptr;

  static LoopSource Of(const DeltaSource& source, size_t first) {
    return {source.base.data() + first,
            source.theta.empty() ? nullptr : source.theta.data() + first,
            source.residual.empty() ? nullptr : source.residual.data() + first};
  }
  LoopSource At(size_t first) const {
    return {base + first, theta == nullptr ? nullptr : theta + first,
            residual == nullptr ? nullptr : residual + first};
  }
};

// Columns of form_rows.
inline constexpr size_t kMaximaColumns = 256;

struct CodecLoops {
  const char* name;

  // u → block scales and integers (block_int8.h, block_int4.h). False: a value is NaN, infinite or
  // too large. Then `sum += weight · units` and the values of such blocks.
  bool (*quantise_int8)(const LoopSource& source, size_t n, uint8_t* scales, int8_t* integers);
  void (*accumulate_int8)(const uint8_t* scales, const int8_t* integers, size_t n, int64_t weight,
                          int64_t* sum);
  void (*decode_int8)(const uint8_t* scales, const int8_t* integers, size_t n, float* values);
  bool (*quantise_int4)(const LoopSource& source, size_t n, uint8_t* scales, uint8_t* pairs);
  void (*accumulate_int4)(const uint8_t* scales, const uint8_t* pairs, size_t n, int64_t weight,
                          int64_t* sum);
  void (*decode_int4)(const uint8_t* scales, const uint8_t* pairs, size_t n, float* values);

  // u → the nearest multiples of the quantum, ties to even, never −0. False as above.
  bool (*round_to_quantum)(const LoopSource& source, size_t n, float* values);
  // u → those, rounded again to the upper half of a float32, ties to even. False as above.
  bool (*round_to_bf16)(const LoopSource& source, size_t n, uint16_t* halves);
  void (*widen_bf16)(const uint16_t* halves, size_t n, float* values);
  void (*accumulate_plain)(const float* values, size_t n, int64_t weight, int64_t* sum);
  // Whether all values are finite and at most kMagnitudeMax.
  bool (*in_range)(const float* values, size_t n);
  // mean[i] = float(double(sum[i]) · scale), each conversion correctly rounded.
  void (*scale_sum)(const int64_t* sum, size_t n, double scale, float* mean);

  // Σ a·b: 16 sums of every 16th, halved together four times.
  double (*product)(const double* a, const double* b, size_t n);
  // The smaller of the two values to `low`, the larger to `high`.
  void (*exchange)(float* low, float* high, size_t n);

  // u, and the bits of its largest magnitude: above those of kMagnitudeMax when a value is NaN,
  // infinite or too large.
  uint32_t (*form_delta)(const LoopSource& source, size_t n, float* u);
  // The same, and maxima[c] = the largest magnitude bits of the values i with i mod kMaximaColumns
  // = c, 0 if there are none.
  uint32_t (*form_rows)(const LoopSource& source, size_t n, float* u, uint32_t* maxima);
  // Asks for the memory of a block at `source` that is formed next.
  void (*fetch)(const LoopSource& source);
  // Σ |u| in float32: 16 sums of every 16th, halved together four times.
  float (*magnitude_sum)(const float* u, size_t n);

  // Masks of |u| ≥ threshold (given by its bits, > 0), whose size is returned, and of the sign
  // bits.
  size_t (*at_least)(const float* u, size_t n, uint32_t threshold_bits, uint64_t* mask);
  void (*negative)(const float* u, size_t n, uint64_t* mask);
  // The bits of `mask` at the places set in `select`, dense from bit 0 of `packed` on; returns
  // their number. `packed` has room for `words` words. And back.
  size_t (*pack_bits)(const uint64_t* mask, const uint64_t* select, size_t words, uint64_t* packed);
  void (*unpack_bits)(const uint64_t* packed, const uint64_t* select, size_t words, uint64_t* mask);
  // The value +step or −step where `nonzero`, by `minus`: added to the sum, or written (else 0).
  void (*accumulate_signed)(const uint64_t* nonzero, const uint64_t* minus, size_t n, int64_t step,
                            int64_t* sum);
  void (*decode_signed)(const uint64_t* nonzero, const uint64_t* minus, size_t n, float step,
                        float* values);

  // The words of the first `bytes` bytes of a mask, `bytes` ≤ 32; and back, for the blocks of two
  // streams at once: a stream's words depend on each other, those of two streams do not.
  void (*put_words)(const MaskCode& code, const uint64_t* mask, size_t bytes, BitWriter* writer);
  void (*take_words)(const MaskCode& code, size_t bytes, BitReader* reader, uint64_t* mask);
  // Asks for `lines` lines at `ahead` to write to.
  void (*take_two)(const MaskCode* const* codes, BitReader* readers, uint64_t* const* masks,
                   const char* ahead, size_t lines);

  // The k-th largest (1 ≤ k ≤ n) of values below 2^31, its `dropped` lowest bits cleared.
  uint32_t (*kth_largest)(const uint32_t* values, size_t n, size_t k, int dropped);

  // Σ a·b in float32: 16 sums of every 16th, halved together four times.
  float (*dot)(const float* a, const float* b, size_t n);
  // y += factor · a
  void (*add_scaled)(float factor, const float* a, size_t n, float* y);
  // values = Σ_k factors[k] · (row k of `rows`, `stride` apart), in this order.
  void (*combine)(const float* factors, const int8_t* rows, size_t stride, size_t rank, size_t n,
                  float* values);
};

const CodecLoops& BaselineLoops();

// Null on a processor without them.
const CodecLoops* Avx2Loops();
const CodecLoops* Avx512Loops();

// The fastest this processor has.
const CodecLoops& BestLoops();

}  // namespace skerry
