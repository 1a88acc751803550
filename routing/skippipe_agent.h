// The shortest way of one of SkipPipe's agents alone: best first over partial paths, by the time
// until it is home again. It has no estimate of what remains and no closed list, as published, so
// its cost grows with the number of paths.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "routing/skippipe_problem.h"

namespace skerry {

// What an agent may not do.
struct AgentRules {
  std::vector<int32_t> stages;
  std::vector<int32_t> nodes;
  struct Window {
    int32_t node = 0;
    double from_s = 0;
    double until_s = 0;
  };
  std::vector<Window> windows;  // a visit that would start inside starts at its end
};

struct AgentVisit {
  int32_t node = 0;
  double start_s = 0;
};

struct AgentPath {
  std::vector<int32_t> nodes;
  std::vector<AgentVisit> forwards;
  std::vector<AgentVisit> backwards;  // along the path
  double cost_s = std::numeric_limits<double>::infinity();
};

class AgentRouter {
 public:
  // `stage_of`: [n]. The problem is kept by reference.
  AgentRouter(const SkipPipeProblem& problem, std::vector<int32_t> stage_of)
      : problem_(problem), stage_of_(std::move(stage_of)) {}

  // From `origin`, started at `start_s`; nullopt if the rules leave no way.
  std::optional<AgentPath> Shortest(const AgentRules& rules, int32_t origin, double start_s) const;

 private:
  struct Partial;

  double Forward(int32_t node) const { return problem_.forward_s[static_cast<size_t>(node)]; }
  double Backward(int32_t node) const { return Forward(node) * problem_.backward_factor; }
  double Start(const AgentRules& rules, int32_t node, double at) const;
  bool MayVisit(const AgentRules& rules, const Partial& partial, int32_t node) const;
  Partial Extended(const AgentRules& rules, const Partial& partial, int32_t node,
                   int64_t order) const;
  AgentPath Closed(const AgentRules& rules, const Partial& partial) const;

  const SkipPipeProblem& problem_;
  std::vector<int32_t> stage_of_;
};

}  // namespace skerry
