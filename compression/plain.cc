#include "compression/plain.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "common/check.h"
#include "common/status.h"
#include "compression/fixed_point.h"
#include "compression/loops.h"

namespace skerry {
namespace {

constexpr int64_t kFloatBytes = 4;

// Payloads have no alignment, so values pass through an aligned tile.
constexpr size_t kTile = 1024;
using Tile = std::array<float, kTile>;

std::span<const float> LoadTile(std::span<const uint8_t> bytes, size_t first, size_t count,
                                Tile* tile) {
  std::memcpy(tile->data(), bytes.data() + first * kFloatBytes, count * kFloatBytes);
  return std::span(*tile).first(count);
}

}  // namespace

int64_t PlainCodec::EncodedSizeMax(int64_t n) const {
  return n * kFloatBytes;
}

std::optional<size_t> PlainCodec::EncodeInto(const DeltaSource& source,
                                             std::span<uint8_t> out) const {
  const size_t n = source.base.size();
  Tile tile;
  for (size_t first = 0; first < n; first += kTile) {
    const size_t count = std::min(kTile, n - first);
    const LoopSource part = LoopSource::Of(source, first);
    if (!loops_.round_to_quantum(part, count, tile.data())) return std::nullopt;
    std::memcpy(out.data() + first * kFloatBytes, tile.data(), count * kFloatBytes);
  }
  return out.size();
}

absl::Status PlainCodec::CheckContent(std::span<const uint8_t> bytes, int64_t n) const {
  Tile tile;
  const auto size = static_cast<size_t>(n);
  for (size_t first = 0; first < size; first += kTile) {
    const auto values = LoadTile(bytes, first, std::min(kTile, size - first), &tile);
    if (!loops_.in_range(values.data(), values.size())) {
      return InvalidArgument("plain delta: a value in [%d, %d) is not finite or beyond %g", first,
                             first + values.size(), kMagnitudeMax);
    }
  }
  return absl::OkStatus();
}

void PlainCodec::AccumulateRange(std::span<const uint8_t> bytes, int64_t n, int64_t first,
                                 int64_t weight, std::span<int64_t> sum) const {
  SKERRY_CHECK(first + static_cast<int64_t>(sum.size()) <= n);
  const auto start = static_cast<size_t>(first);
  Tile tile;
  for (size_t i = 0; i < sum.size(); i += kTile) {
    const auto values = LoadTile(bytes, start + i, std::min(kTile, sum.size() - i), &tile);
    loops_.accumulate_plain(values.data(), values.size(), weight, sum.data() + i);
  }
}

// Values are as large as their message, so it is read once: what was added before a bad one is
// exact and taken away again.
absl::Status PlainCodec::CheckAndAccumulate(std::span<const uint8_t> bytes, int64_t weight,
                                            std::span<int64_t> sum) const {
  Tile tile;
  for (size_t i = 0; i < sum.size(); i += kTile) {
    const auto values = LoadTile(bytes, i, std::min(kTile, sum.size() - i), &tile);
    if (!loops_.in_range(values.data(), values.size())) {
      AccumulateRange(bytes, static_cast<int64_t>(sum.size()), 0, -weight, sum.first(i));
      return CheckContent(bytes, static_cast<int64_t>(sum.size()));
    }
    loops_.accumulate_plain(values.data(), values.size(), weight, sum.data() + i);
  }
  return absl::OkStatus();
}

void PlainCodec::DecodeRange(std::span<const uint8_t> bytes, int64_t n, int64_t first,
                             std::span<float> values) const {
  SKERRY_CHECK(first + static_cast<int64_t>(values.size()) <= n);
  const auto start = static_cast<size_t>(first);
  Tile tile;
  for (size_t i = 0; i < values.size(); i += kTile) {
    const auto raw = LoadTile(bytes, start + i, std::min(kTile, values.size() - i), &tile);
    SKERRY_CHECK(loops_.round_to_quantum({raw.data()}, raw.size(), values.data() + i),
                 "the message was checked");
  }
}

}  // namespace skerry
