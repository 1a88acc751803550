#include "compression/block_int8.h"

#include "compression/block_code.h"
#include "compression/fixed_point.h"
#include "compression/loops.h"

namespace skerry {
namespace {

constexpr uint8_t kShiftMax = kScaleExponentMax - kQuantumExponent;

const int8_t* IntegersAt(std::span<const uint8_t> bytes, int64_t n, int64_t first) {
  return reinterpret_cast<const int8_t*>(bytes.data()) + BlocksOf(n) + first;
}

}  // namespace

int64_t BlockInt8Codec::EncodedSizeMax(int64_t n) const {
  return n + BlocksOf(n);
}

std::optional<size_t> BlockInt8Codec::EncodeInto(const DeltaSource& source,
                                                 std::span<uint8_t> out) const {
  const size_t n = source.base.size();
  const auto blocks = static_cast<size_t>(BlocksOf(static_cast<int64_t>(n)));
  if (!loops_.quantise_int8(LoopSource::Of(source, 0), n, out.data(),
                            reinterpret_cast<int8_t*>(out.data() + blocks))) {
    return std::nullopt;
  }
  return out.size();
}

absl::Status BlockInt8Codec::CheckContent(std::span<const uint8_t> bytes, int64_t n) const {
  return CheckScales(bytes.first(static_cast<size_t>(BlocksOf(n))), kShiftMax);
}

void BlockInt8Codec::AccumulateRange(std::span<const uint8_t> bytes, int64_t n, int64_t first,
                                     int64_t weight, std::span<int64_t> sum) const {
  CheckRange(n, first, sum.size());
  loops_.accumulate_int8(bytes.data() + first / kCodecBlock, IntegersAt(bytes, n, first),
                         sum.size(), weight, sum.data());
}

void BlockInt8Codec::DecodeRange(std::span<const uint8_t> bytes, int64_t n, int64_t first,
                                 std::span<float> values) const {
  CheckRange(n, first, values.size());
  loops_.decode_int8(bytes.data() + first / kCodecBlock, IntegersAt(bytes, n, first), values.size(),
                     values.data());
}

}  // namespace skerry
