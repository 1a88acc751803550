#include "coordinator/report_series.h"

#include <algorithm>

namespace skerry {
namespace {

using Entry = StepSeries::Entry;

Entry Joined(const Entry& a, const Entry& b) {
  Entry both = b;
  both.first = a.first;
  both.steps += a.steps;
  both.tokens += a.tokens;
  both.finite += a.finite;
  if (both.finite > 0) {
    both.loss = (a.loss * static_cast<double>(a.finite) + b.loss * static_cast<double>(b.finite)) /
                static_cast<double>(both.finite);
  }
  return both;
}

}  // namespace

void StepSeries::Add(const Entry& entry) {
  const auto at = std::lower_bound(entries_.begin(), entries_.end(), entry.step,
                                   [](const Entry& e, int64_t step) { return e.step < step; });
  if (at != entries_.end() && at->first <= entry.step) {
    const bool is_same = at->step == entry.step && at->steps == 1 && entry.steps == 1;
    if (!is_same) return;
    tokens_ += entry.tokens - at->tokens;
    at->tokens = entry.tokens;
    if (entry.finite > 0) at->finite = 1, at->loss = entry.loss;
    return;
  }
  entries_.insert(at, entry);
  steps_ += entry.steps;
  tokens_ += entry.tokens;
  if (bounded_ && entries_.size() > kMost) Thin();
}

// Entries of so many steps that they fill half of the room.
void StepSeries::Thin() {
  const auto most = static_cast<int64_t>(kMost);
  const int64_t target = std::max<int64_t>(2, 4 * steps_ / most);
  std::vector<Entry> thinned;
  thinned.reserve(kMost + 1);
  const size_t fine = entries_.size() - kFine;
  for (size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    if (i < fine && !thinned.empty() && thinned.back().steps + entry.steps <= target) {
      thinned.back() = Joined(thinned.back(), entry);
    } else {
      thinned.push_back(entry);
    }
  }
  entries_ = std::move(thinned);
}

void StepSeries::Rewind(int64_t step) {
  while (!entries_.empty() && entries_.back().step >= step) {
    Entry& last = entries_.back();
    steps_ -= last.steps;
    tokens_ -= last.tokens;
    if (last.first >= step) {
      entries_.pop_back();
      continue;
    }
    // Of several, those before are kept, with their share of the tokens.
    const int64_t kept = std::min(last.steps, step - last.first);
    last.tokens = last.tokens * kept / last.steps;
    last.finite = std::min(last.finite, kept);
    last.steps = kept;
    last.step = step - 1;
    steps_ += last.steps;
    tokens_ += last.tokens;
  }
}

}  // namespace skerry
