#include "compression/bf16.h"

#include <array>
#include <cstring>

#include "compression/block_code.h"
#include "compression/fixed_point.h"
#include "compression/loops.h"

namespace skerry {
namespace {

constexpr int64_t kHalfBytes = 2;

// Payloads have no alignment, so values pass through an aligned tile.
constexpr size_t kTile = 1024;
using Halves = std::array<uint16_t, kTile>;
using Tile = std::array<float, kTile>;

void LoadTile(const CodecLoops& loops, std::span<const uint8_t> bytes, size_t first,
              std::span<float> values) {
  Halves halves;
  std::memcpy(halves.data(), bytes.data() + first * kHalfBytes, values.size() * kHalfBytes);
  loops.widen_bf16(halves.data(), values.size(), values.data());
}

}  // namespace

int64_t Bf16Codec::EncodedSizeMax(int64_t n) const {
  return n * kHalfBytes;
}

std::optional<size_t> Bf16Codec::EncodeInto(const DeltaSource& source,
                                            std::span<uint8_t> out) const {
  const size_t n = source.base.size();
  Halves halves;
  for (size_t first = 0; first < n; first += kTile) {
    const size_t count = std::min(kTile, n - first);
    if (!loops_.round_to_bf16(LoopSource::Of(source, first), count, halves.data())) {
      return std::nullopt;
    }
    std::memcpy(out.data() + first * kHalfBytes, halves.data(), count * kHalfBytes);
  }
  return out.size();
}

absl::Status Bf16Codec::CheckContent(std::span<const uint8_t> bytes, int64_t n) const {
  Tile tile;
  const auto size = static_cast<size_t>(n);
  for (size_t first = 0; first < size; first += kTile) {
    const auto values = std::span(tile).first(std::min(kTile, size - first));
    LoadTile(loops_, bytes, first, values);
    if (!loops_.in_range(values.data(), values.size())) {
      return InvalidArgument("bf16 delta: a value in [%d, %d) is not finite or beyond %g", first,
                             first + values.size(), kMagnitudeMax);
    }
  }
  return absl::OkStatus();
}

void Bf16Codec::AccumulateRange(std::span<const uint8_t> bytes, int64_t n, int64_t first,
                                int64_t weight, std::span<int64_t> sum) const {
  CheckRange(n, first, sum.size());
  Tile tile;
  for (size_t i = 0; i < sum.size(); i += kTile) {
    const auto values = std::span(tile).first(std::min(kTile, sum.size() - i));
    LoadTile(loops_, bytes, static_cast<size_t>(first) + i, values);
    loops_.accumulate_plain(values.data(), values.size(), weight, sum.data() + i);
  }
}

// Values are as large as their message, so it is read once: what was added before a bad one is
// exact and taken away again.
absl::Status Bf16Codec::CheckAndAccumulate(std::span<const uint8_t> bytes, int64_t weight,
                                           std::span<int64_t> sum) const {
  Tile tile;
  for (size_t i = 0; i < sum.size(); i += kTile) {
    const auto values = std::span(tile).first(std::min(kTile, sum.size() - i));
    LoadTile(loops_, bytes, i, values);
    if (!loops_.in_range(values.data(), values.size())) {
      AccumulateRange(bytes, static_cast<int64_t>(sum.size()), 0, -weight, sum.first(i));
      return CheckContent(bytes, static_cast<int64_t>(sum.size()));
    }
    loops_.accumulate_plain(values.data(), values.size(), weight, sum.data() + i);
  }
  return absl::OkStatus();
}

void Bf16Codec::DecodeRange(std::span<const uint8_t> bytes, int64_t n, int64_t first,
                            std::span<float> values) const {
  CheckRange(n, first, values.size());
  Tile tile;
  for (size_t i = 0; i < values.size(); i += kTile) {
    const auto raw = std::span(tile).first(std::min(kTile, values.size() - i));
    LoadTile(loops_, bytes, static_cast<size_t>(first) + i, raw);
    SKERRY_CHECK(loops_.round_to_quantum({raw.data()}, raw.size(), values.data() + i),
                 "the message was checked");
  }
}

}  // namespace skerry
