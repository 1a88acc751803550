#include "compression/tile_selection.h"

#include <algorithm>
#include <bit>

#include "compression/fixed_point.h"
#include "compression/step_scale.h"
#include "compression/tile_levels.h"

namespace skerry {
namespace {

constexpr uint32_t kLeastBits = std::bit_cast<uint32_t>(0x1p-37f);  // half the least step
constexpr size_t kWords = kTopKTile / 64;

constexpr size_t kWordsPerFetch = 16;

// Low bits of a first threshold that are not worth finding.
constexpr int kCoarse = 16;

struct Candidates {
  std::array<uint16_t, kTopKTile> places;
  std::array<uint32_t, kTopKTile> magnitudes;
  size_t size = 0;
};

// At least k values reach the k-th largest of any set of maxima of disjoint columns.
uint32_t FirstThreshold(const CodecLoops& loops, const TileMaxima& maxima, size_t k) {
  return std::max(loops.kth_largest(maxima.data(), maxima.size(), k, kCoarse), kLeastBits);
}

void Collect(const CodecLoops& loops, std::span<const float> u, uint32_t threshold, NextTile* next,
             Candidates* out) {
  std::array<uint64_t, kWords> mask;
  loops.at_least(u.data(), u.size(), threshold, mask.data());
  size_t size = 0;
  for (size_t w = 0; w * 64 < u.size(); ++w) {
    if (w % kWordsPerFetch == 0) next->Fetch();
    for (uint64_t left = mask[w]; left != 0; left &= left - 1) {
      const size_t place = w * 64 + static_cast<size_t>(std::countr_zero(left));
      out->places[size] = static_cast<uint16_t>(place);
      out->magnitudes[size++] = std::bit_cast<uint32_t>(u[place]) & 0x7fffffff;
    }
  }
  out->size = size;
}

// Keeps the k largest, of equal ones the first.
void Narrow(const CodecLoops& loops, size_t k, Candidates* of) {
  if (of->size == k) return;
  const uint32_t least = loops.kth_largest(of->magnitudes.data(), of->size, k, 0);
  const auto above =
      static_cast<size_t>(std::count_if(of->magnitudes.begin(), of->magnitudes.begin() + of->size,
                                        [least](uint32_t magnitude) { return magnitude > least; }));
  size_t equal = k - above;
  size_t kept = 0;
  for (size_t i = 0; i < of->size; ++i) {
    const uint32_t magnitude = of->magnitudes[i];
    const uint16_t place = of->places[i];
    const bool tie = magnitude == least && equal > 0;
    of->places[kept] = place;
    of->magnitudes[kept] = magnitude;
    kept += magnitude > least || tie ? 1 : 0;
    equal -= tie ? 1 : 0;
  }
  of->size = kept;
}

}  // namespace

TileSelection SelectTile(const CodecLoops& loops, std::span<const float> u,
                         const TileMaxima& maxima, NextTile* next) {
  const size_t k = KeptOf(u.size());
  Candidates candidates;
  next->Fetch();
  const uint32_t threshold = FirstThreshold(loops, maxima, k);
  next->Fetch();
  Collect(loops, u, threshold, next, &candidates);
  next->Fetch();
  TileSelection out;
  if (candidates.size < k) {
    FillUp(candidates, k, &out);
  } else {
    Narrow(loops, k, &candidates);
    std::copy_n(candidates.places.begin(), k, out.places.begin());
    ChooseLevels(candidates, &out);
  }
  for (size_t j = 0; j < k; ++j) {
    const uint64_t minus = std::bit_cast<uint32_t>(u[out.places[j]]) >> 31;
    out.minus |= (minus & (out.ratio != 0 || (out.high >> j & 1) != 0 ? 1 : 0)) << j;
  }
  return out;
}

}  // namespace skerry
