#include "node/passing_on.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace skerry {

bool PassingOn::HasAsked(const NodeId& whom, const NodeId& sender, int64_t round) const {
  const auto asked = asked_.find({round, sender});
  return asked != asked_.end() && asked->second.whom.contains(whom);
}

std::optional<NodeId> PassingOn::AskNext(const NodeId& sender, int64_t round,
                                         const std::vector<NodeId>& candidates) {
  std::vector<NodeId> heard;
  std::copy_if(candidates.begin(), candidates.end(), std::back_inserter(heard),
               [&](const NodeId& node) { return node != sender && !IsSilent(node); });
  if (heard.empty()) return std::nullopt;
  Asked& asked = asked_[{round, sender}];
  const NodeId next = heard[asked.times++ % heard.size()];
  asked.whom.insert(next);
  return next;
}

bool PassingOn::Wants(const NodeId& asker, const NodeId& sender, int64_t round) {
  if (askers_count_ >= kAskersMax) return false;
  const bool is_new = askers_[{round, sender}].try_emplace(asker, false).second;
  askers_count_ += is_new ? 1 : 0;
  return is_new;
}

std::vector<NodeId> PassingOn::TakeAskers(const NodeId& sender, int64_t round) {
  std::vector<NodeId> askers;
  const auto found = askers_.find({round, sender});
  if (found == askers_.end()) return askers;
  for (auto& [asker, given] : found->second) {
    if (!std::exchange(given, true)) askers.push_back(asker);
  }
  return askers;
}

void PassingOn::GiveAgain() {
  for (auto& [key, askers] : askers_) {
    for (auto& [asker, given] : askers) given = false;
  }
}

void PassingOn::ForgetBelow(int64_t round) {
  const auto is_over = [&](const auto& entry) { return entry.first.first < round; };
  std::erase_if(asked_, is_over);
  std::erase_if(askers_, [&](const auto& entry) {
    if (is_over(entry)) askers_count_ -= entry.second.size();
    return is_over(entry);
  });
}

}  // namespace skerry
