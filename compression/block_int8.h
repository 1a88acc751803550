// Block int8 with power-of-two scales.
//
//   ⌈n / 256⌉ scale bytes, e + 40 in [0, 44] · n integers k        D = k·2^e
//
// Values are rounded to nearest even multiples. The scale of a block is the smallest 2^e, e ≥ −40,
// at which its largest magnitude rounds to at most 127; so 64 ≤ max |k| ≤ 127 unless e = −40, what
// was decoded encodes to itself, and |u − D| ≤ 2^e / 2 with 2^e ≤ max(absmax / 63.75, 2^-40).
#pragma once

#include "compression/codec.h"

namespace skerry {

class BlockInt8Codec final : public Codec {
 public:
  explicit BlockInt8Codec(const CodecLoops& loops) : loops_(loops) {}

  int64_t EncodedSizeMax(int64_t n) const override;
  void AccumulateRange(std::span<const uint8_t> bytes, int64_t n, int64_t first, int64_t weight,
                       std::span<int64_t> sum) const override;
  void DecodeRange(std::span<const uint8_t> bytes, int64_t n, int64_t first,
                   std::span<float> values) const override;

 private:
  std::optional<size_t> EncodeInto(const DeltaSource& source,
                                   std::span<uint8_t> out) const override;
  absl::Status CheckContent(std::span<const uint8_t> bytes, int64_t n) const override;

  const CodecLoops& loops_;
};

}  // namespace skerry
