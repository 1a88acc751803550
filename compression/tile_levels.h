// At what two magnitudes a tile's candidates are sent, the same on every processor: in float64, in
// index order.
//
// Candidates: `size` of them, their `places` ascending, the bits of their `magnitudes`.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "compression/fixed_point.h"
#include "compression/tile_shape.h"

namespace skerry {

// In double and in index order: the same everywhere.
template <typename Candidates>
constexpr double Mean(const Candidates& of, uint64_t chosen) {
  double sum = 0;
  for (uint64_t left = chosen; left != 0; left &= left - 1) {
    sum += double{std::bit_cast<float>(of.magnitudes[std::countr_zero(left)])};
  }
  return sum / std::popcount(chosen);
}

constexpr uint64_t FirstBits(size_t count) {
  return count == 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1;
}

// The nearest ratio code whose level is within the window; 0 if there is none.
constexpr uint8_t RatioCode(double low, double high) {
  constexpr std::array<int32_t, 15> ratios = kRatios;
  uint8_t code = 1;
  while (code + 1u < ratios.size() && 8 * high > low * (ratios[code] + ratios[code + 1])) ++code;
  while (code > 0 && low * ratios[code] > 4.0 * kMagnitudeMax) --code;
  return code;
}

// The levels for values of these means, `high` of them at the high one.
constexpr void SetLevels(double low_mean, double high_mean, uint64_t high, TileSelection* out) {
  out->step = NearestStep(static_cast<float>(low_mean));
  out->ratio = high == 0 ? 1 : RatioCode(double{StepValue(out->step)}, high_mean);
  out->high = high;
  if (out->ratio != 0) return;
  out->ratio = 1;
  out->high = 0;
}

template <typename Candidates>
constexpr void ChooseLevels(const Candidates& of, TileSelection* out) {
  const uint64_t all = FirstBits(of.size);
  const double mean = Mean(of, all);
  uint64_t high = 0;
  for (size_t j = 0; j < of.size; ++j) {
    high |= static_cast<uint64_t>(double{std::bit_cast<float>(of.magnitudes[j])} > mean) << j;
  }
  const double low_mean = high == 0 ? mean : Mean(of, all & ~high);
  SetLevels(low_mean, high == 0 ? 0 : Mean(of, high), high, out);
}

// All candidates at one level; the other places are zero.
template <typename Candidates>
constexpr void FillUp(const Candidates& of, size_t k, TileSelection* out) {
  if (of.size > 0) out->step = NearestStep(static_cast<float>(Mean(of, FirstBits(of.size))));
  size_t next = 0, zeros = k - of.size;
  uint16_t place = 0;
  for (size_t j = 0; j < k; ++j) {
    const bool candidate = next < of.size && (zeros == 0 || of.places[next] <= place);
    if (candidate) {
      place = of.places[next++];
      out->high |= uint64_t{1} << j;
    } else {
      --zeros;
    }
    out->places[j] = place++;
  }
}

}  // namespace skerry
