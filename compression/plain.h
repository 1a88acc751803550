// float32 rounded to the common quantum: no compression, but exact order-free sums. Format and
// errors in codec.h.
#pragma once

#include "compression/codec.h"

namespace skerry {

class PlainCodec final : public Codec {
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
