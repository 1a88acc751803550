// One bit a value: its sign, times the block's mean magnitude (signSGD with error feedback,
// Karimireddy et al. 2019).
//
//   ⌈n / 256⌉ steps (step_scale.h) · ⌈n / 8⌉ bytes of sign bits, value i in bit i mod 8, set: −
//
// The step is the one nearest to the mean of |u| over the block, summed as loops.h says. A block
// whose mean is below half the least step decodes to zeros and has no sign bits set; in any other
// block no value decodes to zero.
#pragma once

#include "compression/codec.h"

namespace skerry {

class SignCodec final : public Codec {
 public:
  explicit SignCodec(const CodecLoops& loops) : loops_(loops) {}

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
