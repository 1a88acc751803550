// The inner loops of the codecs and of exact sums: one source (value_loops.h, mark_loops.h,
// mask_loops.h, product_loops.h, select_loops.h), compiled for the baseline, AVX2 and AVX-512,
// chosen at run time.
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
  const uint16_t* halves = nullptr;

  static LoopSource Of(const DeltaSource& source, size_t first) {
    return {source.base.data() + first,
            source.theta.empty() ? nullptr : source.theta.data() + first,
            source.residual.empty() ? nullptr : source.residual.data() + first,
            source.halves.empty() ? nullptr : source.halves.data() + first};
  }
  LoopSource At(size_t first) const {
    return {base + first, theta == nullptr ? nullptr : theta + first,
            residual == nullptr ? nullptr : residual + first,
            halves == nullptr ? nullptr : halves + first};
  }
};

// Memory of what is encoded later, asked for a line of each array at a time, spread over the
// computing in between: while nothing is read the processor's own prefetching pauses, and more
// lines at once than it can wait for block what is read now. Past the end of an array it does no
// harm.
class ReadAhead {
 public:
  static constexpr size_t kLine = 16;      // values
  static constexpr size_t kValues = 1024;  // ahead

  // From `values` after the beginning of `source` on.
  explicit ReadAhead(const LoopSource& source, size_t values = kValues)
      : base_(At(source.base, values)),
        theta_(At(source.theta == nullptr ? source.base : source.theta, values)),
        residual_(source.halves != nullptr     ? At(source.halves, values)
                  : source.residual != nullptr ? At(source.residual, values)
                                               : base_),
        residual_step_(source.halves == nullptr ? step_ : step_ / 2) {}

  // For what is computed from nothing in memory.
  static ReadAhead Nothing() {
    static constexpr float kNowhere = 0;
    ReadAhead ahead({&kNowhere}, 0);
    ahead.step_ = ahead.residual_step_ = 0;
    return ahead;
  }

  // Inlined, or a call of what only prefetches is removed as without effect.
  [[gnu::always_inline]] void Line() {
    __builtin_prefetch(reinterpret_cast<const void*>(base_));
    __builtin_prefetch(reinterpret_cast<const void*>(theta_));
    __builtin_prefetch(reinterpret_cast<const void*>(residual_));
    base_ += step_;
    theta_ += step_;
    residual_ += residual_step_;
  }

 private:
  // Addresses, as no pointer may be so far past its array.
  template <typename T>
  static uintptr_t At(const T* from, size_t values) {
    return reinterpret_cast<uintptr_t>(from) + values * sizeof(T);
  }

  size_t step_ = kLine * sizeof(float);
  uintptr_t base_, theta_, residual_;
  size_t residual_step_;
};

// What of a block ternary sends, as it finds it (ternary.h): masks of a block's places, how many
// there are, the step.
struct TernaryMarks {
  uint64_t* nonzero;
  uint64_t* minus;
  size_t ones = 0;
  uint8_t step = 0;
};

// A tile of top-k: u, the mask of those that reach a threshold, their number.
struct TileMarks {
  float* u;
  uint64_t* mask;
  size_t reach = 0;
};

// What is formed of a tile asks for three lines of four; the rest of them while it is selected from
// and packed, when nothing is read.
inline constexpr size_t kFormLines = 3;

inline constexpr size_t kPlacesSlack = 3;

// Columns of column_maxima.
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
  // What a coarse codec sends of a block of n ≤ kCodecBlock values; returns as above, and where a
  // value is void nothing else means anything. Masks are written whole words at a time. Sign's step
  // is the nearest to the mean of |u|, in float32: 16 sums of every 16th, halved together four
  // times.
  uint32_t (*mark_ternary)(const LoopSource& source, size_t n, TernaryMarks* marks);
  uint32_t (*mark_sign)(const LoopSource& source, size_t n, uint64_t* minus, uint8_t* step,
                        ReadAhead* ahead);
  // u of n values, and which reach a threshold (by its bits, > 0); returns as above.
  uint32_t (*form_above)(const LoopSource& source, size_t n, uint32_t threshold_bits,
                         TileMarks* marks, ReadAhead* ahead);
  // maxima[c] = the largest magnitude bits of the values i with i mod kMaximaColumns = c, 0 if
  // there are none.
  void (*column_maxima)(const float* u, size_t n, uint32_t* maxima);

  // The mask of |u| ≥ threshold (given by its bits, > 0), whose size is returned.
  size_t (*at_least)(const float* u, size_t n, uint32_t threshold_bits, uint64_t* mask);
  // The same of magnitudes by their bits, and the sum of those, of normal ones whose sums in any
  // order are exact.
  size_t (*magnitudes_at_least)(const uint32_t* magnitudes, size_t n, uint32_t threshold_bits,
                                uint64_t* mask);
  double (*sum_at_least)(const uint32_t* magnitudes, size_t n, uint32_t threshold_bits);
  // The places set in a mask, ascending; returns their number. Writes up to kPlacesSlack more.
  size_t (*list_places)(const uint64_t* mask, size_t words, uint16_t* places, ReadAhead* ahead);
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
  // or four streams at once: a stream's words depend on each other, those of others do not.
  void (*put_words)(const MaskCode& code, const uint64_t* mask, size_t bytes, BitWriter* writer,
                    ReadAhead* ahead);
  void (*take_words)(const MaskCode& code, size_t bytes, BitReader* reader, uint64_t* mask);
  // Asks for `lines` lines at `ahead` to write to.
  void (*take_two)(const MaskCode* const* codes, BitReader* readers, uint64_t* const* masks,
                   const char* ahead, size_t lines);
  void (*take_four)(const MaskCode* const* codes, BitReader* readers, uint64_t* const* masks,
                    const char* ahead, size_t lines);
  // The `words` words of 64 bits before `end`, the last bit first.
  void (*reverse_bits)(const uint8_t* end, size_t words, uint8_t* out);

  // The k-th largest (1 ≤ k ≤ n) of values below 2^31, of which it is known to reach `floor`.
  uint32_t (*kth_largest)(const uint32_t* values, size_t n, size_t k, uint32_t floor);

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
