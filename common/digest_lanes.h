// Many digests at once: BLAKE2b of as many inputs as a vector register has 64-bit lanes, each lane
// one input. One table per instruction set; digest.cc picks at run time.
//
// Files compiled for an instruction set may hold nothing that another file could be given instead
// of its own: no inline functions of headers, no templates of the standard library.
#pragma once

#include <cstddef>
#include <cstdint>

namespace skerry {

inline constexpr int kDigestLanesMax = 8;

// `inputs`: as many as there are lanes, `length` > 0 bytes each; `digests`: BLAKE2b-256 of each.
using DigestLanes = void (*)(const uint8_t* const* inputs, size_t length, uint8_t (*digests)[32]);

struct DigestLanesTable {
  int lanes;
  DigestLanes run;
};

// Those that this processor runs, best first, until one of no lanes.
const DigestLanesTable* RunnableDigestLanes();

void DigestEightLanes(const uint8_t* const* inputs, size_t length, uint8_t (*digests)[32]);
void DigestFourLanes(const uint8_t* const* inputs, size_t length, uint8_t (*digests)[32]);

}  // namespace skerry
