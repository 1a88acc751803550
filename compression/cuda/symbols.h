// How a codec's values lie in device memory: the *symbols* of GpuCodecTable, for the kernels and
// for the host that makes messages of them.
//
//   none, bf16         the message
//   int8, int4, sign   the message: a scale for each block of 256 values, then integers or signs
//   ternary            masks of places not zero · masks of negative values (32 bytes a block each)
//   ·
//                      steps. 2.03 bits a value; words of mask_code.h would have to be written one
//                      after the other, so the host writes them.
//   topk               a TileSelection for each tile of 4096; Rice codes are the host's, too.
//   lowrank            has none: its products are the host's
//
// Each is a row of *parts*, of each of which every tile of 4096 values takes equally many bytes, so
// that the symbols of a long message may be made piece by piece.
#pragma once

#include <cstdint>

#include "common/run_config.h"
#include "compression/tile_shape.h"

namespace skerry {

inline constexpr int kSymbolParts = 3;
inline constexpr int64_t kSymbolBlock = 256;

constexpr int64_t SymbolBlocks(int64_t n) {
  return (n + kSymbolBlock - 1) / kSymbolBlock;
}

// Bytes of a part for the first n values.
constexpr int64_t SymbolPartBytes(DeltaCodec codec, int part, int64_t n) {
  constexpr int64_t kMaskBytes = kSymbolBlock / 8;
  const int64_t blocks = SymbolBlocks(n);
  switch (codec) {
    case DeltaCodec::kNone:
      return part == 0 ? 4 * n : 0;
    case DeltaCodec::kBf16:
      return part == 0 ? 2 * n : 0;
    case DeltaCodec::kInt8:
      return part == 0 ? blocks : part == 1 ? n : 0;
    case DeltaCodec::kInt4:
      return part == 0 ? blocks : part == 1 ? (n + 1) / 2 : 0;
    case DeltaCodec::kSign:
      return part == 0 ? blocks : part == 1 ? (n + 7) / 8 : 0;
    case DeltaCodec::kTernary:
      return part < 2 ? blocks * kMaskBytes : blocks;
    case DeltaCodec::kTopK:
      return part == 0
                 ? (n + static_cast<int64_t>(kTopKTile) - 1) / static_cast<int64_t>(kTopKTile) *
                       static_cast<int64_t>(sizeof(TileSelection))
                 : 0;
    case DeltaCodec::kLowRank:
      return 0;
  }
  return 0;
}

// Where a part of n values begins.
constexpr int64_t SymbolPartBegin(DeltaCodec codec, int part, int64_t n) {
  int64_t bytes = 0;
  for (int before = 0; before < part; ++before) bytes += SymbolPartBytes(codec, before, n);
  return bytes;
}

constexpr int64_t SymbolBytes(DeltaCodec codec, int64_t n) {
  return SymbolPartBegin(codec, kSymbolParts, n);
}

}  // namespace skerry
