#include "node/work_checks.h"

#include <algorithm>

namespace skerry {

void WorkChecks::Watch(const WorkCheck& check) {
  const Key key{check.step, check.microbatch, check.suspect};
  if (check.checker == self_) {
    collected_[key].check = check;
    if (collected_.size() > kCollectedMax) collected_.erase(collected_.begin());
  } else if (check.before == self_ || check.after == self_) {
    watched_[key] = check;
    if (watched_.size() > kWatchedMax) watched_.erase(watched_.begin());
  }
}

std::optional<std::pair<NodeId, WorkCopy>> WorkChecks::CopyOf(const NodeId& other,
                                                              const Message& message,
                                                              bool was_sent) {
  const auto* activation = std::get_if<Activation>(&message);
  const auto* gradient = std::get_if<Gradient>(&message);
  WorkCopy copy;
  const auto take = [&](const auto& m, WorkPart sent, WorkPart got) {
    copy = {m.step, m.microbatch, m.attempt, other, was_sent ? sent : got, m.codec, m.values};
  };
  if (activation != nullptr) {
    take(*activation, WorkPart::kInput, WorkPart::kOutput);
  } else if (gradient != nullptr) {
    take(*gradient, WorkPart::kGradient, WorkPart::kDescended);
  } else {
    return std::nullopt;
  }
  const auto watched = watched_.find({copy.step, copy.microbatch, other});
  if (watched == watched_.end()) return std::nullopt;
  const bool is_before = copy.part == WorkPart::kInput || copy.part == WorkPart::kDescended;
  if ((is_before ? watched->second.before : watched->second.after) != self_) return std::nullopt;
  return std::pair(watched->second.checker, std::move(copy));
}

bool WorkChecks::Take(const NodeId& from, const WorkCopy& copy) {
  const auto it = collected_.find({copy.step, copy.microbatch, copy.suspect});
  if (it == collected_.end()) return false;
  Collected& collected = it->second;
  const bool is_before = copy.part == WorkPart::kInput || copy.part == WorkPart::kDescended;
  if ((is_before ? collected.check.before : collected.check.after) != from) return false;
  const auto part = static_cast<size_t>(copy.part);
  collected.attempts[part] = copy.attempt;
  collected.parts[part] = {copy.values, copy.codec};
  return true;
}

std::optional<WorkChecks::Whole> WorkChecks::TakeWhole() {
  for (auto it = collected_.begin(); it != collected_.end(); ++it) {
    const auto& attempts = it->second.attempts;
    const bool is_whole =
        attempts[0] >= 0 &&
        std::all_of(attempts.begin(), attempts.end(), [&](int32_t a) { return a == attempts[0]; });
    if (!is_whole) continue;
    Whole whole{it->second.check, std::move(it->second.parts)};
    collected_.erase(it);
    return whole;
  }
  return std::nullopt;
}

}  // namespace skerry
