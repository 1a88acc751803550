// The entropy coder of the ternary codec: static prefix codes (Huffman 1952) for eight places at a
// time.
//
// The places where a block is not zero are, given their share p, nearly independent. Eight of them
// are one symbol, so that a prefix code comes within a few per cent of the entropy 8·H(p); there is
// one code for each of 16 shares, made from integers only, so that it is the same everywhere:
// weight a^ones · (64 − a)^zeros with a = 64·p, but at least a floor (about 1/3000 of the total)
// that keeps words within 12 bits. Redundancy, per cent: 0.4 at p = .375, 0.6 at .27, 1.3 at
// .19, 1.8 at .125, 4 at .0625. The codes are complete, so that any bits decode to something.
//
// At p = 1/2 every word has eight bits, the mask from its last place to its first: no block needs
// more than its own mask.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace skerry {

inline constexpr size_t kMaskLevels = 16;
inline constexpr int kMaskCodeBits = 12;
inline constexpr uint8_t kPlainMaskLevel = 11;

struct MaskCode {
  struct Word {
    uint16_t bits = 0;  // first bit lowest
    uint16_t length = 0;
  };
  std::array<Word, 256> words;
  // By the next 12 bits: 256 · mask + length of the word.
  std::array<uint16_t, 1 << kMaskCodeBits> matches;
};

// By level. Made at the first call.
using MaskCodes = std::array<MaskCode, kMaskLevels>;
const MaskCodes& AllMaskCodes();

// The level of the least expected length when `ones` of `places` > 0 are set.
uint8_t MaskLevelFor(size_t ones, size_t places);

}  // namespace skerry
