#include "compression/block_int8.h"

#include <algorithm>

#include "common/check.h"
#include "common/status.h"
#include "compression/fixed_point.h"
#include "compression/loops.h"

namespace skerry {
namespace {

constexpr uint8_t kShiftMax = kScaleExponentMax - kQuantumExponent;

int64_t Blocks(int64_t n) {
  return (n + kCodecBlock - 1) / kCodecBlock;
}

const int8_t* IntegersAt(std::span<const uint8_t> bytes, int64_t n, int64_t first) {
  return reinterpret_cast<const int8_t*>(bytes.data()) + Blocks(n) + first;
}

}  // namespace

int64_t BlockInt8Codec::EncodedSize(int64_t n) const {
  return n + Blocks(n);
}

bool BlockInt8Codec::EncodeInto(const DeltaSource& source, std::span<uint8_t> out) const {
  const size_t n = source.base.size();
  const auto blocks = static_cast<size_t>(Blocks(static_cast<int64_t>(n)));
  return BestLoops().quantise_int8(LoopSource::Of(source, 0), n, out.data(),
                                   reinterpret_cast<int8_t*>(out.data() + blocks));
}

absl::Status BlockInt8Codec::Check(std::span<const uint8_t> bytes, int64_t n) const {
  if (static_cast<int64_t>(bytes.size()) != EncodedSize(n)) {
    return InvalidArgument("int8 delta of %d values: want %d bytes, got %d", n, EncodedSize(n),
                           bytes.size());
  }
  const auto scales = bytes.first(static_cast<size_t>(Blocks(n)));
  const auto bad =
      std::find_if(scales.begin(), scales.end(), [](uint8_t shift) { return shift > kShiftMax; });
  if (bad != scales.end()) {
    return InvalidArgument("int8 delta: scale of block %d is %d, want at most %d",
                           bad - scales.begin(), *bad, kShiftMax);
  }
  return absl::OkStatus();
}

void BlockInt8Codec::AccumulateRange(std::span<const uint8_t> bytes, int64_t n, int64_t first,
                                     int64_t weight, std::span<int64_t> sum) const {
  const auto size = static_cast<int64_t>(sum.size());
  SKERRY_CHECK(first % kCodecBlock == 0 && first + size <= n);
  BestLoops().accumulate_int8(bytes.data() + first / kCodecBlock, IntegersAt(bytes, n, first),
                              sum.size(), weight, sum.data());
}

void BlockInt8Codec::DecodeRange(std::span<const uint8_t> bytes, int64_t n, int64_t first,
                                 std::span<float> values) const {
  const auto size = static_cast<int64_t>(values.size());
  SKERRY_CHECK(first % kCodecBlock == 0 && first + size <= n);
  BestLoops().decode_int8(bytes.data() + first / kCodecBlock, IntegersAt(bytes, n, first),
                          values.size(), values.data());
}

}  // namespace skerry
