#include "routing/joint_search.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "common/status.h"
#include "routing/joint_state.h"
#include "routing/skippipe_evaluator.h"
#include "routing/skippipe_simulator.h"

namespace skerry {
namespace {

// Temperatures are shares of the iteration's time.
constexpr double kHot = 0.01;
constexpr double kCold = 0.0002;
// Each round has twice the budget of the one before, so that a good plan is there early.
constexpr int64_t kFirstRound = 40000;
// The makespan alone is a plateau: most moves do not change it. The mean return leads downhill.
constexpr double kMeanWeight = 0.2;
constexpr int64_t kAskEvery = 128;
constexpr int32_t kLanesMax = 100;  // of the simulator

class Annealer {
 public:
  Annealer(const SkipPipeProblem& problem, const JointOptions& options)
      : options_(options),
        evaluator_(problem),
        simulator_(problem),
        has_simulator_(problem.stage_sizes.front() * problem.in_flight <= kLanesMax),
        freedom_{options.mode == JointMode::kFull, options.mode == JointMode::kFull},
        rng_(options.seed, "joint search") {}

  void Search(JointState state) {
    for (int64_t budget = kFirstRound; !IsOver(); budget *= 2) {
      Round(state, std::min(budget, options_.evaluations - spent_));
    }
  }

  const JointPlan& best() const { return best_; }

 private:
  bool IsOver() const { return stopped_ || spent_ >= options_.evaluations; }

  // Sets makespan_; infinite if the score is above `limit`.
  double Score(const JointState& state, double limit) {
    if (++spent_ % kAskEvery == 0 && options_.should_stop) stopped_ |= options_.should_stop();
    makespan_ = evaluator_.IterationSeconds(state.schedule(), limit);
    if (std::isinf(makespan_)) return makespan_;
    const std::vector<double>& finished = evaluator_.finished_s();
    const double sum = std::accumulate(finished.begin(), finished.end(), 0.0);
    return makespan_ + kMeanWeight * sum / static_cast<double>(finished.size());
  }

  void Keep(const JointState& state) {
    if (makespan_ >= best_.score()) return;
    JointPlan plan;
    plan.schedule = state.ToSchedule();
    plan.iteration_s = makespan_;
    plan.simulator_s = has_simulator_ ? simulator_.IterationSeconds(plan.schedule) : makespan_;
    if (plan.score() >= best_.score()) return;
    best_ = std::move(plan);
    best_state_.clear();
    best_state_.push_back(state);
    if (options_.on_better) options_.on_better(best_);
  }

  // Anneals from `state`; leaves the best plan in it.
  void Round(JointState& state, int64_t budget) {
    double current = Score(state, std::numeric_limits<double>::infinity());
    Keep(state);
    const double scale = makespan_;
    const int64_t start = spent_;
    double temperature = kHot * scale;
    double least = makespan_;
    while (!IsOver() && spent_ - start < budget) {
      if (!state.Move(freedom_, rng_)) continue;
      if (spent_ % kAskEvery == 0) {
        const double progress = static_cast<double>(spent_ - start) / static_cast<double>(budget);
        temperature = kHot * scale * std::pow(kCold / kHot, progress);
      }
      const double limit = current - temperature * std::log(1.0 - rng_.Uniform());
      const double score = Score(state, limit);
      if (score > limit) {
        state.Undo();
        continue;
      }
      current = score;
      if (makespan_ < least) {
        least = makespan_;
        Keep(state);
      }
    }
    if (!best_state_.empty()) state = best_state_.front();
  }

  const JointOptions& options_;
  SkipPipeEvaluator evaluator_;
  SkipPipeSimulator simulator_;
  bool has_simulator_;
  JointFreedom freedom_;
  Rng rng_;
  int64_t spent_ = 0;
  bool stopped_ = false;
  double makespan_ = 0;
  JointPlan best_;
  std::vector<JointState> best_state_;  // of best_; empty before the first
};

// Nodes in order of their numbers.
std::vector<std::vector<int32_t>> InOrder(const SkipPipeProblem& problem) {
  std::vector<std::vector<int32_t>> partitions;
  int32_t next = 0;
  for (const int32_t size : problem.stage_sizes) {
    partitions.emplace_back(static_cast<size_t>(size));
    std::iota(partitions.back().begin(), partitions.back().end(), next);
    next += size;
  }
  return partitions;
}

}  // namespace

absl::StatusOr<JointPlan> SearchJointly(const SkipPipeProblem& problem,
                                        const std::vector<std::vector<int32_t>>& partitions,
                                        const JointOptions& options) {
  SKERRY_RETURN_IF_ERROR(ValidateProblem(problem));
  if (options.evaluations < 1) return InvalidArgument("a budget of no evaluations");
  if (partitions.empty() && options.mode == JointMode::kStrict) {
    return InvalidArgument("strict mode keeps a placement, and there is none");
  }
  const double link_max_s = partitions.empty() ? std::numeric_limits<double>::infinity()
                                               : LargestStageLink(problem, partitions);
  SKERRY_ASSIGN_OR_RETURN(
      JointState state,
      JointState::Create(problem, partitions.empty() ? InOrder(problem) : partitions, link_max_s));
  Annealer annealer(problem, options);
  annealer.Search(std::move(state));
  if (std::isinf(annealer.best().score())) {
    return FailedPrecondition("no schedule that ends within %d evaluations", options.evaluations);
  }
  return annealer.best();
}

}  // namespace skerry
