// How a block of ternary finds its step and what reaches it (ternary.h): the same on every
// processor.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "compression/step_scale.h"

namespace skerry {

// A step is raised (mark_loops.h) until so few of a whole block reach its half, so often at most.
inline constexpr size_t kTernaryPlacesMax = 52;
inline constexpr uint8_t kTernaryRaisesMax = 3;

// What reaches half of the step is sent.
constexpr uint32_t HalfBits(uint8_t step) {
  return std::bit_cast<uint32_t>(StepValue(step) / 2);
}

}  // namespace skerry
