#include "compression/ternary.h"

#include <array>
#include <bit>
#include <cstring>

#include "compression/block_code.h"
#include "compression/fixed_point.h"
#include "compression/loops.h"
#include "compression/step_scale.h"
#include "compression/ternary_tile.h"
#include "compression/tile_index.h"

namespace skerry {
namespace {

constexpr size_t kBlock = kCodecBlock;
constexpr size_t kTile = kTernaryTile;
constexpr size_t kTileBlocks = kTernaryTileBlocks;

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

void ReadHeads(const Layout& at, std::span<const uint8_t> bytes, size_t t, size_t size,
               TernaryTile* tile) {
  for (size_t b = 0; b * kBlock < size; ++b) {
    const size_t block = t * kTileBlocks + b;
    tile->steps[b] = bytes[at.steps + block];
    tile->levels[b] = (bytes[at.levels + block / 2] >> (block % 2 * 4)) & 15;
  }
}

// Calls visit(start, count, step code, nonzero, minus) for the blocks of the range, whose values
// are at `values`.
template <typename T, typename Visit>
void ForBlocks(const CodecLoops& loops, std::span<const uint8_t> bytes, int64_t n, int64_t first,
               std::span<T> values, Visit&& visit) {
  const size_t size = values.size();
  CheckRange(n, first, size);
  if (size == 0) return;
  const Layout at(n);
  const TernaryCoder coder = {loops, AllMaskCodes()};
  const uint8_t* lengths = bytes.data() + at.lengths;
  const auto length_of = [&](size_t tile) { return lengths[tile]; };
  const size_t begin = static_cast<size_t>(first), end = begin + size;
  const uint8_t* in =
      bytes.data() + at.payload + TileOffset(bytes.data(), begin / kTile, length_of);
  for (size_t t = begin / kTile; t * kTile < end; t += 2) {
    std::array<TernaryTileBytes, 2> tile_bytes;
    std::array<TernaryTile, 2> tiles;
    size_t count = 0;
    for (; count < 2 && (t + count) * kTile < end; ++count) {
      const size_t tile = t + count;
      tile_bytes[count] = {in, lengths[tile],
                           std::min(kTile, static_cast<size_t>(n) - tile * kTile)};
      in += lengths[tile];
      ReadHeads(at, bytes, tile, tile_bytes[count].size, &tiles[count]);
    }
    const size_t from = std::max(begin, t * kTile), to = std::min(end, (t + count) * kTile);
    WriteAhead ahead(values.data() + (to - begin),
                     (std::min(end, to + count * kTile) - to) * sizeof(T), count * kTileBlocks);
    TakeTiles(coder, std::span(tile_bytes).first(count), std::span(tiles).first(count), &ahead);
    for (size_t start = from; start < to; start += kBlock) {
      TernaryTile& tile = tiles[start / kTile - t];
      const size_t block = start % kTile / kBlock;
      visit(start - begin, std::min(kBlock, to - start), tile.steps[block], tile.NonzeroOf(block),
            tile.MinusOf(block));
      ahead.Fetch();
    }
  }
}

}  // namespace

int64_t TernaryCodec::EncodedSizeMin(int64_t n) const {
  return static_cast<int64_t>(Layout(n).payload);
}

int64_t TernaryCodec::EncodedSizeMax(int64_t n) const {
  const Layout at(n);
  return static_cast<int64_t>(at.payload + at.tiles * kTernaryTileBytesMax);
}

namespace {

// Puts tiles one after the other into a message.
class TileSink {
 public:
  TileSink(int64_t n, uint8_t* out) : at_(n), out_(out) {
    std::fill(out + at_.levels, out + at_.payload, uint8_t{0});
  }
  void Put(size_t t, size_t size, const TernaryTile& tile, std::span<const uint8_t> bytes) {
    NoteTile(out_, t, offset_);
    out_[at_.lengths + t] = static_cast<uint8_t>(bytes.size());
    for (size_t b = 0; b * kBlock < size; ++b) {
      const size_t block = t * kTileBlocks + b;
      out_[at_.steps + block] = tile.steps[b];
      out_[at_.levels + block / 2] |= static_cast<uint8_t>(tile.levels[b] << (block % 2 * 4));
    }
    std::memcpy(out_ + at_.payload + offset_, bytes.data(), bytes.size());
    offset_ += bytes.size();
  }
  size_t tiles() const { return at_.tiles; }
  size_t bytes() const { return at_.payload + offset_; }

 private:
  Layout at_;
  uint8_t* out_;
  size_t offset_ = 0;
};

}  // namespace

std::optional<size_t> TernaryCodec::EncodeInto(const DeltaSource& source,
                                               std::span<uint8_t> out) const {
  const size_t n = source.base.size();
  const TernaryCoder coder = {loops_, AllMaskCodes()};
  TileSink sink(static_cast<int64_t>(n), out.data());
  ReadAhead ahead(LoopSource::Of(source, 0));
  for (size_t t = 0; t < sink.tiles(); ++t) {
    const size_t first = t * kTile, size = std::min(kTile, n - first);
    TernaryTile tile;
    if (size < kTile) tile.nonzero = tile.minus = {};
    TernaryTileWriter writer(coder);
    for (size_t start = 0; start < size; start += kBlock) {
      const size_t b = start / kBlock, count = std::min(kBlock, size - start);
      TernaryMarks marks = {tile.NonzeroOf(b), tile.MinusOf(b)};
      const uint32_t largest =
          loops_.mark_ternary(LoopSource::Of(source, first + start), count, &marks);
      if (largest > std::bit_cast<uint32_t>(kMagnitudeMax)) return std::nullopt;
      tile.steps[b] = marks.step;
      if (marks.step != 0) writer.PutBlock(b, marks.ones, count, &tile, &ahead);
    }
    sink.Put(t, size, tile, writer.Finish(tile));
  }
  return sink.bytes();
}

size_t TernaryCodec::PackSymbols(int64_t n, const uint64_t* nonzero, const uint64_t* minus,
                                 const uint8_t* steps, uint8_t* out) const {
  const TernaryCoder coder = {loops_, AllMaskCodes()};
  TileSink sink(n, out);
  for (size_t t = 0; t < sink.tiles(); ++t) {
    const size_t size = std::min(kTile, static_cast<size_t>(n) - t * kTile);
    TernaryTile tile;
    if (size < kTile) tile.nonzero = tile.minus = {};
    TernaryTileWriter writer(coder);
    for (size_t b = 0; b * kBlock < size; ++b) {
      const size_t block = t * kTileBlocks + b;
      tile.steps[b] = steps[block];
      size_t ones = 0;
      for (size_t w = 0; w < kBlockWords; ++w) {
        const size_t from = block * kBlockWords + w;
        tile.NonzeroOf(b)[w] = nonzero[from];
        tile.MinusOf(b)[w] = minus[from];
        ones += static_cast<size_t>(std::popcount(nonzero[from]));
      }
      if (steps[block] == 0) continue;
      ReadAhead ahead = ReadAhead::Nothing();
      writer.PutBlock(b, ones, std::min(kBlock, size - b * kBlock), &tile, &ahead);
    }
    sink.Put(t, size, tile, writer.Finish(tile));
  }
  return sink.bytes();
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
  ForBlocks(loops_, bytes, n, first, sum,
            [&](size_t start, size_t count, uint8_t step, const uint64_t* nonzero,
                const uint64_t* minus) {
              loops_.accumulate_signed(nonzero, minus, count, StepUnits(step) * weight,
                                       sum.data() + start);
            });
}

void TernaryCodec::DecodeRange(std::span<const uint8_t> bytes, int64_t n, int64_t first,
                               std::span<float> values) const {
  ForBlocks(loops_, bytes, n, first, values,
            [&](size_t start, size_t count, uint8_t step, const uint64_t* nonzero,
                const uint64_t* minus) {
              loops_.decode_signed(nonzero, minus, count, StepValue(step), values.data() + start);
            });
}

void TernaryCodec::UnpackSymbols(std::span<const uint8_t> bytes, int64_t n, uint64_t* nonzero,
                                 uint64_t* minus, uint8_t* steps) const {
  // Of no values, but as many as are walked over.
  const std::span<const uint8_t> places(static_cast<const uint8_t*>(nullptr),
                                        static_cast<size_t>(n));
  ForBlocks(loops_, bytes, n, 0, places,
            [&](size_t start, size_t count, uint8_t step, const uint64_t* some,
                const uint64_t* negative) {
              const size_t block = start / kBlock, words = (count + 63) / 64;
              steps[block] = step;
              std::fill_n(nonzero + block * kBlockWords, kBlockWords, uint64_t{0});
              std::fill_n(minus + block * kBlockWords, kBlockWords, uint64_t{0});
              std::copy_n(some, words, nonzero + block * kBlockWords);
              std::copy_n(negative, words, minus + block * kBlockWords);
            });
}

}  // namespace skerry
