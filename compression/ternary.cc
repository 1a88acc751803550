#include "compression/ternary.h"

#include <array>
#include <bit>
#include <cstring>

#include "compression/bit_stream.h"
#include "compression/block_code.h"
#include "compression/fixed_point.h"
#include "compression/loops.h"
#include "compression/mask_code.h"
#include "compression/step_scale.h"
#include "compression/tile_index.h"

namespace skerry {
namespace {

constexpr size_t kBlock = kCodecBlock;
constexpr size_t kTile = 1024;
constexpr size_t kTileBlocks = kTile / kBlock;
constexpr size_t kTileBytesMax = 255;
constexpr size_t kBlockWords = kBlock / 64;
constexpr size_t kTileWords = kTile / 64;
using TileMask = std::array<uint64_t, kTileWords>;

// Whatever the bits, a tile's words take 128 · 12 of them and its signs 1024.
constexpr size_t kTileBytesRead = (kTile / 8 * kMaskCodeBits + kTile) / 8;

// Where the parts of a message begin.
struct Layout {
  size_t tiles, lengths, steps, levels, payload;

  explicit Layout(int64_t n) {
    const auto blocks = static_cast<size_t>(BlocksOf(n));
    tiles = (static_cast<size_t>(n) + kTile - 1) / kTile;
    lengths = TileIndexBytes(tiles);
    steps = lengths + tiles;
    levels = steps + blocks;
    payload = levels + (blocks + 1) / 2;
  }
};

struct Tile {
  TileMask nonzero = {};
  TileMask minus = {};
  std::array<uint8_t, kTileBlocks> steps = {};
  std::array<uint8_t, kTileBlocks> levels = {};
};

void PutMask(const MaskCode& code, const uint64_t* mask, size_t bytes, BitWriter* writer) {
  for (size_t i = 0; i < bytes; ++i) {
    const MaskCode::Word word = code.words[(mask[i / 8] >> (i % 8 * 8)) & 0xff];
    writer->Put(word.bits, word.length);
  }
}

// Returns the level used.
uint8_t PutBlock(const uint64_t* mask, size_t count, BitWriter* writer) {
  size_t ones = 0;
  for (size_t w = 0; w < kBlockWords; ++w) ones += static_cast<size_t>(std::popcount(mask[w]));
  const uint8_t level = MaskLevelFor(ones, count);
  const size_t bytes = (count + 7) / 8;
  const BitWriter before = *writer;
  PutMask(MaskCodeOf(level), mask, bytes, writer);
  if (writer->bits() - before.bits() <= 8 * bytes) return level;
  *writer = before;
  PutMask(MaskCodeOf(kPlainMaskLevel), mask, bytes, writer);
  return kPlainMaskLevel;
}

void PutSigns(const CodecLoops& loops, const Tile& tile, BitWriter* writer) {
  TileMask packed;
  size_t left = loops.pack_bits(tile.minus.data(), tile.nonzero.data(), kTileWords, packed.data());
  for (size_t w = 0; left > 0; ++w) {
    const size_t low = std::min<size_t>(left, 32);
    const size_t high = std::min<size_t>(left - low, 32);
    writer->Put(packed[w] & 0xffffffff, low);
    writer->Put(packed[w] >> 32, high);
    left -= low + high;
  }
}

// The tile's masks and steps from its deltas. False: a value is void.
bool FormTile(const CodecLoops& loops, const DeltaSource& source, size_t first, size_t size,
              Tile* tile) {
  alignas(64) std::array<float, kBlock> u;
  for (size_t start = 0; start < size; start += kBlock) {
    const size_t count = std::min(kBlock, size - start);
    const uint32_t largest =
        loops.form_delta(LoopSource::Of(source, first + start), count, u.data());
    if (largest > std::bit_cast<uint32_t>(kMagnitudeMax)) return false;
    const uint8_t step = NearestStep(std::bit_cast<float>(largest));
    tile->steps[start / kBlock] = step;
    if (step == 0) continue;
    const auto threshold = std::bit_cast<uint32_t>(StepValue(step) / 2);
    loops.at_least(u.data(), count, threshold, tile->nonzero.data() + start / 64);
    loops.negative(u.data(), count, tile->minus.data() + start / 64);
  }
  return true;
}

// Returns the length in bytes; `out` has room for kTileBytesMax + kBitSlack.
size_t PutTile(const CodecLoops& loops, size_t size, Tile* tile, uint8_t* out) {
  BitWriter writer(out);
  for (size_t start = 0; start < size; start += kBlock) {
    const size_t block = start / kBlock;
    if (tile->steps[block] == 0) continue;
    tile->levels[block] =
        PutBlock(tile->nonzero.data() + start / 64, std::min(kBlock, size - start), &writer);
  }
  PutSigns(loops, *tile, &writer);
  return writer.Finish();
}

void TakeMask(const MaskCode& code, size_t count, BitReader* reader, uint64_t* mask) {
  for (size_t i = 0; i < (count + 7) / 8; i += 4) {
    uint64_t bits = reader->Peek();
    size_t taken = 0;
    uint64_t four = 0;
    for (size_t j = 0; j < std::min<size_t>(4, (count + 7) / 8 - i); ++j) {
      const MaskCode::Match match = code.matches[bits & ((1 << kMaskCodeBits) - 1)];
      four |= static_cast<uint64_t>(match.mask) << (8 * j);
      bits >>= match.length;
      taken += match.length;
    }
    mask[i / 8] |= four << (i % 8 * 8);
    reader->Skip(taken);
  }
  if (count % 64 != 0) mask[count / 64] &= (uint64_t{1} << (count % 64)) - 1;
}

// `in` is followed by zeros to kTileBytesRead + kBitSlack bytes.
void TakeTile(const CodecLoops& loops, const uint8_t* in, size_t size, Tile* tile) {
  BitReader reader(in);
  size_t places = 0;
  for (size_t start = 0; start < size; start += kBlock) {
    const size_t block = start / kBlock;
    if (tile->steps[block] == 0) continue;
    uint64_t* mask = tile->nonzero.data() + start / 64;
    TakeMask(MaskCodeOf(tile->levels[block]), std::min(kBlock, size - start), &reader, mask);
    for (size_t w = 0; w < kBlockWords; ++w) places += static_cast<size_t>(std::popcount(mask[w]));
  }
  TileMask packed;
  for (size_t w = 0; w * 64 < places; ++w) {
    const uint64_t low = reader.Peek() & 0xffffffff;
    reader.Skip(32);
    packed[w] = low | (reader.Peek() << 32);
    reader.Skip(32);
  }
  loops.unpack_bits(packed.data(), tile->nonzero.data(), kTileWords, tile->minus.data());
}

// Calls visit(start, count, step code, nonzero, minus) for the blocks of the range.
template <typename Visit>
void ForBlocks(const CodecLoops& loops, std::span<const uint8_t> bytes, int64_t n, int64_t first,
               size_t size, Visit&& visit) {
  CheckRange(n, first, size);
  if (size == 0) return;
  const Layout at(n);
  const uint8_t* lengths = bytes.data() + at.lengths;
  const auto length_of = [&](size_t tile) { return lengths[tile]; };
  const size_t begin = static_cast<size_t>(first), end = begin + size;
  const uint8_t* in =
      bytes.data() + at.payload + TileOffset(bytes.data(), begin / kTile, length_of);
  for (size_t t = begin / kTile; t * kTile < end; ++t) {
    std::array<uint8_t, kTileBytesRead + kBitSlack> copy = {};
    std::memcpy(copy.data(), in, lengths[t]);
    in += lengths[t];
    const size_t tile_first = t * kTile;
    const size_t tile_size = std::min(kTile, static_cast<size_t>(n) - tile_first);
    Tile tile;
    for (size_t b = 0; b * kBlock < tile_size; ++b) {
      const size_t block = t * kTileBlocks + b;
      tile.steps[b] = bytes[at.steps + block];
      tile.levels[b] = (bytes[at.levels + block / 2] >> (block % 2 * 4)) & 15;
    }
    TakeTile(loops, copy.data(), tile_size, &tile);
    const size_t from = std::max(begin, tile_first), to = std::min(end, tile_first + tile_size);
    for (size_t start = from; start < to; start += kBlock) {
      const size_t word = (start - tile_first) / 64;
      visit(start - begin, std::min(kBlock, to - start), tile.steps[word / kBlockWords],
            tile.nonzero.data() + word, tile.minus.data() + word);
    }
  }
}

}  // namespace

int64_t TernaryCodec::EncodedSizeMin(int64_t n) const {
  return static_cast<int64_t>(Layout(n).payload);
}

int64_t TernaryCodec::EncodedSizeMax(int64_t n) const {
  const Layout at(n);
  return static_cast<int64_t>(at.payload + at.tiles * kTileBytesMax);
}

std::optional<size_t> TernaryCodec::EncodeInto(const DeltaSource& source,
                                               std::span<uint8_t> out) const {
  const size_t n = source.base.size();
  const Layout at(static_cast<int64_t>(n));
  std::memset(out.data() + at.levels, 0, at.payload - at.levels);
  size_t offset = 0;
  for (size_t t = 0; t < at.tiles; ++t) {
    const size_t first = t * kTile, size = std::min(kTile, n - first);
    Tile tile;
    if (!FormTile(loops_, source, first, size, &tile)) return std::nullopt;
    std::array<uint8_t, kTileBytesRead + kBitSlack> bytes;
    const size_t length = PutTile(loops_, size, &tile, bytes.data());
    SKERRY_CHECK(length <= kTileBytesMax);
    NoteTile(out.data(), t, offset);
    out[at.lengths + t] = static_cast<uint8_t>(length);
    for (size_t b = 0; b * kBlock < size; ++b) {
      const size_t block = t * kTileBlocks + b;
      out[at.steps + block] = tile.steps[b];
      out[at.levels + block / 2] |= static_cast<uint8_t>(tile.levels[b] << (block % 2 * 4));
    }
    std::memcpy(out.data() + at.payload + offset, bytes.data(), length);
    offset += length;
  }
  return at.payload + offset;
}

absl::Status TernaryCodec::CheckContent(std::span<const uint8_t> bytes, int64_t n) const {
  const Layout at(n);
  const auto length_of = [&](size_t tile) { return bytes[at.lengths + tile]; };
  SKERRY_RETURN_IF_ERROR(
      CheckTileIndex(bytes.data(), at.tiles, bytes.size() - at.payload, length_of));
  return CheckScales(bytes.subspan(at.steps, at.levels - at.steps), kStepCodeMax);
}

void TernaryCodec::AccumulateRange(std::span<const uint8_t> bytes, int64_t n, int64_t first,
                                   int64_t weight, std::span<int64_t> sum) const {
  ForBlocks(loops_, bytes, n, first, sum.size(),
            [&](size_t start, size_t count, uint8_t step, const uint64_t* nonzero,
                const uint64_t* minus) {
              loops_.accumulate_signed(nonzero, minus, count, StepUnits(step) * weight,
                                       sum.data() + start);
            });
}

void TernaryCodec::DecodeRange(std::span<const uint8_t> bytes, int64_t n, int64_t first,
                               std::span<float> values) const {
  ForBlocks(loops_, bytes, n, first, values.size(),
            [&](size_t start, size_t count, uint8_t step, const uint64_t* nonzero,
                const uint64_t* minus) {
              loops_.decode_signed(nonzero, minus, count, StepValue(step), values.data() + start);
            });
}

}  // namespace skerry
