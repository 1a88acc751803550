// Cutting a size into parts.
#pragma once

#include <cstdint>

namespace skerry {

// Parts of `piece` each, the last one smaller.
inline int64_t Cuts(int64_t size, int64_t piece) {
  return (size + piece - 1) / piece;
}

// How large each is where `size` is cut into as few nearly equal parts as `most` allows; a multiple
// of `grain`.
inline int64_t EvenPart(int64_t size, int64_t most, int64_t grain) {
  return Cuts(Cuts(size, Cuts(size, most)), grain) * grain;
}

}  // namespace skerry
