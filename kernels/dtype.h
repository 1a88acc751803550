// Types of stored numbers.
#pragma once

#include <cstdint>

namespace skerry {

enum class DType : uint8_t { kFloat32, kBfloat16 };

// The upper half of a float32: 8 bits of exponent, 7 of mantissa.
struct Bf16 {
  uint16_t bits = 0;
};

}  // namespace skerry
