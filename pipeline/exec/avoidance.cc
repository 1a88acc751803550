#include "pipeline/exec/avoidance.h"

#include <algorithm>
#include <limits>

namespace skerry {

bool Avoidance::Avoids(const NodeId& node, Key key, Instant now) {
  const auto it = late_.find(node);
  if (it == late_.end() || it->second.trusted) return false;
  Entry& entry = it->second;
  if (entry.tries) return *entry.tries != key;
  if (now < entry.until) return true;
  entry.tries = key;
  return false;
}

void Avoidance::OnLate(const NodeId& node, int64_t step, Instant sent, Instant now) {
  const auto [it, is_new] = late_.try_emplace(node);
  Entry& entry = it->second;
  if (is_new || entry.trusted) entry.step = step;
  const Duration first = floor_ * kFirst;
  if (is_new || (entry.trusted && now > entry.until + entry.span * 2)) {
    entry.span = first;
  } else if (sent >= entry.since) {
    entry.span = std::min(entry.span * 2, floor_ * kMost);
  } else {
    return;  // it was under way when the node was found late
  }
  entry.since = now;
  entry.until = now + entry.span;
  entry.tries.reset();
  entry.trusted = false;
}

int64_t Avoidance::OldestStep() const {
  int64_t oldest = std::numeric_limits<int64_t>::max();
  for (const auto& [node, entry] : late_) {
    if (!entry.trusted) oldest = std::min(oldest, entry.step);
  }
  return oldest;
}

void Avoidance::OnOver(Key key, Instant now) {
  for (auto& [node, entry] : late_) {
    if (entry.tries != key) continue;
    entry.tries.reset();
    entry.trusted = true;
    entry.until = now;
  }
}

void Avoidance::OnGivenUp(Key key) {
  for (auto& [node, entry] : late_) {
    if (entry.tries == key) entry.tries.reset();
  }
}

void Avoidance::ForgetIf(const std::function<bool(const NodeId&)>& moved) {
  std::erase_if(late_, [&](const auto& entry) { return moved(entry.first); });
}

}  // namespace skerry
