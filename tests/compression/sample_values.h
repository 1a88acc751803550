// Seeded arrays with what deltas and hostile senders contain.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "common/rng.h"

namespace skerry {

// Heavy-tailed values whose magnitude varies from block to block over 30 powers of two.
inline std::vector<float> HeavyTail(size_t n, uint64_t seed) {
  Rng rng(seed, "heavy tail");
  std::vector<float> values(n);
  double scale = 1;
  for (size_t i = 0; i < n; ++i) {
    if (i % 256 == 0) scale = std::exp2(static_cast<double>(rng.Below(30)) - 28.0);
    const double x = rng.Normal();
    values[i] = static_cast<float>(scale * x * x * x);
  }
  return values;
}

// What a round of training leaves: normal values, a scale per run of 4096, a few large ones.
inline std::vector<float> Gaussian(size_t n, uint64_t seed) {
  Rng rng(seed, "gaussian");
  std::vector<float> values(n);
  double scale = 1;
  for (size_t i = 0; i < n; ++i) {
    if (i % 4096 == 0) scale = 1e-4 * std::exp2(3 * rng.Uniform());
    values[i] = static_cast<float>(scale * rng.Normal() * (rng.Below(50) == 0 ? 4 : 1));
  }
  return values;
}

// A residual as bf16, by cutting values off: any halves do.
inline std::vector<uint16_t> Halves(const std::vector<float>& values) {
  std::vector<uint16_t> halves;
  for (const float v : values) {
    halves.push_back(static_cast<uint16_t>(std::bit_cast<uint32_t>(v) >> 16));
  }
  return halves;
}
inline std::vector<float> Widened(const std::vector<uint16_t>& halves) {
  std::vector<float> values;
  for (const uint16_t half : halves) values.push_back(std::bit_cast<float>(uint32_t{half} << 16));
  return values;
}

// Finite, but awkward: zeros of both signs, denormals, equal values, ties, the largest allowed.
inline std::vector<std::vector<float>> AwkwardButValid() {
  constexpr float kTiny = std::numeric_limits<float>::denorm_min();
  constexpr float kSmallest = std::numeric_limits<float>::min();
  return {{},
          {0.0f},
          {-0.0f, 0.0f, -0.0f},
          std::vector<float>(257, 0.0f),
          std::vector<float>(300, 0.125f),
          std::vector<float>(255, -3e-7f),
          {kTiny, -kTiny, kSmallest, -kSmallest},
          {1.0f, kTiny, -1e-30f},
          {2032.0f, -2032.0f, 1e-12f},
          {127.5f, 63.5f, 0.5f, 1.5f, 2.5f, -0.5f},
          {127.0f, 1.0f},
          {0x1.fdffffp0f, 0x1.fe0000p0f},
          {0x1p-41f, 0x1.8p-41f, 0x1p-40f, 3 * 0x1p-41f, -0x1p-41f}};
}

}  // namespace skerry
