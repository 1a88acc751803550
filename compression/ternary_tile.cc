#include "compression/ternary_tile.h"

#include <bit>
#include <cstring>

#include "common/check.h"
#include "compression/bit_stream.h"
#include "compression/write_ahead.h"

namespace skerry {
namespace {

// Blocks 0 and 1 of a tile are in the stream from its first bit, 2 and 3 in that from its last.
constexpr size_t kStreamBlocks = kTernaryTileBlocks / 2;

}  // namespace

// ---- writing -----------------------------------------------------------------------------------

void TernaryTileWriter::PutBlock(size_t block, size_t ones, size_t count, TernaryTile* tile,
                                 ReadAhead* ahead) {
  const uint8_t level = MaskLevelFor(ones, count);
  const size_t bytes = (count + 7) / 8;
  const uint64_t* mask = tile->NonzeroOf(block);
  BitWriter& writer = writers_[block / kStreamBlocks];
  const BitWriter before = writer;
  coder_.loops.put_words(coder_.codes[level], mask, bytes, &writer, ahead);
  tile->levels[block] = level;
  if (writer.bits() - before.bits() <= 8 * bytes) return;
  writer = before;
  coder_.loops.put_words(coder_.codes[kPlainMaskLevel], mask, bytes, &writer, ahead);
  tile->levels[block] = kPlainMaskLevel;
}

void TernaryTileWriter::PutSigns(const TernaryTile& tile) {
  std::array<uint64_t, kTernaryTile / 64> packed;
  size_t left = coder_.loops.pack_bits(tile.minus.data(), tile.nonzero.data(), tile.nonzero.size(),
                                       packed.data());
  for (size_t w = 0; left > 0; ++w) {
    const size_t low = std::min<size_t>(left, 32);
    const size_t high = std::min<size_t>(left - low, 32);
    writers_[0].Put(packed[w] & 0xffffffff, low);
    writers_[0].Put(packed[w] >> 32, high);
    left -= low + high;
  }
}

std::span<const uint8_t> TernaryTileWriter::Finish(const TernaryTile& tile) {
  PutSigns(tile);
  uint8_t* const out = front_.data() + kBitSlack;
  const size_t length = (writers_[0].bits() + writers_[1].bits() + 7) / 8;
  const size_t front_bytes = writers_[0].Finish(), back_bytes = writers_[1].Finish();
  SKERRY_CHECK(length <= kTernaryTileBytesMax);
  if (length > front_bytes) std::memset(out + front_bytes, 0, length - front_bytes);
  // The second stream in reverse before the end, word by word; zeros follow it.
  for (size_t i = 0; i < back_bytes; i += 8) {
    uint64_t bits, there;
    std::memcpy(&bits, back_.data() + i, 8);
    std::memcpy(&there, out + length - i - 8, 8);
    there |= ReversedBits(bits);
    std::memcpy(out + length - i - 8, &there, 8);
  }
  return {out, length};
}

// ---- reading -----------------------------------------------------------------------------------

namespace {

constexpr size_t kWordBytesRead = kTernaryTile / 2 / 8 * kMaskCodeBits / 8 + kBitSlack;
constexpr size_t kTileBytesRead = 264;
static_assert(kTileBytesRead >= kWordBytesRead + kTernaryTile / 8 + kBitSlack);
static_assert(kTileBytesRead >= kTernaryTileBytesMax + kBitSlack);

// A tile's bytes with zeros around them, and its last bits in reverse.
struct TileBytes {
  std::array<uint8_t, kWordBytesRead + kTileBytesRead> forward;
  std::array<uint8_t, kWordBytesRead> backward;

  void Read(const CodecLoops& loops, const TernaryTileBytes& in) {
    forward = {};
    std::memcpy(forward.data() + kWordBytesRead, in.bytes, in.length);
    static_assert(kWordBytesRead % 8 == 0);
    loops.reverse_bits(forward.data() + kWordBytesRead + in.length, kWordBytesRead / 8,
                       backward.data());
  }
};

// One of the four streams of two tiles.
struct Stream {
  size_t tile = 0;
  size_t first = 0;  // its first block
};
constexpr Stream kStreams[] = {{0, 0}, {0, kStreamBlocks}, {1, 0}, {1, kStreamBlocks}};
constexpr size_t kStreamsMax = std::size(kStreams);

// The places of a block by itself; none of step 0.
void TakeBlock(const TernaryCoder& coder, size_t block, size_t size, BitReader* reader,
               TernaryTile* tile) {
  uint64_t* mask = tile->NonzeroOf(block);
  std::fill_n(mask, kBlockWords, uint64_t{0});
  if (block * kCodecBlock >= size || tile->steps[block] == 0) return;
  const size_t count = std::min<size_t>(kCodecBlock, size - block * kCodecBlock);
  coder.loops.take_words(coder.codes[tile->levels[block]], (count + 7) / 8, reader, mask);
  if (count % 64 != 0) mask[count / 64] &= (uint64_t{1} << (count % 64)) - 1;
}

void TakePlaces(const TernaryCoder& coder, std::span<const TernaryTileBytes> in,
                std::span<TernaryTile> tiles, BitReader* readers, WriteAhead* ahead) {
  const size_t streams = 2 * in.size();
  const auto take = streams == kStreamsMax ? coder.loops.take_four : coder.loops.take_two;
  for (size_t b = 0; b < kStreamBlocks; ++b) {
    uint64_t* masks[kStreamsMax];
    const MaskCode* codes[kStreamsMax];
    bool together = true;
    for (size_t s = 0; s < streams; ++s) {
      TernaryTile& tile = tiles[kStreams[s].tile];
      const size_t block = kStreams[s].first + b;
      masks[s] = tile.NonzeroOf(block);
      codes[s] = &coder.codes[tile.levels[block]];
      together &= in[kStreams[s].tile].size == kTernaryTile && tile.steps[block] != 0;
    }
    if (together) {
      take(codes, readers, masks, ahead->Part(streams), ahead->lines() * streams);
      continue;
    }
    for (size_t s = 0; s < streams; ++s) {
      TakeBlock(coder, kStreams[s].first + b, in[kStreams[s].tile].size, &readers[s],
                &tiles[kStreams[s].tile]);
    }
  }
}

// `reader` is behind the tile's places.
void TakeSigns(const CodecLoops& loops, BitReader reader, TernaryTile* tile) {
  size_t places = 0;
  for (const uint64_t word : tile->nonzero) places += static_cast<size_t>(std::popcount(word));
  std::array<uint64_t, kTernaryTile / 64> packed;
  for (size_t w = 0; w * 64 < places; ++w) {
    const uint64_t low = reader.Peek() & 0xffffffff;
    reader.Skip(32);
    packed[w] = low | (reader.Peek() << 32);
    reader.Skip(32);
  }
  loops.unpack_bits(packed.data(), tile->nonzero.data(), tile->nonzero.size(), tile->minus.data());
}

}  // namespace

void TakeTiles(const TernaryCoder& coder, std::span<const TernaryTileBytes> in,
               std::span<TernaryTile> tiles, WriteAhead* ahead) {
  SKERRY_CHECK(in.size() == tiles.size() && in.size() <= 2);
  std::array<TileBytes, 2> bytes;
  BitReader readers[kStreamsMax];
  for (size_t t = 0; t < in.size(); ++t) {
    bytes[t].Read(coder.loops, in[t]);
    readers[2 * t] = BitReader(bytes[t].forward.data() + kWordBytesRead);
    readers[2 * t + 1] = BitReader(bytes[t].backward.data());
  }
  TakePlaces(coder, in, tiles, readers, ahead);
  for (size_t t = 0; t < in.size(); ++t) TakeSigns(coder.loops, readers[2 * t], &tiles[t]);
}

}  // namespace skerry
