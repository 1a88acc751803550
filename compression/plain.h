// float32, little-endian, rounded to the common quantum 2^-40: no compression, but exact order-free
// sums. Exact from 2^-16 up; |u − D| ≤ 2^-41 below.
#pragma once

#include "compression/codec.h"

namespace skerry {

class PlainCodec final : public Codec {
 public:
  explicit PlainCodec(const CodecLoops& loops) : loops_(loops) {}

  int64_t EncodedSizeMax(int64_t n) const override;
  void AccumulateRange(std::span<const uint8_t> bytes, int64_t n, int64_t first, int64_t weight,
                       std::span<int64_t> sum) const override;
  void DecodeRange(std::span<const uint8_t> bytes, int64_t n, int64_t first,
                   std::span<float> values) const override;

 private:
  std::optional<size_t> EncodeInto(const DeltaSource& source,
                                   std::span<uint8_t> out) const override;
  absl::Status CheckContent(std::span<const uint8_t> bytes, int64_t n) const override;
  absl::Status CheckAndAccumulate(std::span<const uint8_t> bytes, int64_t weight,
                                  std::span<int64_t> sum) const override;

  const CodecLoops& loops_;
};

}  // namespace skerry
