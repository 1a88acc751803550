// Block int8 with power-of-two scales. Format and errors in codec.h.
//
// The scale of a block is the smallest 2^e, e ≥ −40, at which its largest magnitude rounds to at
// most 127; so 64 ≤ max |k| ≤ 127 unless e = −40, and what was decoded encodes to itself.
#pragma once

#include "compression/codec.h"

namespace skerry {

class BlockInt8Codec final : public Codec {
 public:
  int64_t EncodedSize(int64_t n) const override;
  absl::Status Check(std::span<const uint8_t> bytes, int64_t n) const override;
  void AccumulateRange(std::span<const uint8_t> bytes, int64_t n, int64_t first, int64_t weight,
                       std::span<int64_t> sum) const override;
  void DecodeRange(std::span<const uint8_t> bytes, int64_t n, int64_t first,
                   std::span<float> values) const override;

 private:
  bool EncodeInto(const DeltaSource& source, std::span<uint8_t> out) const override;
};

}  // namespace skerry
