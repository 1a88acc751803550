#include "compression/block_int4.h"

#include "compression/block_code.h"
#include "compression/fixed_point.h"
#include "compression/loops.h"

namespace skerry {
namespace {

constexpr uint8_t kShiftMax = kInt4ExponentMax - kQuantumExponent;

const uint8_t* PairsAt(std::span<const uint8_t> bytes, int64_t n, int64_t first) {
  return bytes.data() + BlocksOf(n) + first / 2;
}

}  // namespace

int64_t BlockInt4Codec::EncodedSizeMax(int64_t n) const {
  return (n + 1) / 2 + BlocksOf(n);
}

std::optional<size_t> BlockInt4Codec::EncodeInto(const DeltaSource& source,
                                                 std::span<uint8_t> out) const {
  const size_t n = source.base.size();
  const auto blocks = static_cast<size_t>(BlocksOf(static_cast<int64_t>(n)));
  if (!loops_.quantise_int4(LoopSource::Of(source, 0), n, out.data(), out.data() + blocks)) {
    return std::nullopt;
  }
  return out.size();
}

absl::Status BlockInt4Codec::CheckContent(std::span<const uint8_t> bytes, int64_t n) const {
  if (n % 2 != 0 && (bytes.back() & 0xf0) != 0) {
    return InvalidArgument("int4 delta of %d values: the unused half byte is not zero", n);
  }
  return CheckScales(bytes.first(static_cast<size_t>(BlocksOf(n))), kShiftMax);
}

void BlockInt4Codec::AccumulateRange(std::span<const uint8_t> bytes, int64_t n, int64_t first,
                                     int64_t weight, std::span<int64_t> sum) const {
  CheckRange(n, first, sum.size());
  loops_.accumulate_int4(bytes.data() + first / kCodecBlock, PairsAt(bytes, n, first), sum.size(),
                         weight, sum.data());
}

void BlockInt4Codec::DecodeRange(std::span<const uint8_t> bytes, int64_t n, int64_t first,
                                 std::span<float> values) const {
  CheckRange(n, first, values.size());
  loops_.decode_int4(bytes.data() + first / kCodecBlock, PairsAt(bytes, n, first), values.size(),
                     values.data());
}

}  // namespace skerry
