// Over-relaxed ternary: −s, 0 or s with s near the *largest* magnitude of a block of 256 and a dead
// zone of half of it, entropy-coded. The default tier, both ways.
//
// When more than 52 of a whole block reach the dead zone's end, as with the even values of an
// optimizer that clips or normalises, the step is raised by quarters of an octave, three at most,
// until they do not: at most 0.2 of the values are sent, and a message is below 1.0 bit a value
// unless a block has few different magnitudes. (A step is raised only where that sends fewer
// values, so what was decoded is never raised again.)
//
// With feedback the large step beats unbiased ones at equal sparsity (integrate and fire: a value
// waits in the residual until it is worth a whole step), and it leaves four fifths of the values
// zero.
//
//   tile index (tile_index.h), tiles of 1024 values
//   ⌈n / 1024⌉ lengths in bytes of the tiles
//   ⌈n / 256⌉ steps s (step_scale.h): the one nearest to the block's absmax, or up to three higher
//   ⌈n / 512⌉ pairs of levels (mask_code.h) of the blocks, the first in the low half
//   the tiles: for each block with s > 0 the places where |u| ≥ s / 2, eight at a time, each a word
//   of its level's code; blocks 0 and 1 from the tile's first bit on, followed by a sign bit (set:
//   −) for each place of the tile; blocks 2 and 3 from its last bit backwards; zeros between, to a
//   whole byte
//
// Two streams, because a word's place depends on all words before: two are decoded in the time of
// one.
//
// A block of step 0 has level 0 and no places. The encoder takes the plain level when the code of a
// block's level would take more than the mask itself; so a tile takes at most 255 bytes: blocks of
// 255 or 256 places are short in the last level's code, any other takes 256 + 254 bits at most.
// Decoding is total by construction: every bit pattern is a sequence of words.
#pragma once

#include "compression/codec.h"

namespace skerry {

class TernaryCodec final : public Codec {
 public:
  explicit TernaryCodec(const CodecLoops& loops) : loops_(loops) {}

  // Symbols: of each block its step and the masks of places that are not zero and of negative ones
  // (four words each), as the encoder finds them; for encoders and decoders on other devices. Pack
  // writes the message of n values to `out`, which has room for EncodedSizeMax(n) bytes, and
  // returns its length; Unpack takes a message that passed Check.
  size_t PackSymbols(int64_t n, const uint64_t* nonzero, const uint64_t* minus,
                     const uint8_t* steps, uint8_t* out) const;
  void UnpackSymbols(std::span<const uint8_t> bytes, int64_t n, uint64_t* nonzero, uint64_t* minus,
                     uint8_t* steps) const;

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
