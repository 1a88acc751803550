#include "routing/skippipe_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include "common/status.h"
#include "routing/dtfm.h"
#include "routing/skippipe_agent.h"
#include "routing/skippipe_evaluator.h"

namespace skerry {
namespace {

constexpr double kWaveReleaseSeconds = 2.5;
constexpr int kParticipationChildren = 3;
constexpr int kMemoryChildren = 2;
constexpr size_t kEqualSolutions = 32;  // plans of equal participation before memory counts
constexpr size_t kOpenMax = 500;        // beyond, only the best are kept
constexpr size_t kSolutionsMax = 8;     // plans without a conflict
constexpr double kGoodEnough = 0.88;    // of the first simulated time
constexpr double kWorseSecondsMax = 5;  // than the best plan: dropped

struct Candidate {
  std::vector<AgentRules> rules;  // [agents]
  std::vector<AgentPath> paths;   // [agents]
  double cost_s = 0;              // the slowest agent's
  int64_t order = 0;
};

std::vector<int32_t> StagesOf(const SkipPipeProblem& problem,
                              const std::vector<std::vector<int32_t>>& partitions) {
  std::vector<int32_t> stage_of(problem.forward_s.size());
  for (size_t s = 0; s < partitions.size(); ++s) {
    for (const int32_t node : partitions[s]) {
      stage_of[static_cast<size_t>(node)] = static_cast<int32_t>(s);
    }
  }
  return stage_of;
}

class Router {
 public:
  Router(const SkipPipeProblem& problem, const std::vector<std::vector<int32_t>>& partitions,
         const SkipPipeSearchOptions& options, bool newest_first)
      : newest_first_(newest_first),
        problem_(problem),
        partitions_(partitions),
        options_(options),
        evaluator_(problem),
        stage_of_(StagesOf(problem, partitions)),
        agents_(problem, stage_of_) {}

  absl::StatusOr<SkipPipeSchedule> Route() {
    Candidate root;
    root.rules.resize(static_cast<size_t>(agents()));
    root.paths.resize(root.rules.size());
    for (int32_t agent = 0; agent < agents(); ++agent) {
      if (!Plan(root, agent)) {
        return FailedPrecondition("no tour of %d stages from node %d", problem_.path_length,
                                  OriginOf(agent));
      }
    }
    Push(std::move(root));
    Search();
    if (best_.microbatches.empty()) {
      return FailedPrecondition("no plan without conflicts among %d of its search", looked_at_);
    }
    return best_;
  }

 private:
  int32_t agents() const { return problem_.stage_sizes.front() * problem_.in_flight; }
  int32_t OriginOf(int32_t agent) const {
    return partitions_.front()[static_cast<size_t>(agent / problem_.in_flight)];
  }
  double Forward(int32_t node) const { return problem_.forward_s[static_cast<size_t>(node)]; }
  double Backward(int32_t node) const { return Forward(node) * problem_.backward_factor; }

  // The shortest way of one memory slot under its rules; false: there is none.
  bool Plan(Candidate& candidate, int32_t agent) const {
    const int32_t origin = OriginOf(agent);
    auto path = agents_.Shortest(candidate.rules[static_cast<size_t>(agent)], origin,
                                 agent % problem_.in_flight * Forward(origin));
    if (path) candidate.paths[static_cast<size_t>(agent)] = *std::move(path);
    return path.has_value();
  }

  void Push(Candidate candidate) {
    candidate.cost_s = 0;
    for (const AgentPath& path : candidate.paths) {
      candidate.cost_s = std::max(candidate.cost_s, path.cost_s);
    }
    candidate.order = created_++;
    open_.push_back(std::make_unique<Candidate>(std::move(candidate)));
  }

  bool IsBefore(const Candidate& a, const Candidate& b) const {
    if (a.cost_s != b.cost_s) return a.cost_s < b.cost_s;
    return newest_first_ ? a.order > b.order : a.order < b.order;
  }

  std::unique_ptr<Candidate> PopBest() {
    const auto best =
        std::min_element(open_.begin(), open_.end(),
                         [this](const auto& a, const auto& b) { return IsBefore(*a, *b); });
    std::unique_ptr<Candidate> candidate = std::move(*best);
    *best = std::move(open_.back());
    open_.pop_back();
    return candidate;
  }

  void Search() {
    while (!open_.empty() && ++looked_at_ <= options_.nodes_max && !finished_) {
      if (options_.should_stop && options_.should_stop()) return;
      const std::unique_ptr<Candidate> candidate = PopBest();
      if (SplitParticipation(*candidate)) continue;
      if (!memory_phase_) {
        equal_.push_back(std::make_unique<Candidate>(*candidate));
        if (equal_.size() < kEqualSolutions && !open_.empty()) continue;
        memory_phase_ = true;
        open_ = std::move(equal_);
        continue;
      }
      Prune();
      if (SplitMemory(*candidate)) continue;
      Keep(*candidate);
      if (!options_.avoid_collisions || !SplitCollision(*candidate)) {
        if (++solutions_ >= kSolutionsMax) finished_ = true;
      }
    }
  }

  void Prune() {
    if (open_.size() <= kOpenMax) return;
    std::sort(open_.begin(), open_.end(),
              [this](const auto& a, const auto& b) { return IsBefore(*a, *b); });
    open_.resize(kOpenMax / 2);
  }

  // Ban `surplus` of these users, fastest first, in up to `children` ways.
  template <typename Ban>
  void SplitUsers(const Candidate& parent, std::vector<int32_t> users, size_t quota, int children,
                  Ban ban) {
    std::stable_sort(users.begin(), users.end(), [&](int32_t a, int32_t b) {
      return parent.paths[static_cast<size_t>(a)].cost_s <
             parent.paths[static_cast<size_t>(b)].cost_s;
    });
    const size_t surplus = users.size() - quota;
    for (size_t first = 0; first < static_cast<size_t>(children); ++first) {
      Candidate child = parent;
      size_t banned = 0;
      for (size_t i = first; i < users.size() && banned < surplus; ++i) {
        AgentRules& rules = child.rules[static_cast<size_t>(users[i])];
        const AgentRules before = rules;
        ban(rules);
        if (Plan(child, users[i])) {
          ++banned;
        } else {
          rules = before;  // it has no other way left
        }
      }
      if (banned == surplus) Push(std::move(child));
    }
  }

  // Agents that a stage may serve.
  size_t StageQuota(int32_t stage) const {
    const int32_t slots = problem_.stage_sizes[static_cast<size_t>(stage)] * problem_.in_flight;
    const int32_t others = problem_.stages() - 1;
    const int32_t share = (agents() * (problem_.path_length - 1) + others - 1) / others;
    return static_cast<size_t>(options_.equal_shares ? std::min(slots, share) : slots);
  }

  size_t NodeQuota(size_t node) const {
    const auto slots = static_cast<size_t>(problem_.in_flight);
    const int32_t stage = stage_of_[node];
    if (!options_.equal_shares || stage == 0) return slots;
    const auto size = static_cast<size_t>(problem_.stage_sizes[static_cast<size_t>(stage)]);
    return std::min(slots, (StageQuota(stage) + size - 1) / size);
  }

  bool SplitParticipation(const Candidate& candidate) {
    for (int32_t stage = 1; stage < problem_.stages(); ++stage) {
      const size_t quota = StageQuota(stage);
      std::vector<int32_t> users;
      for (int32_t agent = 0; agent < agents(); ++agent) {
        for (const int32_t node : candidate.paths[static_cast<size_t>(agent)].nodes) {
          if (stage_of_[static_cast<size_t>(node)] == stage) users.push_back(agent);
        }
      }
      if (users.size() <= quota) continue;
      SplitUsers(candidate, users, quota, kParticipationChildren,
                 [stage](AgentRules& rules) { rules.stages.push_back(stage); });
      return true;
    }
    return false;
  }

  bool SplitMemory(const Candidate& candidate) {
    std::vector<std::vector<int32_t>> users(stage_of_.size());
    for (int32_t agent = 0; agent < agents(); ++agent) {
      for (const int32_t node : candidate.paths[static_cast<size_t>(agent)].nodes) {
        users[static_cast<size_t>(node)].push_back(agent);
      }
    }
    for (size_t node = 0; node < users.size(); ++node) {
      const size_t quota = NodeQuota(node);
      if (users[node].size() <= quota) continue;
      SplitUsers(candidate, users[node], quota, kMemoryChildren,
                 [node](AgentRules& rules) { rules.nodes.push_back(static_cast<int32_t>(node)); });
      return true;
    }
    return false;
  }

  struct Stay {
    int32_t agent = 0;
    double from_s = 0;
    double until_s = 0;
    bool forward = false;
  };

  // The earliest two that compute on one node at a time; two backwards never collide.
  bool FindCollision(const Candidate& candidate, int32_t& node, Stay& first, Stay& second) const {
    double earliest = std::numeric_limits<double>::infinity();
    std::vector<std::vector<Stay>> stays(stage_of_.size());
    for (int32_t agent = 0; agent < agents(); ++agent) {
      const AgentPath& path = candidate.paths[static_cast<size_t>(agent)];
      for (const AgentVisit& visit : path.forwards) {
        stays[static_cast<size_t>(visit.node)].push_back(
            {agent, visit.start_s, visit.start_s + Forward(visit.node), true});
      }
      for (const AgentVisit& visit : path.backwards) {
        stays[static_cast<size_t>(visit.node)].push_back(
            {agent, visit.start_s, visit.start_s + Backward(visit.node), false});
      }
    }
    for (size_t i = 0; i < stays.size(); ++i) {
      std::vector<Stay>& at = stays[i];
      std::stable_sort(at.begin(), at.end(),
                       [](const Stay& a, const Stay& b) { return a.from_s < b.from_s; });
      for (size_t a = 0; a < at.size(); ++a) {
        for (size_t b = a + 1; b < at.size() && at[b].from_s < at[a].until_s - 1e-9; ++b) {
          if (at[a].agent == at[b].agent || !(at[a].forward || at[b].forward)) continue;
          if (at[b].from_s >= earliest) continue;
          earliest = at[b].from_s;
          node = static_cast<int32_t>(i);
          first = at[a];
          second = at[b];
        }
      }
    }
    return std::isfinite(earliest);
  }

  bool SplitCollision(const Candidate& candidate) {
    int32_t node = 0;
    Stay first;
    Stay second;
    if (!FindCollision(candidate, node, first, second)) return false;
    const auto put_off = [&](int32_t agent, const Stay& by) {
      Candidate child = candidate;
      child.rules[static_cast<size_t>(agent)].windows.push_back({node, by.from_s, by.until_s});
      if (!Plan(child, agent)) return;
      if (Simulate(child) > best_s_ + kWorseSecondsMax) return;
      Push(std::move(child));
    };
    put_off(second.agent, first);
    const bool slow = IsSlow(candidate, first.agent) || IsSlow(candidate, second.agent);
    if (first.forward && second.forward && !slow) put_off(first.agent, second);
    return true;
  }

  // Of the slowest quarter.
  bool IsSlow(const Candidate& candidate, int32_t agent) const {
    std::vector<double> costs;
    for (const AgentPath& path : candidate.paths) costs.push_back(path.cost_s);
    std::sort(costs.begin(), costs.end());
    return candidate.paths[static_cast<size_t>(agent)].cost_s > costs[costs.size() * 3 / 4];
  }

  SkipPipeSchedule ScheduleOf(const Candidate& candidate) const {
    SkipPipeSchedule schedule{partitions_, {}};
    for (int32_t agent = 0; agent < agents(); ++agent) {
      const std::vector<int32_t>& path = candidate.paths[static_cast<size_t>(agent)].nodes;
      const double release = agent % problem_.in_flight * Forward(path.front());
      for (int32_t wave = 0; wave < problem_.waves; ++wave) {
        schedule.microbatches.push_back({path, agent, wave, release + wave * kWaveReleaseSeconds});
      }
    }
    return schedule;
  }

  double Simulate(const Candidate& candidate) {
    return evaluator_.IterationSeconds(Flatten(ScheduleOf(candidate)));
  }

  void Keep(const Candidate& candidate) {
    const double seconds = Simulate(candidate);
    if (!std::isfinite(first_s_)) first_s_ = seconds;
    if (seconds >= best_s_) return;
    best_s_ = seconds;
    best_ = ScheduleOf(candidate);
    if (best_s_ <= kGoodEnough * first_s_) finished_ = true;
  }

  bool newest_first_;  // among plans of equal cost
  const SkipPipeProblem& problem_;
  const std::vector<std::vector<int32_t>>& partitions_;
  const SkipPipeSearchOptions& options_;
  SkipPipeEvaluator evaluator_;
  std::vector<int32_t> stage_of_;
  AgentRouter agents_;
  std::vector<std::unique_ptr<Candidate>> open_;
  std::vector<std::unique_ptr<Candidate>> equal_;
  bool memory_phase_ = false;
  bool finished_ = false;
  int64_t created_ = 0;
  int64_t looked_at_ = 0;
  size_t solutions_ = 0;
  double first_s_ = std::numeric_limits<double>::infinity();
  double best_s_ = std::numeric_limits<double>::infinity();
  SkipPipeSchedule best_;
};

}  // namespace

absl::StatusOr<std::vector<std::vector<int32_t>>> PlaceLikeSkipPipe(
    const SkipPipeProblem& problem, const SkipPipeSearchOptions& options) {
  SKERRY_RETURN_IF_ERROR(ValidateProblem(problem));
  DtfmProblem placement;
  placement.group_sizes = problem.stage_sizes;
  placement.exchange_s = problem.transfer_s;
  placement.activation_s = problem.transfer_s;
  placement.largest_pair = true;
  placement.closed_tour = true;
  const auto n = static_cast<size_t>(problem.nodes());
  for (size_t i = 0; i < n * n; ++i) placement.activation_s[i] += problem.forward_s[i % n];
  SKERRY_ASSIGN_OR_RETURN(DtfmPlan plan,
                          SearchDtfm(placement, {options.seed, options.placement_evaluations, {}}));
  std::vector<std::vector<int32_t>> partitions = std::move(plan.groups);
  // Later stages may differ in size: then the tour's order cannot be kept everywhere.
  for (size_t s = 1; s < partitions.size(); ++s) {
    const auto fits = std::find_if(
        partitions.begin() + static_cast<std::ptrdiff_t>(s), partitions.end(),
        [&](const auto& p) { return static_cast<int32_t>(p.size()) == problem.stage_sizes[s]; });
    std::swap(partitions[s], *fits);
  }
  return partitions;
}

absl::StatusOr<SkipPipeSchedule> RouteLikeSkipPipe(
    const SkipPipeProblem& problem, const std::vector<std::vector<int32_t>>& partitions,
    const SkipPipeSearchOptions& options) {
  SKERRY_RETURN_IF_ERROR(ValidateProblem(problem));
  SKERRY_RETURN_IF_ERROR(ValidateSchedule(problem, {partitions, {}}));
  // The order of equals decides whether the tree ends; the published code leaves it open.
  auto schedule = Router(problem, partitions, options, false).Route();
  if (schedule.ok()) return schedule;
  return Router(problem, partitions, options, true).Route();
}

}  // namespace skerry
