#include "coordinator/acquaintances.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "pipeline/plan/route.h"

namespace skerry {
namespace {

constexpr int64_t kAtTheEnd = std::numeric_limits<int64_t>::max();

using Partners = std::map<NodeId, std::vector<NodeId>>;  // in no order, and repeated

void AddPath(const PipelinePlan& plan, const Path& path, Partners& partners) {
  if (path.empty()) return;
  const auto pair = [&](const NodeId& a, const NodeId& b) {
    partners[a].push_back(b);
    partners[b].push_back(a);
  };
  const NodeId& home = NodeOf(plan, path.front());
  for (size_t i = 1; i < path.size(); ++i) {
    pair(NodeOf(plan, path[i - 1]), NodeOf(plan, path[i]));
    pair(home, NodeOf(plan, path[i]));
  }
}

}  // namespace

bool Acquaintances::Meet(const NodeId& a, const NodeId& b) {
  if (a == b || !met_[a].insert(b).second) return false;
  met_[b].insert(a);
  return true;
}

const std::set<NodeId>& Acquaintances::Of(const NodeId& node) const {
  static const std::set<NodeId> kNobody;
  const auto it = met_.find(node);
  return it == met_.end() ? kNobody : it->second;
}

void Acquaintances::Forget(const NodeId& node) {
  const auto it = met_.find(node);
  if (it == met_.end()) return;
  for (const NodeId& other : it->second) met_[other].erase(node);
  met_.erase(it);
}

std::map<NodeId, std::vector<NodeId>> PlanPartners(const PipelinePlan& plan) {
  Partners partners;
  for (size_t stage = 0; stage < plan.stages.size(); ++stage) {
    const std::vector<NodeId> holders = Holders(plan, static_cast<int32_t>(stage));
    for (const NodeId& holder : holders) {
      auto& others = partners[holder];
      others.insert(others.end(), holders.begin(), holders.end());
    }
  }
  // As paths are before joiners begin, and after.
  for (size_t index = 0; index < plan.paths.size(); ++index) {
    AddPath(plan, PatchedPath(plan, index, plan.start.step), partners);
    AddPath(plan, PatchedPath(plan, index, kAtTheEnd), partners);
  }
  for (auto& [node, others] : partners) {
    std::erase(others, node);
    std::sort(others.begin(), others.end());
    others.erase(std::unique(others.begin(), others.end()), others.end());
  }
  return partners;
}

}  // namespace skerry
