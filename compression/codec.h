// Codecs of parameter deltas: u [n] float32 → a message of exactly EncodedSize(n) bytes → D(msg)
// [n].
//
//   none   n float32, little-endian, each rounded to a multiple of the quantum 2^-40 (exact from
//          2^-16 up)                                            size 4·n
//   int8   blocks of 256 values with one power-of-two scale 2^e each, values rounded to nearest
//          even multiples k·2^e, |k| ≤ 127; first the scale bytes (e + 40 in [0, 44]), then the k
//                                                               size n + ⌈n / 256⌉
//
// Decoded values lie on the grid of fixed_point.h, so sums of messages are exact. The error of one
// value is |u − D| ≤ 2^-41 (none), or ≤ 2^e / 2 with 2^e ≤ max(absmax of its block / 63.75, 2^-40)
// (int8). Encoding is idempotent: D(msg) encodes to msg again.
//
// Errors. Encode: InvalidArgument for a value that is not finite or beyond kMagnitudeMax; then the
// message is void and must not be sent. Decoding is total: any bytes give either InvalidArgument
// (wrong length, scale outside the window, value not finite or too large) with nothing written, or
// finite values.
//
// Codecs are stateless and immutable: any number of threads may share one.
#pragma once

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "common/bytes.h"
#include "common/run_config.h"

namespace skerry {

// Values per block of a block code; ranges of messages start at multiples of it.
inline constexpr int64_t kCodecBlock = 256;

// u = base − theta + residual, formed on the fly in that order, in float32. Spans of equal size;
// `theta` or `residual` may be empty, which leaves the term out (not the same as zeros: −0).
struct DeltaSource {
  std::span<const float> base;
  std::span<const float> theta = {};
  std::span<const float> residual = {};
};

class Codec {
 public:
  virtual ~Codec() = default;

  // Exact length in bytes of a message of n ≥ 0 values.
  virtual int64_t EncodedSize(int64_t n) const = 0;

  // Replaces *out by the message of u; *out is unspecified after an error.
  absl::Status Encode(std::span<const float> u, Bytes* out) const;

  // The same for the fused difference: one pass over memory, nothing but the message written.
  absl::Status EncodeDelta(const DeltaSource& source, Bytes* out) const;

  // Whether `bytes` is a message of n values; all the decoding errors there are.
  virtual absl::Status Check(std::span<const uint8_t> bytes, int64_t n) const = 0;

  // sum[i] += weight · units of D(msg)[i]. `weight` in [1, kWeightTotalMax]; the caller keeps the
  // total weight within kWeightTotalMax.
  absl::Status DecodeAccumulate(std::span<const uint8_t> bytes, int64_t weight,
                                std::span<int64_t> sum) const;

  // values ← D(msg).
  absl::Status Decode(std::span<const uint8_t> bytes, std::span<float> values) const;

  // Both for the values [first, first + size) of a message that passed Check(bytes, n), for callers
  // that work tile by tile. `first` is a multiple of kCodecBlock.
  virtual void AccumulateRange(std::span<const uint8_t> bytes, int64_t n, int64_t first,
                               int64_t weight, std::span<int64_t> sum) const = 0;
  virtual void DecodeRange(std::span<const uint8_t> bytes, int64_t n, int64_t first,
                           std::span<float> values) const = 0;

 private:
  // `out` is EncodedSize(n) bytes. False: a value is not finite or too large.
  virtual bool EncodeInto(const DeltaSource& source, std::span<uint8_t> out) const = 0;
};

// The codec a run configuration names. Lives as long as the program.
const Codec& CodecFor(DeltaCodec kind);

}  // namespace skerry
