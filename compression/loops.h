// The inner loops of the codecs and of exact sums, once in source, compiled for the baseline and
// for AVX2, chosen at run time.
//
// Every loop is element-wise IEEE arithmetic without contraction, or integer: all variants give
// equal bits. Pointers cover `n` elements; outputs must not overlap inputs. `scales` holds one byte
// per block of kCodecBlock values, the last block may be short.
#pragma once

#include <cstddef>
#include <cstdint>

#include "compression/codec.h"

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
};

struct CodecLoops {
  // u → block scales and integers (block_int8.h). False: a value is NaN, infinite or too large.
  bool (*quantise_int8)(const LoopSource& source, size_t n, uint8_t* scales, int8_t* integers);
  // sum += weight · units.
  void (*accumulate_int8)(const uint8_t* scales, const int8_t* integers, size_t n, int64_t weight,
                          int64_t* sum);
  void (*decode_int8)(const uint8_t* scales, const int8_t* integers, size_t n, float* values);
  // u → the nearest multiples of the quantum, ties to even, never −0. False as above.
  bool (*round_to_quantum)(const LoopSource& source, size_t n, float* values);
  void (*accumulate_plain)(const float* values, size_t n, int64_t weight, int64_t* sum);
  // Whether all values are finite and at most kMagnitudeMax.
  bool (*in_range)(const float* values, size_t n);
  // mean[i] = float(double(sum[i]) · scale), each conversion correctly rounded.
  void (*scale_sum)(const int64_t* sum, size_t n, double scale, float* mean);
};

const CodecLoops& BaselineLoops();

// Null on a processor without AVX2.
const CodecLoops* Avx2Loops();

// The fastest this processor has.
const CodecLoops& BestLoops();

}  // namespace skerry
