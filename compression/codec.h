// Codecs of parameter deltas: u [n] float32 → a message → D(msg) [n].
//
//   name     a message holds                                             bits a value
//   none     float32, rounded to a multiple of the quantum 2^-40         32           plain.h
//   bf16     the same, rounded again to the upper 16 bits                16           bf16.h
//   int8     k · 2^e, |k| ≤ 127, one e for 256 values                    8.03         block_int8.h
//   int4     k · 2^e, |k| ≤ 7, one e for 256 values                      4.03         block_int4.h
//   ternary  −s, 0 or s, one s for 256 values, entropy-coded             ≈ 1, ≤ 2.06  ternary.h
//   sign     −s or s, one s for 256 values                               1.03         sign.h
//   topk     the 64 largest of 4096 values, each in 2 bits at one of     ≈ 0.153,     top_k.h
//            two magnitudes, their places Rice-coded                     ≤ 0.160
//   lowrank  Σ_k p_k q_kᵀ of each matrix, p and q in int8                as set       low_rank.h
//
// mixed.h puts several of them into one message, tensor by tensor.
//
// Ternary and topk have a largest length, which is checked before anything else; the others a fixed
// one. Decoded values lie on the grid of fixed_point.h, so sums of messages are
// exact. Encoding is idempotent: D(msg) encodes to msg again (but see low_rank.h).
//
// Errors. Encode: InvalidArgument for a value that is not finite or beyond kMagnitudeMax; then the
// message is void and must not be sent. Decoding is total: any bytes give either InvalidArgument
// (impossible length, scale outside the window, a place outside its tile, value not finite or too
// large) with nothing written, or finite values at most 2^(kUnitBits + kQuantumExponent). It never
// allocates.
//
// Codecs are stateless and immutable: any number of threads may share one (but encode on a GPU with
// its owner alone, device_codecs.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "absl/status/status.h"
#include "common/bytes.h"
#include "common/run_config.h"

namespace skerry {

// Values per block of a block code; ranges of messages start at multiples of it.
inline constexpr int64_t kCodecBlock = 256;

// u = base − theta + residual, formed on the fly in that order, in float32. Spans of equal size;
// `theta` or the residual may be empty, which leaves the term out (not the same as zeros: −0).
struct DeltaSource {
  std::span<const float> base;
  std::span<const float> theta = {};
  // One of them at most; `halves` are bf16: the upper halves of float32 values.
  std::span<const float> residual = {};
  std::span<const uint16_t> halves = {};

  DeltaSource Part(size_t first, size_t count) const {
    const auto part = [&](auto all) { return all.empty() ? all : all.subspan(first, count); };
    return {base.subspan(first, count), part(theta), part(residual), part(halves)};
  }
};

class Codec {
 public:
  virtual ~Codec() = default;

  // Bounds of the length in bytes of a message of n ≥ 0 values; equal for a fixed-length codec.
  virtual int64_t EncodedSizeMin(int64_t n) const { return EncodedSizeMax(n); }
  virtual int64_t EncodedSizeMax(int64_t n) const = 0;

  // Replaces *out by the message of u; *out is unspecified after an error.
  absl::Status Encode(std::span<const float> u, Bytes* out) const;

  // The same for the fused difference: one pass over memory, nothing but the message written.
  absl::Status EncodeDelta(const DeltaSource& source, Bytes* out) const;

  // Whether `bytes` is a message of n values; all the decoding errors there are.
  absl::Status Check(std::span<const uint8_t> bytes, int64_t n) const;

  // sum[i] += weight · units of D(msg)[i]. `weight` in [1, kWeightTotalMax]; the caller keeps the
  // total weight within kWeightTotalMax.
  absl::Status DecodeAccumulate(std::span<const uint8_t> bytes, int64_t weight,
                                std::span<int64_t> sum) const;

  // values ← D(msg).
  absl::Status Decode(std::span<const uint8_t> bytes, std::span<float> values) const;

  // Both for the values [first, first + size) of a message that passed Check(bytes, n), for callers
  // that work tile by tile. `first` is a multiple of kCodecBlock, first + size one too or n.
  virtual void AccumulateRange(std::span<const uint8_t> bytes, int64_t n, int64_t first,
                               int64_t weight, std::span<int64_t> sum) const = 0;
  virtual void DecodeRange(std::span<const uint8_t> bytes, int64_t n, int64_t first,
                           std::span<float> values) const = 0;

 private:
  friend class MixedCodec;   // encodes its parts in place
  friend class DeviceCodec;  // checks as another codec does

  absl::Status CheckSize(std::span<const uint8_t> bytes, int64_t n) const;

  // `out` is EncodedSizeMax(n) bytes; returns how many the message took. None: a value is not
  // finite or too large.
  virtual std::optional<size_t> EncodeInto(const DeltaSource& source,
                                           std::span<uint8_t> out) const = 0;

  // Check for bytes whose length is within the bounds.
  virtual absl::Status CheckContent(std::span<const uint8_t> bytes, int64_t n) const = 0;

  // CheckContent, then AccumulateRange of all values; in one pass where a codec can.
  virtual absl::Status CheckAndAccumulate(std::span<const uint8_t> bytes, int64_t weight,
                                          std::span<int64_t> sum) const;
};

// The codec a run configuration names, with the fastest loops of this processor. Lives as long as
// the program. CHECK: at most kLastShapeless; a LowRankCodec is made for what it encodes.
const Codec& CodecFor(DeltaCodec kind);

// The same with given loops (loops.h), for tests and benchmarks.
struct CodecLoops;
std::unique_ptr<const Codec> MakeCodec(DeltaCodec kind, const CodecLoops& loops);

}  // namespace skerry
