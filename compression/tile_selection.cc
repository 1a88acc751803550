#include "compression/tile_selection.h"

#include <algorithm>
#include <bit>

#include "compression/fixed_point.h"
#include "compression/step_scale.h"
#include "compression/tile_levels.h"

namespace skerry {
namespace {

constexpr uint32_t kLeastBits = std::bit_cast<uint32_t>(0x1p-37f);  // half the least step

// A guess is an eighth of an octave below the last tile's least: half as many again reach it, as a
// rule. When many more do, it was of other values.
constexpr uint32_t kGuessMargin = 1 << 20;
constexpr size_t kCandidatesEnough = 512;

// The bits of the least float32 above x > 0.
uint32_t BitsAbove(double x) {
  const auto near = static_cast<float>(x);
  return std::bit_cast<uint32_t>(near) + (double{near} > x ? 0 : 1);
}

}  // namespace

void TileSelector::Collect(size_t size) {
  Candidates& of = candidates_;
  of.size = loops_.list_places(mask_.data(), (size + 63) / 64, of.places.data(), &ahead_);
  for (size_t i = 0; i < of.size; ++i) {
    of.magnitudes[i] = std::bit_cast<uint32_t>(u_[of.places[i]]) & 0x7fffffff;
  }
}

uint32_t TileSelector::Narrow(size_t k, uint32_t floor) {
  Candidates& of = candidates_;
  const uint32_t least = loops_.kth_largest(of.magnitudes.data(), of.size, k, floor);
  if (of.size == k) return least;
  uint64_t* const mask = mask_.data();
  size_t reach = loops_.magnitudes_at_least(of.magnitudes.data(), of.size, least, mask);
  for (size_t i = of.size; reach > k;) {  // of equal ones the first stay
    if (of.magnitudes[--i] != least) continue;
    mask[i / 64] &= ~(uint64_t{1} << (i % 64));
    --reach;
  }
  std::array<uint16_t, kTopKMax + kPlacesSlack> kept;
  ReadAhead nothing = ReadAhead::Nothing();
  of.size = loops_.list_places(mask, (of.size + 63) / 64, kept.data(), &nothing);
  for (size_t j = 0; j < k; ++j) {
    of.places[j] = of.places[kept[j]];
    of.magnitudes[j] = of.magnitudes[kept[j]];
  }
  return least;
}

// As ChooseLevels. Float64 adds at most 64 float32 without rounding, in any order, when their
// exponents differ by at most 23: 24 bits, as many below them, six of carry.
void TileSelector::FindLevels(uint32_t least, TileSelection* out) {
  const Candidates& of = candidates_;
  const uint32_t* magnitudes = of.magnitudes.data();
  uint32_t largest = 0;
  for (size_t j = 0; j < of.size; ++j) largest = std::max(largest, magnitudes[j]);
  if ((largest >> 23) - (least >> 23) > 23) return ChooseLevels(of, out);
  const double sum = loops_.sum_at_least(magnitudes, of.size, 0);
  const double mean = sum / static_cast<double>(of.size);
  const uint32_t above = BitsAbove(mean);
  uint64_t high = 0;
  const size_t highs = loops_.magnitudes_at_least(magnitudes, of.size, above, &high);
  if (highs == 0) return SetLevels(mean, 0, 0, out);
  const double high_sum = loops_.sum_at_least(magnitudes, of.size, above);
  SetLevels((sum - high_sum) / static_cast<double>(of.size - highs),
            high_sum / static_cast<double>(highs), high, out);
}

bool TileSelector::Select(const LoopSource& source, size_t size, TileSelection* out) {
  const size_t k = KeptOf(size);
  uint32_t floor = std::max(guess_, kLeastBits);
  TileMarks marks = {u_.data(), mask_.data()};
  const uint32_t largest = loops_.form_above(source, size, floor, &marks, &ahead_);
  if (largest > std::bit_cast<uint32_t>(kMagnitudeMax)) return false;
  if (marks.reach < k || marks.reach > kCandidatesEnough) {
    // At least k values reach the k-th largest of any set of maxima of disjoint columns.
    alignas(64) std::array<uint32_t, kMaximaColumns> maxima;
    loops_.column_maxima(u_.data(), size, maxima.data());
    floor = std::max(loops_.kth_largest(maxima.data(), maxima.size(), k, 0), kLeastBits);
    loops_.at_least(u_.data(), size, floor, mask_.data());
  }
  Collect(size);
  *out = {};
  if (candidates_.size < k) {
    FillUp(candidates_, k, out);
  } else {
    const uint32_t least = Narrow(k, floor);
    guess_ = least - kGuessMargin;
    std::copy_n(candidates_.places.begin(), k, out->places.begin());
    FindLevels(least, out);
  }
  for (size_t j = 0; j < k; ++j) {
    if (j % kKeptPerLine == 0) ahead_.Line();
    out->minus |= static_cast<uint64_t>(std::bit_cast<uint32_t>(u_[out->places[j]]) >> 31) << j;
  }
  if (out->ratio == 0) out->minus &= out->high;
  return true;
}

}  // namespace skerry
