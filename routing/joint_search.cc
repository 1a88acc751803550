#include "routing/joint_search.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "common/status.h"
#include "routing/fluid_model.h"
#include "routing/joint_state.h"
#include "routing/skippipe_evaluator.h"
#include "routing/skippipe_simulator.h"

namespace skerry {
namespace {

// Short searches from the beginning, each of this share of the budget; then longer and longer ones,
// from the best plan so far and less hot.
enum class Start : uint8_t {
  kColumns,  // where nothing is skipped, tours in columns; at first only nodes exchange their roles
  kKeeping,  // keeps the placement it is given, if it is given one
  kFree,
};
constexpr Start kStarts[] = {Start::kColumns, Start::kKeeping, Start::kFree, Start::kFree};
constexpr double kStartShare = 0.07;
constexpr int kRounds = 2;
constexpr double kRoundGrowth = 2;
// Temperatures are shares of the iteration's time, of so many microbatches; with fewer of them
// every move matters more.
constexpr double kMicrobatches = 32;
constexpr double kHot = 0.01;
constexpr double kWarm = 0.004;
constexpr double kCold = 0.0002;
// The makespan alone is a plateau: most moves do not change it. The mean return leads downhill.
constexpr double kMeanWeight = 0.05;
constexpr int64_t kAskEvery = 128;
// Before a short search, for this part of it, the fluid model's; that many of its moves cost about
// one evaluation.
constexpr double kFluidPart = 0.35;
constexpr double kFluidHot = 0.02;
constexpr double kFluidCold = 0.0005;
constexpr int64_t kMovesPerEvaluation = 16;
constexpr int32_t kLanesMax = 100;  // of the simulator
constexpr double kInfinity = std::numeric_limits<double>::infinity();

class Annealer {
 public:
  // `keep_first`: one of the first searches keeps the placement it is given, too.
  Annealer(const SkipPipeProblem& problem, const JointOptions& options, bool keep_first)
      : options_(options),
        evaluator_(problem),
        simulator_(problem),
        fluid_(problem),
        has_simulator_(problem.stage_sizes.front() * problem.in_flight <= kLanesMax),
        skips_(problem.path_length < static_cast<int32_t>(problem.stage_sizes.size())),
        keep_first_(keep_first),
        rng_(options.seed, "joint search") {}

  void Search(const JointState& first) {
    const bool full = options_.mode == JointMode::kFull;
    const JointFreedom all{full, full};
    if (std::isfinite(Cost(first, kInfinity))) Keep(first);
    double end = 0;
    for (const Start start : kStarts) {
      const Span span{end, end + kStartShare};
      end = span.end;
      if (!IsOver()) Begin(start, first, all, span);
    }
    const double unit = (std::pow(kRoundGrowth, kRounds) - 1) / (kRoundGrowth - 1);
    double share = (1 - end) / unit;
    for (int i = 0; i < kRounds && !IsOver(); ++i, share *= kRoundGrowth) {
      const double begin = end;
      end = i + 1 == kRounds ? 1 : end + share;
      const JointState state = best_state_.empty() ? first : best_state_.front();
      by_both_ = has_simulator_ && !skips_ && !best_state_.empty();
      Anneal(state, all, kWarm, {begin, end});
    }
  }

  const JointPlan& best() const { return best_; }

 private:
  struct Span {  // of the budget
    double begin = 0;
    double end = 1;
  };

  bool IsOver() const { return share_ >= 1; }

  // A short search.
  void Begin(Start start, JointState state, JointFreedom freedom, const Span& span) {
    const bool columns = start == Start::kColumns && !skips_ && state.ArrangeInColumns();
    if (start == Start::kKeeping && keep_first_) freedom = {};
    JointFreedom poured = freedom;
    poured.tours = !columns;
    const double half = span.begin + kFluidPart * (span.end - span.begin);
    Anneal(Pour(std::move(state), poured, {span.begin, half}), freedom, columns ? kWarm : kHot,
           {half, span.end});
  }

  void Count() {
    ++spent_;
    const double share = static_cast<double>(spent_) / static_cast<double>(options_.evaluations);
    if (!options_.spent) {
      share_ = share;
    } else if (spent_ % kAskEvery == 0) {
      share_ = std::max(share, options_.spent());
    }
  }

  // Infinite if the cost is above `limit`.
  double Cost(const JointState& state, double limit) {
    Count();
    const double cost = evaluator_.Cost(state.schedule(), kMeanWeight, limit);
    if (!by_both_ || cost > limit || std::isinf(cost)) return cost;
    const double iteration_s = evaluator_.iteration_s();
    const double simulator_s =
        simulator_.IterationSeconds(state.schedule(), iteration_s + (limit - cost));
    return cost + std::max(0.0, simulator_s - iteration_s);
  }

  void Keep(const JointState& state) {
    const double iteration_s = evaluator_.iteration_s();
    if (iteration_s >= best_.score()) return;
    const double simulator_s =
        has_simulator_ ? simulator_.IterationSeconds(state.schedule()) : iteration_s;
    if (simulator_s >= best_.score()) return;
    best_.schedule = state.ToSchedule();
    best_.iteration_s = iteration_s;
    best_.simulator_s = simulator_s;
    best_state_.clear();
    best_state_.push_back(state);
    if (options_.on_better) options_.on_better(best_);
  }

  // The best plan by the fluid model alone.
  JointState Pour(JointState state, const JointFreedom& freedom, const Span& span) {
    double current = fluid_.Cost(state.schedule());
    JointState best = state;
    double best_cost = current;
    const double scale = current;
    double temperature = kFluidHot * scale;
    int64_t moves = 0;
    while (!IsOver() && share_ < span.end) {
      if (++moves % kMovesPerEvaluation == 0) {
        Count();
        const double progress = std::max(0.0, (share_ - span.begin) / (span.end - span.begin));
        temperature = kFluidHot * scale * std::pow(kFluidCold / kFluidHot, progress);
      }
      if (!state.Move(freedom, {}, rng_)) continue;
      const double cost = fluid_.Cost(state.schedule());
      if (cost > current - temperature * std::log(1.0 - rng_.Uniform())) {
        state.Undo();
        continue;
      }
      current = cost;
      if (cost < best_cost) {
        best_cost = cost;
        best = state;
      }
    }
    return best;
  }

  void Anneal(JointState state, const JointFreedom& freedom, double hot, const Span& span) {
    double current = Cost(state, kInfinity);
    if (std::isinf(current)) return;
    JointHints hints;
    evaluator_.CriticalPath(hints.critical);
    Keep(state);
    const double scale =
        evaluator_.iteration_s() * std::max(1.0, kMicrobatches / state.schedule().size());
    double temperature = hot * scale;
    double asked_at = -1;
    while (!IsOver() && share_ < span.end) {
      if (share_ != asked_at) {
        asked_at = share_;
        const double progress = std::max(0.0, (share_ - span.begin) / (span.end - span.begin));
        temperature = hot * scale * std::pow(kCold / hot, progress);
      }
      if (!state.Move(freedom, hints, rng_)) {
        if (++refused_ % kAskEvery == 0) Count();  // a problem may have no move at all
        continue;
      }
      const double limit = current - temperature * std::log(1.0 - rng_.Uniform());
      const double cost = Cost(state, limit);
      if (cost > limit) {
        state.Undo();
        continue;
      }
      current = cost;
      evaluator_.CriticalPath(hints.critical);
      Keep(state);
    }
  }

  const JointOptions& options_;
  SkipPipeEvaluator evaluator_;
  SkipPipeSimulator simulator_;
  FluidModel fluid_;
  bool has_simulator_;
  bool skips_;
  bool by_both_ = false;  // a plan costs what the slower of the two says
  bool keep_first_;
  Rng rng_;
  int64_t spent_ = 0;    // evaluations
  int64_t refused_ = 0;  // moves that would have broken a rule
  double share_ = 0;     // of the budget
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
      const JointState state,
      JointState::Create(problem, partitions.empty() ? InOrder(problem) : partitions, link_max_s));
  Annealer annealer(problem, options, !partitions.empty());
  annealer.Search(state);
  if (std::isinf(annealer.best().score())) {
    return FailedPrecondition("no schedule that ends within %d evaluations", options.evaluations);
  }
  return annealer.best();
}

}  // namespace skerry
