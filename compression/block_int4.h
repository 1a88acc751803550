// Block int4 with power-of-two scales.
//
//   ⌈n / 256⌉ scale bytes, e + 40 in [0, 48] · ⌈n / 2⌉ pairs of integers k        D = k·2^e
//
// A block of c values has h = ⌈c / 2⌉ pairs: pair i holds value i in its low half and value i + h
// in its high half (0 past the end), so that both halves are vectors. Values are rounded to nearest
// even multiples; the scale is the smallest 2^e, −40 ≤ e ≤ 8, at which the largest magnitude rounds
// to at most 7. Hence |u − D| ≤ 2^e / 2 with 2^e ≤ max(absmax / 3.75, 2^-40), but for values beyond
// 1920, which become 1792.
#pragma once

#include "compression/codec.h"

namespace skerry {

class BlockInt4Codec final : public Codec {
 public:
  explicit BlockInt4Codec(const CodecLoops& loops) : loops_(loops) {}

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
