#include "routing/joint_search.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <utility>

#include "common/status.h"
#include "routing/joint_state.h"
#include "routing/skippipe_evaluator.h"
#include "routing/skippipe_simulator.h"

namespace skerry {
bool lab_verbose = false;
long lab_sims = 0;
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

  void Search(const JointState& first) {
    double end = 0;
    const auto starts = static_cast<int>(joint_tuning.starts);
    std::vector<std::pair<double, JointState>> pool;
    for (int i = 0; i < starts && !IsOver(); ++i) {
      JointState state = first;
      end += joint_tuning.share;
      round_best_ = std::numeric_limits<double>::infinity();
      Round(state, end - joint_tuning.share, end, joint_tuning.hot);
      if (!round_state_.empty()) pool.emplace_back(round_best_, round_state_.front());
    }
    std::stable_sort(pool.begin(), pool.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    double unit = 0;
    for (int i = 0; i < static_cast<int>(joint_tuning.rounds); ++i) unit += std::pow(joint_tuning.growth, i);
    unit /= 1 - end;
    for (int i = 0; i < static_cast<int>(joint_tuning.rounds) && !IsOver(); ++i) {
      const double start = end;
      end += std::pow(joint_tuning.growth, i) / unit;
      const size_t pick = joint_tuning.second > 0 ? std::min<size_t>(static_cast<size_t>(i), pool.size() - 1) : 0;
      JointState state = i < static_cast<int>(joint_tuning.second) && !pool.empty() ? pool[pick].second : best_state_.empty() ? first : best_state_.front();
      round_best_ = std::numeric_limits<double>::infinity();
      Round(state, start, end, joint_tuning.rehot);
    }
  }

  const JointPlan& best() const { return best_; }

 private:
  bool IsOver() const { return share_ >= 1; }

  // Asks the clock now and then.
  void Count() {
    ++spent_;
    const double share = static_cast<double>(spent_) / static_cast<double>(options_.evaluations);
    if (!options_.spent) {
      share_ = share;
    } else if (spent_ % kAskEvery == 0) {
      share_ = std::max(share, options_.spent());
    }
  }

  // Sets makespan_; infinite if the score is above `limit`.
  double Score(const JointState& state, double limit, bool both) {
    Count();
    double score = evaluator_.Cost(state.schedule(), joint_tuning.mean, limit);
    if (std::isinf(score)) return score;
    makespan_ = evaluator_.iteration_s();
    simulated_ = makespan_;
    if (both && has_simulator_) {
      ++lab_sims;
      simulated_ = simulator_.IterationSeconds(state.schedule(), makespan_ + limit - score);
      score += std::max(0.0, simulated_ - makespan_);
    }
    return score;
  }

  void Keep(const JointState& state) {
    if (makespan_ >= round_best_) return;
    const double simulated = has_simulator_ ? simulator_.IterationSeconds(state.schedule()) : makespan_;
    if (std::max(simulated, makespan_) >= round_best_) return;
    round_best_ = std::max(simulated, makespan_);
    round_state_.clear();
    round_state_.push_back(state);
    if (round_best_ >= best_.score()) return;
    best_.schedule = state.ToSchedule();
    best_.iteration_s = makespan_;
    best_.simulator_s = simulated;
    best_state_.clear();
    best_state_.push_back(state);
    if (options_.on_better) options_.on_better(best_);
  }

  void Learn(const JointState& state) {
    evaluator_.CriticalPath(hints_.critical);
    hints_.started_s.resize(static_cast<size_t>(state.schedule().size()));
    for (int32_t m = 0; m < state.schedule().size(); ++m) {
      hints_.started_s[static_cast<size_t>(m)] = evaluator_.started_s(m);
    }
  }

  // Anneals from `state`; leaves the best plan in it.
  void Round(JointState& state, double begin, double end, double hot) {
    const double infinity = std::numeric_limits<double>::infinity();
    double current = Score(state, infinity, joint_tuning.both <= 0);
    if (std::isinf(current)) current = Score(state, infinity, false) * 1.2;
    Learn(state);
    Keep(state);
    const double scale = makespan_;
    const int64_t start = spent_;
    double temperature = hot * scale;
    double progress = 0;
    double progress_at = -1;
    int64_t accepted = 0;
    while (!IsOver() && share_ < end) {
      if (share_ != progress_at) {
        progress_at = share_;
        progress = std::max(0.0, (share_ - begin) / (end - begin));
        temperature = hot * scale * std::pow(joint_tuning.cold / hot, progress);
      }
      if (!state.Move(freedom_, hints_, rng_)) continue;
      const double limit = current - temperature * std::log(1.0 - rng_.Uniform());
      const double score = Score(state, limit, progress >= joint_tuning.both);
      if (score > limit) {
        state.Undo();
        continue;
      }
      ++accepted;
      current = score;
      Learn(state);
      Keep(state);
    }
    if (lab_verbose) std::fprintf(stderr, "  round %ld: best %.3f %.3f cur %.3f acc %.3f sims %ld\n", spent_ - start, best_.iteration_s, best_.simulator_s, makespan_, double(accepted) / double(spent_ - start), lab_sims);
  }

  const JointOptions& options_;
  SkipPipeEvaluator evaluator_;
  SkipPipeSimulator simulator_;
  bool has_simulator_;
  JointFreedom freedom_;
  Rng rng_;
  int64_t spent_ = 0;
  double share_ = 0;  // of the budget
  double makespan_ = 0;
  double simulated_ = 0;
  JointHints hints_;
  JointPlan best_;
  double round_best_ = 0;
  std::vector<JointState> round_state_;
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
