#include "compression/top_k.h"

#include <array>
#include <bit>
#include <cstring>

#include "common/check.h"
#include "compression/block_code.h"
#include "compression/fixed_point.h"
#include "compression/loops.h"
#include "compression/step_scale.h"
#include "compression/tile_index.h"
#include "compression/tile_selection.h"

namespace skerry {
namespace {

constexpr size_t kTile = kTopKTile;
constexpr size_t kLowBits = 5;
constexpr size_t kRatioCodes = kRatios.size();
constexpr size_t kUnaryWords = 3;
static_assert(kTile % kCodecBlock == 0);

constexpr size_t Bytes8(size_t bits) {
  return (bits + 7) / 8;
}

// What depends on a tile's number of values alone.
struct TileShape {
  size_t count, kept, mask_bytes, low_bytes;

  explicit TileShape(size_t values)
      : count(values),
        kept(KeptOf(values)),
        mask_bytes(Bytes8(kept)),
        low_bytes(Bytes8(kept * kLowBits)) {}
  size_t FixedBytes() const { return low_bytes + 2 * mask_bytes; }
  // A 1 for each place, and the 32s of all gaps.
  size_t UnaryBytesMax() const { return Bytes8(kept + ((count - kept) >> kLowBits)); }
  size_t UnaryBytes(uint8_t head) const { return mask_bytes + head / kRatioCodes; }
  size_t Length(uint8_t head) const { return FixedBytes() + UnaryBytes(head); }
};

struct Layout {
  size_t n, tiles, heads, steps, payload;

  explicit Layout(int64_t values) : n(static_cast<size_t>(values)) {
    tiles = (n + kTile - 1) / kTile;
    heads = TileIndexBytes(tiles);
    steps = heads + tiles;
    payload = steps + tiles;
  }
  TileShape Shape(size_t tile) const { return TileShape(std::min(kTile, n - tile * kTile)); }
};

using Unary = std::array<uint64_t, kUnaryWords>;

// Low parts, eight to forty bits.
void PackLow(const std::array<uint8_t, kTopKMax>& low, size_t bytes, uint8_t* out) {
  std::array<uint8_t, kTopKMax> packed;
  for (size_t i = 0; i < kTopKMax; i += 8) {
    uint64_t eight = 0;
    for (size_t j = 0; j < 8; ++j) eight |= static_cast<uint64_t>(low[i + j]) << (kLowBits * j);
    std::memcpy(packed.data() + i / 8 * kLowBits, &eight, 8);
  }
  std::memcpy(out, packed.data(), bytes);
}

void UnpackLow(const uint8_t* in, size_t bytes, std::array<uint8_t, kTopKMax>* low) {
  std::array<uint8_t, kTopKMax> packed = {};
  std::memcpy(packed.data(), in, bytes);
  for (size_t i = 0; i < kTopKMax; i += 8) {
    uint64_t eight;
    std::memcpy(&eight, packed.data() + i / 8 * kLowBits, 8);
    for (size_t j = 0; j < 8; ++j) {
      (*low)[i + j] = static_cast<uint8_t>((eight >> (kLowBits * j)) & 31);
    }
  }
}

// Writes the tile and its head; returns its length in bytes.
size_t PutTile(const TileShape& shape, const TileSelection& tile, ReadAhead* ahead, uint8_t* head,
               uint8_t* out) {
  std::array<uint8_t, kTopKMax> low = {};
  Unary unary = {};
  uint64_t word = 0;
  size_t next_place = 0, bit = 0;
  for (size_t j = 0; j < shape.kept; ++j) {
    if (j % kKeptPerLine == 0) ahead->Line();
    const size_t gap = tile.places[j] - next_place;
    next_place = size_t{tile.places[j]} + 1;
    low[j] = static_cast<uint8_t>(gap % 32);
    const size_t w = bit / 64;
    bit += gap >> kLowBits;
    if (bit / 64 != w) {
      unary[w] = word;
      word = 0;
    }
    word |= uint64_t{1} << (bit % 64);
    if (++bit % 64 == 0) {
      unary[bit / 64 - 1] = word;
      word = 0;
    }
  }
  if (bit % 64 != 0) unary[bit / 64] = word;
  const size_t unary_bytes = Bytes8(bit);
  *head = static_cast<uint8_t>((unary_bytes - shape.mask_bytes) * kRatioCodes + tile.ratio);
  PackLow(low, shape.low_bytes, out);
  std::memcpy(out + shape.low_bytes, &tile.high, shape.mask_bytes);
  std::memcpy(out + shape.low_bytes + shape.mask_bytes, &tile.minus, shape.mask_bytes);
  std::memcpy(out + shape.FixedBytes(), unary.data(), unary_bytes);
  return shape.Length(*head);
}

// The places of a tile. False: they are not KeptOf(count) places of it, each byte used.
bool TakePlaces(const TileShape& shape, uint8_t head, const uint8_t* in,
                std::array<uint16_t, kTopKMax>* places) {
  std::array<uint8_t, kTopKMax> low;
  UnpackLow(in, shape.low_bytes, &low);
  Unary unary = {};
  const size_t unary_bytes = shape.UnaryBytes(head);
  std::memcpy(unary.data(), in + shape.FixedBytes(), unary_bytes);
  size_t found = 0, next_place = 0, zeros = 0;
  for (size_t w = 0; w < kUnaryWords; ++w) {
    for (uint64_t left = unary[w]; left != 0; left &= left - 1) {
      if (found == shape.kept) return false;
      const size_t bit = w * 64 + static_cast<size_t>(std::countr_zero(left));
      const size_t gap = (bit - found - zeros) << kLowBits | low[found];
      zeros = bit - found;
      (*places)[found++] = static_cast<uint16_t>(next_place + gap);
      next_place += gap + 1;
    }
  }
  return found == shape.kept && next_place <= shape.count && Bytes8(found + zeros) == unary_bytes;
}

uint64_t MaskAt(const TileShape& shape, const uint8_t* in) {
  uint64_t mask = 0;
  std::memcpy(&mask, in, shape.mask_bytes);
  return mask;
}

// Calls visit(place in the range, units of the value) for all values kept in the range.
template <typename Visit>
void ForKept(std::span<const uint8_t> bytes, int64_t n, int64_t first, size_t size, Visit&& visit) {
  CheckRange(n, first, size);
  if (size == 0) return;
  const Layout at(n);
  const uint8_t* heads = bytes.data() + at.heads;
  const TileShape whole(kTile);
  const size_t begin = static_cast<size_t>(first), end = begin + size;
  // Only the last tile may be short, and none follows it.
  const uint8_t* in = bytes.data() + at.payload +
                      TileOffset(bytes.data(), begin / kTile,
                                 [&](size_t tile) { return whole.Length(heads[tile]); });
  for (size_t t = begin / kTile; t * kTile < end; ++t) {
    const TileShape shape = at.Shape(t);
    std::array<uint16_t, kTopKMax> places;
    SKERRY_CHECK(TakePlaces(shape, heads[t], in, &places), "the message was checked");
    const uint64_t high = MaskAt(shape, in + shape.low_bytes);
    const uint64_t minus = MaskAt(shape, in + shape.low_bytes + shape.mask_bytes);
    const auto levels = LevelsOf(bytes[at.steps + t], heads[t] % kRatioCodes);
    for (size_t j = 0; j < shape.kept; ++j) {
      const size_t place = t * kTile + places[j];
      if (place < begin || place >= end) continue;
      const int64_t units = levels[(high >> j) & 1];
      visit(place - begin, ((minus >> j) & 1) != 0 ? -units : units);
    }
    in += shape.Length(heads[t]);
  }
}

}  // namespace

int64_t TopKCodec::EncodedSizeMin(int64_t n) const {
  const Layout at(n);
  size_t bytes = at.payload;
  if (at.tiles > 0) bytes += (at.tiles - 1) * TileShape(kTile).Length(0);
  if (at.tiles > 0) bytes += at.Shape(at.tiles - 1).Length(0);
  return static_cast<int64_t>(bytes);
}

int64_t TopKCodec::EncodedSizeMax(int64_t n) const {
  const auto longest = [](const TileShape& shape) {
    return shape.FixedBytes() + shape.UnaryBytesMax();
  };
  const Layout at(n);
  size_t bytes = at.payload;
  if (at.tiles > 0) bytes += (at.tiles - 1) * longest(TileShape(kTile));
  if (at.tiles > 0) bytes += longest(at.Shape(at.tiles - 1));
  return static_cast<int64_t>(bytes);
}

std::optional<size_t> TopKCodec::EncodeInto(const DeltaSource& source,
                                            std::span<uint8_t> out) const {
  const Layout at(static_cast<int64_t>(source.base.size()));
  TileSelector selector(loops_, LoopSource::Of(source, 0));
  size_t offset = 0;
  for (size_t t = 0; t < at.tiles; ++t) {
    const TileShape shape = at.Shape(t);
    TileSelection tile;
    if (!selector.Select(LoopSource::Of(source, t * kTile), shape.count, &tile)) {
      return std::nullopt;
    }
    NoteTile(out.data(), t, offset);
    out[at.steps + t] = tile.step;
    offset += PutTile(shape, tile, selector.ahead(), &out[at.heads + t],
                      out.data() + at.payload + offset);
  }
  return at.payload + offset;
}

size_t TopKCodec::PackTiles(int64_t n, std::span<const TileSelection> tiles, uint8_t* out) const {
  const Layout at(n);
  SKERRY_CHECK(tiles.size() == at.tiles);
  size_t offset = 0;
  for (size_t t = 0; t < at.tiles; ++t) {
    NoteTile(out, t, offset);
    out[at.steps + t] = tiles[t].step;
    ReadAhead ahead = ReadAhead::Nothing();
    offset += PutTile(at.Shape(t), tiles[t], &ahead, &out[at.heads + t], out + at.payload + offset);
  }
  return at.payload + offset;
}

void TopKCodec::UnpackTiles(std::span<const uint8_t> bytes, int64_t n,
                            std::span<TileSelection> tiles) const {
  const Layout at(n);
  SKERRY_CHECK(tiles.size() == at.tiles);
  const uint8_t* in = bytes.data() + at.payload;
  for (size_t t = 0; t < at.tiles; ++t) {
    const TileShape shape = at.Shape(t);
    const uint8_t head = bytes[at.heads + t];
    TileSelection& tile = tiles[t];
    tile = {};
    SKERRY_CHECK(TakePlaces(shape, head, in, &tile.places), "the message was checked");
    tile.high = MaskAt(shape, in + shape.low_bytes);
    tile.minus = MaskAt(shape, in + shape.low_bytes + shape.mask_bytes);
    tile.step = bytes[at.steps + t];
    tile.ratio = head % kRatioCodes;
    in += shape.Length(head);
  }
}

absl::Status TopKCodec::CheckContent(std::span<const uint8_t> bytes, int64_t n) const {
  const Layout at(n);
  const uint8_t* heads = bytes.data() + at.heads;
  SKERRY_RETURN_IF_ERROR(
      CheckTileIndex(bytes.data(), at.tiles, bytes.size() - at.payload,
                     [&](size_t tile) { return at.Shape(tile).Length(heads[tile]); }));
  SKERRY_RETURN_IF_ERROR(CheckScales(bytes.subspan(at.steps, at.tiles), kStepCodeMax));
  constexpr int64_t kUnitsMax = static_cast<int64_t>(double{kMagnitudeMax} / kQuantum);
  const uint8_t* in = bytes.data() + at.payload;
  for (size_t t = 0; t < at.tiles; ++t) {
    const TileShape shape = at.Shape(t);
    std::array<uint16_t, kTopKMax> places;
    if (shape.UnaryBytes(heads[t]) > shape.UnaryBytesMax() ||
        !TakePlaces(shape, heads[t], in, &places)) {
      return InvalidArgument("top-k delta: tile %d does not hold %d places of %d", t, shape.kept,
                             shape.count);
    }
    if (LevelsOf(bytes[at.steps + t], heads[t] % kRatioCodes)[1] > kUnitsMax &&
        MaskAt(shape, in + shape.low_bytes) != 0) {
      return InvalidArgument("top-k delta: the high level of tile %d is beyond %g", t,
                             kMagnitudeMax);
    }
    in += shape.Length(heads[t]);
  }
  return absl::OkStatus();
}

void TopKCodec::AccumulateRange(std::span<const uint8_t> bytes, int64_t n, int64_t first,
                                int64_t weight, std::span<int64_t> sum) const {
  ForKept(bytes, n, first, sum.size(),
          [&](size_t place, int64_t units) { sum[place] += units * weight; });
}

void TopKCodec::DecodeRange(std::span<const uint8_t> bytes, int64_t n, int64_t first,
                            std::span<float> values) const {
  std::fill(values.begin(), values.end(), 0.0f);
  ForKept(bytes, n, first, values.size(), [&](size_t place, int64_t units) {
    values[place] = static_cast<float>(static_cast<double>(units) * kQuantum);
  });
}

}  // namespace skerry
