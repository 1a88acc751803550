#include "routing/joint_search.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/status.h"
#include "routing/joint_state.h"
#include "routing/skippipe_evaluator.h"
#include "routing/skippipe_simulator.h"

namespace skerry {
namespace {

class Annealer {
 public:
  Annealer(const SkipPipeProblem& problem, const JointOptions& options)
      : options_(options),
        evaluator_(problem),
        simulator_(problem),
        rng_(options.seed, "joint search") {}

  bool IsOver() {
    if (spent_ >= options_.evaluations) return true;
    return stopped_;
  }

  double Score(const JointState& state, double limit_s = std::numeric_limits<double>::infinity()) {
    ++spent_;
    if (spent_ % 128 == 0 && options_.should_stop && options_.should_stop()) stopped_ = true;
    return evaluator_.IterationSeconds(state.schedule(), limit_s);
  }

  void Keep(const JointState& state, double seconds) {
    if (seconds >= best_.score()) return;
    JointPlan plan;
    plan.schedule = state.ToSchedule();
    plan.iteration_s = seconds;
    plan.simulator_s = simulator_.IterationSeconds(plan.schedule);
    if (plan.score() >= best_.score()) return;
    best_ = std::move(plan);
    if (options_.on_better) options_.on_better(best_);
  }

  void Round(JointState& state, const JointFreedom& freedom, int64_t budget, double hot,
             double cold) {
    double current = Score(state);
    Keep(state, current);
    const int64_t start = spent_;
    double local = current;
    JointState local_best = state;
    while (!IsOver() && spent_ - start < budget) {
      const double progress = static_cast<double>(spent_ - start) / static_cast<double>(budget);
      const double temperature = hot * std::pow(cold / hot, progress);
      if (!state.Move(freedom, rng_)) continue;
      const double limit = current - temperature * std::log(1.0 - rng_.Uniform());
      const double seconds = Score(state, limit);
      if (seconds > limit) {
        state.Undo();
        continue;
      }
      current = seconds;
      if (seconds < local) {
        local = seconds;
        local_best = state;
        Keep(state, seconds);
      }
    }
    state = local_best;
  }

  const JointPlan& best() const { return best_; }

 private:
  const JointOptions& options_;
  SkipPipeEvaluator evaluator_;
  SkipPipeSimulator simulator_;
  Rng rng_;
  int64_t spent_ = 0;
  bool stopped_ = false;
  JointPlan best_;
};

}  // namespace

absl::StatusOr<JointPlan> SearchJointly(const SkipPipeProblem& problem,
                                        const std::vector<std::vector<int32_t>>& partitions,
                                        const JointOptions& options) {
  SKERRY_RETURN_IF_ERROR(ValidateProblem(problem));
  SKERRY_ASSIGN_OR_RETURN(
      JointState state,
      JointState::Create(problem, partitions, LargestStageLink(problem, partitions)));
  Annealer annealer(problem, options);
  const JointFreedom freedom{options.mode == JointMode::kFull, options.mode == JointMode::kFull};
  annealer.Round(state, freedom, options.evaluations, 2.0, 0.05);
  return annealer.best();
}

}  // namespace skerry
