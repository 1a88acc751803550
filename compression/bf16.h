// bfloat16, little-endian: u rounded to a multiple of the quantum 2^-40, then to the upper 16 bits
// of a float32, each to nearest even. Below 2^-33 every multiple of the quantum is a bfloat16, so
// decoded values are on the grid. |u − D| ≤ 2^-8·|u| + 2^-40.
#pragma once

#include "compression/codec.h"

namespace skerry {

class Bf16Codec final : public Codec {
 public:
  explicit Bf16Codec(const CodecLoops& loops) : loops_(loops) {}

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
