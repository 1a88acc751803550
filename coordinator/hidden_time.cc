#include "coordinator/hidden_time.h"

#include <algorithm>
#include <cmath>

namespace skerry {
namespace {

// A year: what is beyond, or no number, is nonsense that must not spoil the sum.
constexpr double kSecondsMax = 31'536'000;

int64_t Micros(double seconds) {
  return seconds > 0 ? std::llround(1e6 * std::min(seconds, kSecondsMax)) : 0;
}

bool TookPart(const RoundCommit& commit, const NodeId& node) {
  return std::any_of(commit.participants.begin(), commit.participants.end(),
                     [&](const Participant& one) { return one.node == node; });
}

}  // namespace

void HiddenTime::Add(const HiddenTime& other) {
  transfer_us += other.transfer_us;
  wait_us += other.wait_us;
}

void HiddenTime::TakeBack(const HiddenTime& other) {
  transfer_us -= other.transfer_us;
  wait_us -= other.wait_us;
}

double HiddenTime::Fraction() const {
  if (transfer_us <= 0) return 1;
  return 1 - static_cast<double>(wait_us) / static_cast<double>(transfer_us);
}

HiddenTime HiddenTimeOf(const RoundCommit& commit, const std::map<NodeId, RoundApplied>& reports) {
  const RoundApplied* last = nullptr;
  for (const auto& [node, report] : reports) {
    if (report.transfer_s <= 0) continue;  // a joiner's: it had no boundary
    if (last != nullptr && report.transfer_s >= last->transfer_s) continue;
    // Who came late is not in it, and nobody waited for it.
    if (TookPart(commit, node)) last = &report;
  }
  if (last == nullptr) return {};
  return {Micros(last->transfer_s), Micros(last->wait_s)};
}

}  // namespace skerry
