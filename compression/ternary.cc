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
#include "compression/write_ahead.h"

namespace skerry {
namespace {

constexpr size_t kBlock = kCodecBlock;
constexpr size_t kTile = 1024;
constexpr size_t kTileBlocks = kTile / kBlock;
constexpr size_t kTileBytesMax = 255;
constexpr size_t kBlockWords = kBlock / 64;
constexpr size_t kTileWords = kTile / 64;
using TileMask = std::array<uint64_t, kTileWords>;

// See Rarefy.
constexpr size_t kPlacesMax = 52;
constexpr uint8_t kRaisesMax = 3;

// Blocks 0 and 1 of a tile are in the stream from its first bit, 2 and 3 in that from its last.
constexpr size_t kStreamBlocks = kTileBlocks / 2;

// Whatever the bits, a stream's words take 64 · 12 of them, and the signs 1024.
constexpr size_t kWordBytesRead = kTile / 2 / 8 * kMaskCodeBits / 8 + kBitSlack;
constexpr size_t kTileBytesRead = 264;
static_assert(kTileBytesRead >= kWordBytesRead + kTile / 8 + kBitSlack);
static_assert(kTileBytesRead >= kTileBytesMax + kBitSlack);

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
  std::array<size_t, kTileBlocks> ones = {};  // in nonzero, of each block
};

struct Coder {
  const CodecLoops& loops;
  const MaskCodes& codes;
};

struct BlockPlaces {
  const uint64_t* mask;
  size_t ones, count;
};

// Returns the level used.
uint8_t PutBlock(const Coder& coder, const BlockPlaces& places, BitWriter* writer) {
  const auto [mask, ones, count] = places;
  const uint8_t level = MaskLevelFor(ones, count);
  const size_t bytes = (count + 7) / 8;
  const BitWriter before = *writer;
  coder.loops.put_words(coder.codes[level], mask, bytes, writer);
  if (writer->bits() - before.bits() <= 8 * bytes) return level;
  *writer = before;
  coder.loops.put_words(coder.codes[kPlainMaskLevel], mask, bytes, writer);
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

uint32_t HalfBits(uint8_t step) {
  return std::bit_cast<uint32_t>(StepValue(step) / 2);
}

// Raises *step until at most kPlacesMax of a whole block reach its half, but at most kRaisesMax
// times, and never where that leaves as many places: so it takes its own output as it is. Returns
// how many.
size_t Rarefy(const CodecLoops& loops, std::span<const float> u, size_t ones, uint8_t* step,
              uint64_t* nonzero) {
  std::array<uint64_t, kBlockWords> rarer;
  const int most = std::min<int>(*step + kRaisesMax, kStepCodeMax);
  for (int raised = *step + 1; raised <= most && ones > kPlacesMax; ++raised) {
    const auto code = static_cast<uint8_t>(raised);
    const size_t left = loops.at_least(u.data(), u.size(), HalfBits(code), rarer.data());
    if (left == 0) break;
    if (left == ones) continue;
    std::copy_n(rarer.begin(), u.size() / 64, nonzero);
    ones = left;
    *step = code;
  }
  return ones;
}

// Room for a tile, and before and after it for whole words.
using TileBuffer = std::array<uint8_t, kBitSlack + kTileBytesRead>;

// Puts the first `bytes` of `back`, which zeros follow, in reverse before `end`.
void PutBack(const uint8_t* back, size_t bytes, uint8_t* end) {
  for (size_t i = 0; i < bytes; i += 8) {
    uint64_t bits, there;
    std::memcpy(&bits, back + i, 8);
    std::memcpy(&there, end - i - 8, 8);
    there |= ReversedBits(bits);
    std::memcpy(end - i - 8, &there, 8);
  }
}

// What of a tile is sent. False: a value is void.
bool FormTile(const CodecLoops& loops, const LoopSource& source, size_t size, Tile* tile) {
  alignas(64) std::array<float, kBlock> u;
  for (size_t start = 0; start < size; start += kBlock) {
    const size_t block = start / kBlock, count = std::min(kBlock, size - start);
    const uint32_t largest = loops.form_delta(source.At(start), count, u.data());
    if (largest > std::bit_cast<uint32_t>(kMagnitudeMax)) return false;
    const uint8_t step = NearestStep(std::bit_cast<float>(largest));
    tile->steps[block] = step;
    if (step == 0) continue;
    uint64_t* nonzero = tile->nonzero.data() + start / 64;
    size_t ones = loops.at_least(u.data(), count, HalfBits(step), nonzero);
    if (count == kBlock && ones > kPlacesMax) {
      ones = Rarefy(loops, std::span(u).first(count), ones, &tile->steps[block], nonzero);
    }
    tile->ones[block] = ones;
    loops.negative(u.data(), count, tile->minus.data() + start / 64);
  }
  return true;
}

// Returns the tile's length in bytes, from kBitSlack of `buffer` on.
size_t PutTile(const Coder& coder, size_t size, Tile* tile, TileBuffer* buffer) {
  uint8_t* out = buffer->data() + kBitSlack;
  std::array<uint8_t, kWordBytesRead> back;
  BitWriter writers[2] = {BitWriter(out), BitWriter(back.data())};
  for (size_t start = 0; start < size; start += kBlock) {
    const size_t block = start / kBlock, count = std::min(kBlock, size - start);
    if (tile->steps[block] == 0) continue;
    const BlockPlaces places = {tile->nonzero.data() + start / 64, tile->ones[block], count};
    tile->levels[block] = PutBlock(coder, places, &writers[block / kStreamBlocks]);
  }
  PutSigns(coder.loops, *tile, &writers[0]);
  const size_t length = (writers[0].bits() + writers[1].bits() + 7) / 8;
  const size_t front_bytes = writers[0].Finish(), back_bytes = writers[1].Finish();
  if (length > front_bytes) std::memset(out + front_bytes, 0, length - front_bytes);
  PutBack(back.data(), back_bytes, out + length);
  return length;
}

// A tile's bytes with zeros around them, and its last bits in reverse.
struct TileBytes {
  std::array<uint8_t, kWordBytesRead + kTileBytesRead> forward = {};
  std::array<uint8_t, kWordBytesRead> backward;

  TileBytes(const uint8_t* in, size_t length) {
    std::memcpy(forward.data() + kWordBytesRead, in, length);
    const uint8_t* end = forward.data() + kWordBytesRead + length;
    static_assert(kWordBytesRead % 8 == 0);
    for (size_t i = 0; i < kWordBytesRead; i += 8) {
      uint64_t bits;
      std::memcpy(&bits, end - i - 8, 8);
      bits = ReversedBits(bits);
      std::memcpy(backward.data() + i, &bits, 8);
    }
  }
};

// The places of all blocks of a step > 0; leaves readers[0] at the signs.
void TakePlaces(const Coder& coder, size_t size, BitReader* readers, Tile* tile,
                WriteAhead* ahead) {
  const auto& steps = tile->steps;
  for (size_t b = 0; b < kStreamBlocks; ++b) {
    const size_t pair[2] = {b, b + kStreamBlocks};
    uint64_t* masks[2];
    const MaskCode* codes[2];
    for (size_t s = 0; s < 2; ++s) {
      masks[s] = tile->nonzero.data() + pair[s] * kBlockWords;
      codes[s] = &coder.codes[tile->levels[pair[s]]];
    }
    if (size == kTile && steps[pair[0]] != 0 && steps[pair[1]] != 0) {
      coder.loops.take_two(codes, readers, masks, ahead->Part(), ahead->lines());
      continue;
    }
    for (size_t s = 0; s < 2; ++s) {
      if (pair[s] * kBlock >= size || steps[pair[s]] == 0) continue;
      const size_t count = std::min(kBlock, size - pair[s] * kBlock);
      coder.loops.take_words(*codes[s], (count + 7) / 8, &readers[s], masks[s]);
      if (count % 64 != 0) masks[s][count / 64] &= (uint64_t{1} << (count % 64)) - 1;
    }
  }
}

void TakeTile(const Coder& coder, const TileBytes& bytes, size_t size, Tile* tile,
              WriteAhead* ahead) {
  BitReader readers[2] = {BitReader(bytes.forward.data() + kWordBytesRead),
                          BitReader(bytes.backward.data())};
  TakePlaces(coder, size, readers, tile, ahead);
  size_t places = 0;
  for (const uint64_t word : tile->nonzero) places += static_cast<size_t>(std::popcount(word));
  TileMask packed;
  for (size_t w = 0; w * 64 < places; ++w) {
    const uint64_t low = readers[0].Peek() & 0xffffffff;
    readers[0].Skip(32);
    packed[w] = low | (readers[0].Peek() << 32);
    readers[0].Skip(32);
  }
  coder.loops.unpack_bits(packed.data(), tile->nonzero.data(), kTileWords, tile->minus.data());
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
  const Coder coder = {loops, AllMaskCodes()};
  const uint8_t* lengths = bytes.data() + at.lengths;
  const auto length_of = [&](size_t tile) { return lengths[tile]; };
  const size_t begin = static_cast<size_t>(first), end = begin + size;
  const uint8_t* in =
      bytes.data() + at.payload + TileOffset(bytes.data(), begin / kTile, length_of);
  for (size_t t = begin / kTile; t * kTile < end; ++t) {
    const TileBytes tile_bytes(in, lengths[t]);
    in += lengths[t];
    const size_t tile_first = t * kTile;
    const size_t tile_size = std::min(kTile, static_cast<size_t>(n) - tile_first);
    const size_t from = std::max(begin, tile_first), to = std::min(end, tile_first + tile_size);
    WriteAhead ahead(values.data() + (to - begin), (std::min(end, to + kTile) - to) * sizeof(T));
    Tile tile;
    for (size_t b = 0; b * kBlock < tile_size; ++b) {
      const size_t block = t * kTileBlocks + b;
      tile.steps[b] = bytes[at.steps + block];
      tile.levels[b] = (bytes[at.levels + block / 2] >> (block % 2 * 4)) & 15;
    }
    TakeTile(coder, tile_bytes, tile_size, &tile, &ahead);
    for (size_t start = from; start < to; start += kBlock) {
      const size_t word = (start - tile_first) / 64;
      visit(start - begin, std::min(kBlock, to - start), tile.steps[word / kBlockWords],
            tile.nonzero.data() + word, tile.minus.data() + word);
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
  return static_cast<int64_t>(at.payload + at.tiles * kTileBytesMax);
}

namespace {

// Puts tiles one after the other into a message.
class TileSink {
 public:
  TileSink(const Coder& coder, int64_t n, uint8_t* out) : coder_(coder), at_(n), out_(out) {
    std::fill(out + at_.levels, out + at_.payload, uint8_t{0});
  }
  void Put(size_t t, size_t size, Tile* tile) {
    TileBuffer buffer;
    const size_t length = PutTile(coder_, size, tile, &buffer);
    SKERRY_CHECK(length <= kTileBytesMax);
    NoteTile(out_, t, offset_);
    out_[at_.lengths + t] = static_cast<uint8_t>(length);
    for (size_t b = 0; b * kBlock < size; ++b) {
      const size_t block = t * kTileBlocks + b;
      out_[at_.steps + block] = tile->steps[b];
      out_[at_.levels + block / 2] |= static_cast<uint8_t>(tile->levels[b] << (block % 2 * 4));
    }
    std::memcpy(out_ + at_.payload + offset_, buffer.data() + kBitSlack, length);
    offset_ += length;
  }
  size_t tiles() const { return at_.tiles; }
  size_t bytes() const { return at_.payload + offset_; }

 private:
  const Coder& coder_;
  Layout at_;
  uint8_t* out_;
  size_t offset_ = 0;
};

}  // namespace

std::optional<size_t> TernaryCodec::EncodeInto(const DeltaSource& source,
                                               std::span<uint8_t> out) const {
  const size_t n = source.base.size();
  const Coder coder = {loops_, AllMaskCodes()};
  TileSink sink(coder, static_cast<int64_t>(n), out.data());
  for (size_t t = 0; t < sink.tiles(); ++t) {
    const size_t first = t * kTile, size = std::min(kTile, n - first);
    Tile tile;
    if (!FormTile(loops_, LoopSource::Of(source, first), size, &tile)) return std::nullopt;
    sink.Put(t, size, &tile);
  }
  return sink.bytes();
}

size_t TernaryCodec::PackSymbols(int64_t n, const uint64_t* nonzero, const uint64_t* minus,
                                 const uint8_t* steps, uint8_t* out) const {
  const Coder coder = {loops_, AllMaskCodes()};
  TileSink sink(coder, n, out);
  for (size_t t = 0; t < sink.tiles(); ++t) {
    const size_t size = std::min(kTile, static_cast<size_t>(n) - t * kTile);
    Tile tile;
    for (size_t b = 0; b * kBlock < size; ++b) {
      const size_t block = t * kTileBlocks + b;
      tile.steps[b] = steps[block];
      for (size_t w = 0; w < kBlockWords; ++w) {
        const size_t from = block * kBlockWords + w, to = b * kBlockWords + w;
        tile.nonzero[to] = nonzero[from];
        tile.minus[to] = minus[from];
        tile.ones[b] += static_cast<size_t>(std::popcount(nonzero[from]));
      }
    }
    sink.Put(t, size, &tile);
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
