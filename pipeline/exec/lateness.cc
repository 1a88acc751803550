#include "pipeline/exec/lateness.h"

#include <algorithm>

namespace skerry {

void Lateness::Tick(Instant now) {
  const Duration gap = now - ticked_;
  // A timer is late for many reasons; one that is a whole period late was stopped, or its clock
  // was set.
  if (ticks_ && (gap > options_.tick * 2 || gap < Duration())) lost_ += gap - options_.tick;
  ticked_ = now;
  ticks_ = true;
}

void Lateness::Note(int64_t step, Duration took) {
  const int64_t stretch = step / options_.stretch_steps;
  if (stretch > stretch_) {
    longest_before_ = stretch == stretch_ + 1 ? Counted() : Duration();
    shortest_ = longest_ = Duration();
    stretch_ = stretch;
  }
  shortest_ = longest_ > Duration() ? std::min(shortest_, took) : took;
  longest_ = std::max(longest_, took);
  has_answers_ = true;
}

Duration Lateness::Counted() const {
  if (longest_before_ == Duration()) return std::min(longest_, shortest_ * kSpread);
  return std::min(longest_, longest_before_ * kGrowthNumerator / kGrowthDenominator);
}

Duration Lateness::Usual() const {
  return std::max(options_.floor, std::max(Counted(), longest_before_) * kFactor);
}

Duration Lateness::Patience(int32_t given_up) const {
  const Duration unknown = std::max(options_.floor * kUnknown, options_.expected * kFactor);
  const Duration usual = has_answers_ ? Usual() : unknown;
  return usual * (int64_t{1} << std::min(given_up, kDoublingsMax));
}

Duration Lateness::ReportAfter() const {
  return Usual() / 2;
}

}  // namespace skerry
