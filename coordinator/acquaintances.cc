#include "coordinator/acquaintances.h"

#include <cstdint>
#include <limits>
#include <vector>

#include "pipeline/plan/route.h"

namespace skerry {
namespace {

constexpr int64_t kAtTheEnd = std::numeric_limits<int64_t>::max();

void Pair(std::map<NodeId, std::set<NodeId>>& partners, const NodeId& a, const NodeId& b) {
  if (a == b) return;
  partners[a].insert(b);
  partners[b].insert(a);
}

void AddPath(const PipelinePlan& plan, const Path& path,
             std::map<NodeId, std::set<NodeId>>& partners) {
  if (path.empty()) return;
  const NodeId& home = NodeOf(plan, path.front());
  for (size_t i = 1; i < path.size(); ++i) {
    Pair(partners, NodeOf(plan, path[i - 1]), NodeOf(plan, path[i]));
    Pair(partners, home, NodeOf(plan, path[i]));
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

std::map<NodeId, std::set<NodeId>> PlanPartners(const PipelinePlan& plan) {
  std::map<NodeId, std::set<NodeId>> partners;
  for (size_t stage = 0; stage < plan.stages.size(); ++stage) {
    const std::vector<NodeId> holders = Holders(plan, static_cast<int32_t>(stage));
    for (size_t i = 0; i < holders.size(); ++i) {
      for (size_t j = 0; j < i; ++j) Pair(partners, holders[i], holders[j]);
    }
  }
  // As paths are before joiners begin, and after.
  for (const Path& path : plan.paths) {
    AddPath(plan, PatchedPath(plan, path, plan.start.step), partners);
    AddPath(plan, PatchedPath(plan, path, kAtTheEnd), partners);
  }
  return partners;
}

}  // namespace skerry
