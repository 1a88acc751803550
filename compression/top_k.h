// Top-k: the 64 largest magnitudes of every tile of 4096 (SparseLoCo, Sarfi et al. 2025), two bits
// each, their places Rice-coded (Rice 1979). The starved tier.
//
// A tile of c values keeps k = ⌈c / 64⌉ of them, of equal magnitudes the first. The gap before a
// place, about 63 on average, is coded as its low five bits and the rest in unary; the parts lie
// one after the other instead of value by value, which changes no bit count but lets whole vectors
// move.
//
//   tile index (tile_index.h)
//   ⌈n / 4096⌉ heads: 15 · (unary bytes − ⌈k / 8⌉) + ratio code
//   ⌈n / 4096⌉ steps s (step_scale.h)
//   the tiles: k low parts of 5 bits · k bits, set: the high level · k sign bits, set: −
//              · unary: for each place as many 0 as its gap holds 32s, then a 1; each part padded
//                with zeros to a whole byte
//
// Levels. Kept values at most the mean of their magnitudes take the low one, the others the high
// one; a level is the mean of its values, the low one rounded to a step s, the high one to one of
// 14 ratios of s up to 16 (tile_selection.h), at most kMagnitudeMax. When fewer than k values reach
// half the least step the ratio code is 0: levels are 0 and s, and the first places of the other
// values fill up the k.
//
// Full tiles take 66 to 82 bytes; at places without pattern about 78.4, 0.153 bit a value. The
// decoded update is what 12 bits a place and 2 bits a value would give, at 0.219.
#pragma once

#include "compression/codec.h"
#include "compression/tile_shape.h"

namespace skerry {

class TopKCodec final : public Codec {
 public:
  explicit TopKCodec(const CodecLoops& loops) : loops_(loops) {}

  // The message of tiles that were selected elsewhere: `out` has room for EncodedSizeMax(n) bytes;
  // returns its length. And the tiles of a message that passed Check.
  size_t PackTiles(int64_t n, std::span<const TileSelection> tiles, uint8_t* out) const;
  void UnpackTiles(std::span<const uint8_t> bytes, int64_t n, std::span<TileSelection> tiles) const;

  int64_t EncodedSizeMin(int64_t n) const override;
  int64_t EncodedSizeMax(int64_t n) const override;
  void AccumulateRange(std::span<const uint8_t> bytes, int64_t n, int64_t first, int64_t weight,
                       std::span<int64_t> sum) const override;
  void DecodeRange(std::span<const uint8_t> bytes, int64_t n, int64_t first,
                   std::span<float> values) const override;

 private:
  std::optional<size_t> EncodeInto(const DeltaSource& source,
                                   std::span<uint8_t> out) const override;
  absl::Status CheckContent(std::span<const uint8_t> bytes, int64_t n) const override;

  const CodecLoops& loops_;
};

}  // namespace skerry
