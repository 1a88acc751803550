#include "compression/sign.h"

#include <array>
#include <cstring>

#include "compression/block_code.h"
#include "compression/loops.h"
#include "compression/step_scale.h"

namespace skerry {
namespace {

constexpr size_t kBlock = kCodecBlock;
constexpr size_t kBlockWords = kBlock / 64;
using BlockMask = std::array<uint64_t, kBlockWords>;

// All values of a block are sent.
constexpr BlockMask kEvery = {~0ULL, ~0ULL, ~0ULL, ~0ULL};

// Calls visit(start, count, step code, signs) for each block of the range.
template <typename Visit>
void ForBlocks(std::span<const uint8_t> bytes, int64_t n, int64_t first, size_t size,
               Visit&& visit) {
  CheckRange(n, first, size);
  const uint8_t* steps = bytes.data() + first / kCodecBlock;
  const uint8_t* signs = bytes.data() + BlocksOf(n) + first / 8;
  for (size_t start = 0; start < size; start += kBlock) {
    const size_t count = std::min(kBlock, size - start);
    BlockMask minus = {};
    std::memcpy(minus.data(), signs + start / 8, (count + 7) / 8);
    visit(start, count, steps[start / kBlock], minus);
  }
}

}  // namespace

int64_t SignCodec::EncodedSizeMax(int64_t n) const {
  return BlocksOf(n) + (n + 7) / 8;
}

std::optional<size_t> SignCodec::EncodeInto(const DeltaSource& source,
                                            std::span<uint8_t> out) const {
  const size_t n = source.base.size();
  uint8_t* steps = out.data();
  uint8_t* signs = out.data() + BlocksOf(static_cast<int64_t>(n));
  ReadAhead ahead(LoopSource::Of(source, 0));
  for (size_t first = 0; first < n; first += kBlock) {
    const size_t count = std::min(kBlock, n - first);
    BlockMask minus;
    uint8_t step = 0;
    const uint32_t largest =
        loops_.mark_sign(LoopSource::Of(source, first), count, minus.data(), &step, &ahead);
    if (largest > std::bit_cast<uint32_t>(kMagnitudeMax)) return std::nullopt;
    steps[first / kBlock] = step;
    std::memcpy(signs + first / 8, minus.data(), (count + 7) / 8);
  }
  return out.size();
}

absl::Status SignCodec::CheckContent(std::span<const uint8_t> bytes, int64_t n) const {
  if (n % 8 != 0 && bytes.back() >> (n % 8) != 0) {
    return InvalidArgument("sign delta of %d values: the unused bits are not zero", n);
  }
  return CheckScales(bytes.first(static_cast<size_t>(BlocksOf(n))), kStepCodeMax);
}

void SignCodec::AccumulateRange(std::span<const uint8_t> bytes, int64_t n, int64_t first,
                                int64_t weight, std::span<int64_t> sum) const {
  ForBlocks(bytes, n, first, sum.size(),
            [&](size_t start, size_t count, uint8_t step, const BlockMask& minus) {
              loops_.accumulate_signed(kEvery.data(), minus.data(), count, StepUnits(step) * weight,
                                       sum.data() + start);
            });
}

void SignCodec::DecodeRange(std::span<const uint8_t> bytes, int64_t n, int64_t first,
                            std::span<float> values) const {
  ForBlocks(bytes, n, first, values.size(),
            [&](size_t start, size_t count, uint8_t step, const BlockMask& minus) {
              loops_.decode_signed(kEvery.data(), minus.data(), count, StepValue(step),
                                   values.data() + start);
            });
}

}  // namespace skerry
