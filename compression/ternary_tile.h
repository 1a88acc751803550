// A tile of the ternary code: which places of its four blocks are sent, their signs, and its bytes
// (ternary.h says how they lie).
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "compression/codec.h"
#include "compression/loops.h"
#include "compression/mask_code.h"
#include "compression/write_ahead.h"

namespace skerry {

inline constexpr size_t kTernaryTile = 1024;
inline constexpr size_t kTernaryTileBlocks = kTernaryTile / kCodecBlock;
inline constexpr size_t kTernaryTileBytesMax = 255;
inline constexpr size_t kBlockWords = kCodecBlock / 64;

struct TernaryCoder {
  const CodecLoops& loops;
  const MaskCodes& codes;
};

struct TernaryTile {
  // Left as they are: a block of step 0 has no places, and where there is none `minus` may be
  // anything.
  std::array<uint64_t, kTernaryTile / 64> nonzero, minus;
  std::array<uint8_t, kTernaryTileBlocks> steps = {};
  std::array<uint8_t, kTernaryTileBlocks> levels = {};

  uint64_t* NonzeroOf(size_t block) { return nonzero.data() + block * kBlockWords; }
  uint64_t* MinusOf(size_t block) { return minus.data() + block * kBlockWords; }
};

// Writes a tile: its blocks in order, then Finish.
class TernaryTileWriter {
 public:
  explicit TernaryTileWriter(const TernaryCoder& coder) : coder_(coder) {}

  // `block` of step > 0 has `ones` places of `count`. Chooses its level.
  void PutBlock(size_t block, size_t ones, size_t count, TernaryTile* tile, ReadAhead* ahead);

  // The bytes, until the writer goes.
  std::span<const uint8_t> Finish(const TernaryTile& tile);

 private:
  // Whatever the bits, a stream's words take 64 · 12 of them, and the signs 1024.
  static constexpr size_t kWordBytes = kTernaryTile / 2 / 8 * kMaskCodeBits / 8 + kBitSlack;
  static constexpr size_t kBytes = kWordBytes + kTernaryTile / 8 + kBitSlack;

  void PutSigns(const TernaryTile& tile);

  const TernaryCoder& coder_;
  std::array<uint8_t, kBitSlack + kBytes> front_;  // room for a word before it
  std::array<uint8_t, kWordBytes> back_;           // the second stream
  BitWriter writers_[2] = {BitWriter(front_.data() + kBitSlack), BitWriter(back_.data())};
};

// A tile to read: whole or short, its steps and levels filled in.
struct TernaryTileBytes {
  const uint8_t* bytes = nullptr;
  size_t length = 0;
  size_t size = kTernaryTile;  // values
};

// The places and signs of one or two tiles: a stream's words depend on each other, those of four
// streams do not. Asks ahead for what is decoded next.
void TakeTiles(const TernaryCoder& coder, std::span<const TernaryTileBytes> in,
               std::span<TernaryTile> tiles, WriteAhead* ahead);

}  // namespace skerry
