#include "routing/skippipe_agent.h"

#include <algorithm>
#include <queue>

namespace skerry {
namespace {

constexpr int64_t kExpansionsMax = 20000;

}  // namespace

struct AgentRouter::Partial {
  std::vector<int32_t> nodes;
  std::vector<AgentVisit> forwards;
  double forward_s = 0;   // when the last node has its input
  double backward_s = 0;  // transfers and computing of the way home so far
  double priority = 0;
  int32_t frontier = 0;
  int32_t swaps = 0;
  int64_t order = 0;
};

double AgentRouter::Start(const AgentRules& rules, int32_t node, double at) const {
  for (const AgentRules::Window& window : rules.windows) {
    if (window.node == node && at >= window.from_s && at < window.until_s) at = window.until_s;
  }
  return at;
}

bool AgentRouter::MayVisit(const AgentRules& rules, const Partial& partial, int32_t node) const {
  const int32_t stage = stage_of_[static_cast<size_t>(node)];
  if (stage == 0) return false;
  for (const int32_t seen : partial.nodes) {
    if (stage_of_[static_cast<size_t>(seen)] == stage) return false;
  }
  if (stage > partial.frontier + problem_.jump_max || stage < partial.frontier - 1) return false;
  if (stage < partial.frontier && partial.swaps >= problem_.swaps_max) return false;
  return std::find(rules.stages.begin(), rules.stages.end(), stage) == rules.stages.end() &&
         std::find(rules.nodes.begin(), rules.nodes.end(), node) == rules.nodes.end();
}

std::optional<AgentPath> AgentRouter::Shortest(const AgentRules& rules, int32_t origin,
                                               double start_s) const {
  const auto later = [](const Partial& a, const Partial& b) {
    return a.priority != b.priority ? a.priority > b.priority : a.order > b.order;
  };
  std::priority_queue<Partial, std::vector<Partial>, decltype(later)> queue(later);
  Partial start;
  const double at = Start(rules, origin, start_s);
  start.nodes = {origin};
  start.forwards = {{origin, at}};
  start.forward_s = at + Forward(origin);
  start.backward_s = Backward(origin);
  queue.push(start);
  int64_t order = 0;
  for (int64_t i = 0; i < kExpansionsMax && !queue.empty(); ++i) {
    const Partial partial = queue.top();
    queue.pop();
    const auto length = static_cast<int32_t>(partial.nodes.size());
    if (length == problem_.path_length) {
      return Closed(rules, partial);
    }
    for (int32_t node = 0; node < problem_.nodes(); ++node) {
      if (!MayVisit(rules, partial, node)) continue;
      queue.push(Extended(rules, partial, node, ++order));
    }
  }
  return std::nullopt;
}

AgentRouter::Partial AgentRouter::Extended(const AgentRules& rules, const Partial& partial,
                                           int32_t node, int64_t order) const {
  Partial next = partial;
  const int32_t before = partial.nodes.back();
  const int32_t stage = stage_of_[static_cast<size_t>(node)];
  const double at = Start(rules, node, partial.forward_s + problem_.TransferSeconds(before, node));
  next.nodes.push_back(node);
  next.forwards.push_back({node, at});
  next.forward_s = at + Forward(node);
  next.backward_s += Backward(node) + problem_.TransferSeconds(node, before);
  if (stage < partial.frontier) ++next.swaps;
  next.frontier = std::max(partial.frontier, stage);
  next.order = order;
  const bool complete = static_cast<int32_t>(next.nodes.size()) == problem_.path_length;
  const double home = complete ? 2 * problem_.TransferSeconds(node, next.nodes.front()) : 0;
  next.priority = next.forward_s + next.backward_s + home;
  return next;
}

AgentPath AgentRouter::Closed(const AgentRules& rules, const Partial& partial) const {
  AgentPath path;
  path.nodes = partial.nodes;
  path.forwards = partial.forwards;
  const int32_t origin = path.nodes.front();
  double at = partial.forward_s + problem_.TransferSeconds(path.nodes.back(), origin) +
              Forward(origin) * problem_.loss_factor;
  int32_t before = origin;
  for (size_t hop = path.nodes.size(); hop-- > 0;) {
    const int32_t node = path.nodes[hop];
    at = Start(rules, node, at + problem_.TransferSeconds(before, node));
    path.backwards.push_back({node, at});
    at += Backward(node);
    before = node;
  }
  path.cost_s = at;
  return path;
}

}  // namespace skerry
