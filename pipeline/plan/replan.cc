#include "pipeline/plan/replan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/check.h"
#include "pipeline/plan/cohorts.h"
#include "pipeline/plan/handover.h"
#include "pipeline/plan/plan_model.h"
#include "pipeline/plan/replan_changes.h"
#include "pipeline/plan/route.h"
#include "routing/cost_model.h"
#include "routing/evaluator.h"

namespace skerry {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kRounding = 1e-9;     // what is nearly enough is looked at closely
constexpr int64_t kRoundsToBegin = 2;  // about, between having the state and the first step

// Infinite where the step, without outer traffic, takes longer than the limit.
double Predicted(const PlannerInput& input, const PipelinePlan& plan, double limit_s,
                 ReplanWork& work) {
  const auto model = ModelOf(input, LivingOnly(plan));
  ++work.models;
  if (!model.ok()) return kNever;
  Evaluator evaluator(model->problem.workload, model->problem.fleet);
  const double step_s = StepSeconds(evaluator, model->problem, model->placement, limit_s);
  work.tasks += evaluator.tasks();
  return step_s + ExposedSeconds(model->problem, model->placement, step_s);
}

// Predicts the steps of a plan's changes. Where two nodes exchange their slots, everything else
// stays what it is, so one model and one evaluator serve for all of those; not with cohorts, whose
// members change.
class Predictor {
 public:
  Predictor(const ReplanRequest& request, ReplanWork& work)
      : request_(request), work_(work), model_(ModelOf(request.input, LivingOnly(request.plan))) {
    ++work_.models;
    if (!model_.ok()) return;
    evaluator_.emplace(model_->problem.workload, model_->problem.fleet);
    for (size_t slot = 0; slot < model_->node_of_slot.size(); ++slot)
      place_[model_->node_of_slot[slot]] = slot;
    for (const StageAssignment& stage : request.plan.stages)
      has_cohorts_ = has_cohorts_ || !stage.cohorts.empty();
  }

  double Now() { return model_.ok() ? Seconds(model_->placement, kNever) : kNever; }

  double Then(const std::vector<Move>& moves, double limit_s) {
    if (moves.size() != 2 || has_cohorts_ || !model_.ok()) {
      return Predicted(request_.input, WithMoves(request_.plan, moves, {}), limit_s, work_);
    }
    Placement placement = model_->placement;
    std::swap(placement[place_.at(moves[0].node)], placement[place_.at(moves[1].node)]);
    return Seconds(placement, limit_s);
  }

 private:
  double Seconds(const Placement& placement, double limit_s) {
    const int64_t before = evaluator_->tasks();
    const double step_s = StepSeconds(*evaluator_, model_->problem, placement, limit_s);
    work_.tasks += evaluator_->tasks() - before;
    return step_s + ExposedSeconds(model_->problem, placement, step_s);
  }

  const ReplanRequest& request_;
  ReplanWork& work_;
  absl::StatusOr<PlanModel> model_;
  std::optional<Evaluator> evaluator_;
  std::map<NodeId, size_t> place_;
  bool has_cohorts_ = false;
};

const StageAssignment& StageOf(const PipelinePlan& plan, int32_t stage) {
  return plan.stages[static_cast<size_t>(stage)];
}

// Who is missing in the present plan while the moves are made: the movers and whom they replace.
std::set<NodeId> Missing(const PipelinePlan& plan, const std::vector<Move>& moves) {
  std::set<NodeId> missing;
  for (const Move& move : moves) {
    for (const NodeId& node : {move.node, NodeOf(plan, move.to)}) {
      if (SlotOf(plan, node) && !IsDead(plan, node)) missing.insert(node);
    }
  }
  return missing;
}

double StateSeconds(const ReplanRequest& request, const Move& move,
                    const std::set<NodeId>& missing) {
  const LinkMatrix& links = request.input.links;
  const StageAssignment& stage = StageOf(request.plan, move.to.stage);
  const bool ends = move.to.stage == 0;
  const int64_t bytes =
      kStateBytesPerParameter *
          StageParameters(request.input.config.model, stage.last_layer - stage.first_layer, ends) +
      (ends ? request.data_bytes : 0);
  double best_s = kNever;
  for (const NodeId& donor : LiveReplicas(request.plan, move.to.stage)) {
    const int32_t from = links.IndexOf(donor), to = links.IndexOf(move.node);
    const bool gives = request.at_work.contains(donor) && !missing.contains(donor);
    if (!gives || from < 0 || to < 0) continue;
    best_s = std::min(best_s, TransferSeconds(links.At(from, to), bytes));
  }
  return best_s;
}

// Work that is likely to be lost in the next `seconds`.
double RiskSeconds(const ReplanRequest& request, const PipelinePlan& plan, double step_s,
                   double seconds) {
  const double lost_s = step_s * static_cast<double>(request.steps_done + request.steps_left);
  return ExpectedLossSeconds(plan, request.churn, seconds, lost_s);
}

// Fills in cost_s and meanwhile_s, and adds to risk_then_s what is at risk while the moves are
// made.
void PriceOf(const ReplanRequest& request, Replan& replan) {
  const std::set<NodeId> missing = Missing(request.plan, replan.moves);
  std::set<NodeId> dead(request.plan.dead.begin(), request.plan.dead.end());
  dead.insert(missing.begin(), missing.end());
  replan.cost_s = replan.meanwhile_s = kNever;
  const auto without = RepairPlan(request.plan, dead, request.plan.version + 1);
  if (!without.ok()) return;
  replan.meanwhile_s = Predicted(request.input, *without, kNever, replan.work);
  double state_s = 0;
  for (const Move& move : replan.moves) {
    state_s = std::max(state_s, StateSeconds(request, move, missing));
  }
  const OuterConfig& outer = request.input.config.outer;
  const double begin_s =
      static_cast<double>(kRoundsToBegin * outer.inner_steps) * replan.meanwhile_s;
  const double slower = std::max(0.0, 1 - replan.now_s / replan.meanwhile_s);
  double thrown_s = 0;
  for (const NodeId& node : missing) {
    const auto live = LiveReplicas(request.plan, SlotOf(request.plan, node)->stage).size();
    thrown_s += static_cast<double>(outer.overlap_steps + 1) * replan.now_s /
                static_cast<double>(std::max<size_t>(1, live));
  }
  replan.cost_s = state_s + (state_s + begin_s) * slower + thrown_s;
  if (std::isnan(replan.cost_s)) replan.cost_s = kNever;
  if (!std::isfinite(state_s + begin_s)) return;
  replan.risk_then_s += RiskSeconds(request, *without, replan.now_s, state_s + begin_s);
}

double SaferBy(const Replan& replan) {
  return replan.risk_now_s - replan.risk_then_s;
}

double Net(const Replan& replan) {
  return replan.gain_s * static_cast<double>(replan.steps_counted) + SaferBy(replan) -
         kPayBack * replan.cost_s;
}

// For safety alone, however fast a step is then.
bool IsForSafety(const Replan& replan) {
  return SaferBy(replan) > kPayBack * replan.cost_s && replan.risk_now_s > 0 &&
         SaferBy(replan) > kGainLeast * replan.risk_now_s;
}

void Decide(Replan& replan) {
  if (replan.moves.empty()) {
    replan.why = "there is no change of places that the stages allow";
    return;
  }
  const std::string change = MovesText(replan.moves);
  if (replan.gain_s < kGainLeast * replan.now_s && !IsForSafety(replan)) {
    replan.why = absl::StrFormat(
        "the best change, %s, would shorten a step of %.2f s by %.2f s: less than the %.0f %% "
        "that are worth one",
        change, replan.now_s, std::max(0.0, replan.gain_s), 100 * kGainLeast);
    return;
  }
  if (std::isfinite(replan.cost_s) && replan.gain_s > 0) {
    replan.pays_back_steps = static_cast<int64_t>(std::ceil(replan.cost_s / replan.gain_s));
  }
  replan.migrates = Net(replan) > 0;
  if (replan.risk_now_s > 0 || replan.risk_then_s > 0) {
    replan.why = absl::StrFormat(
        "by what has left so far a loss of %.0f s of work is to be expected, %.0f s with a "
        "change; ",
        replan.risk_now_s, replan.risk_then_s);
  }
  if (replan.migrates && IsForSafety(replan)) {
    replan.why += absl::StrFormat("%s costs %.0f s and makes the run safer", change, replan.cost_s);
    return;
  }
  replan.why += absl::StrFormat("%s would shorten a step of %.2f s by %.2f s and costs %.0f s, ",
                                change, replan.now_s, replan.gain_s, replan.cost_s);
  if (replan.migrates) {
    replan.why += absl::StrFormat("which are back after %d of the %d steps that count",
                                  replan.pays_back_steps, replan.steps_counted);
  } else {
    replan.why += absl::StrFormat(
        "which are back only after %d steps: it must be well before the %d that count are over",
        replan.pays_back_steps, replan.steps_counted);
  }
}

// Of the fastest, the one that leaves most after its cost.
void ChooseAmong(const ReplanRequest& request, const std::vector<Change>& changes, Replan& best) {
  const Replan present = best;
  ReplanWork work = best.work;
  for (size_t i = 0; i < std::min(changes.size(), kCosted); ++i) {
    if (!std::isfinite(changes[i].then_s)) break;
    Replan replan = present;
    replan.moves = changes[i].moves;
    replan.then_s = changes[i].then_s;
    replan.gain_s = replan.now_s - replan.then_s;
    replan.risk_then_s = changes[i].risk_s;
    replan.work = work;
    PriceOf(request, replan);
    work = replan.work;
    if (best.moves.empty() || Net(replan) > Net(best)) best = replan;
  }
  best.work = work;
}

// Whether one of the changes could be what Decide takes: enough is gained, or less at risk. Fills
// in then_s of those that were predicted to the end.
bool AnyMayPay(const Replan& replan, std::vector<Change>& changes, Predictor& predictor) {
  const double enough_s = (1 + kRounding) * (1 - kGainLeast) * replan.now_s;
  for (Change& change : changes) {
    if (change.risk_s < replan.risk_now_s) return true;
    change.then_s = predictor.Then(change.moves, enough_s);
    if (change.then_s <= enough_s) return true;
  }
  return false;
}

}  // namespace

double PredictedStepSeconds(const PlannerInput& input, const PipelinePlan& plan) {
  ReplanWork work;
  return Predicted(input, plan, kNever, work);
}

std::string MovesText(const std::vector<Move>& moves) {
  std::string text;
  for (const Move& move : moves) {
    const std::string from = move.from_stage < 0
                                 ? "from standing by"
                                 : absl::StrFormat("from stage %d", move.from_stage);
    text += absl::StrFormat("%s%s %s to stage %d", text.empty() ? "" : ", ", move.node.Short(),
                            from, move.to.stage);
  }
  return text;
}

Replan ChooseMoves(const ReplanRequest& request) {
  Replan replan;
  Predictor predictor(request, replan.work);
  replan.now_s = replan.then_s = predictor.Now();
  if (!std::isfinite(replan.now_s)) {
    replan.now_s = replan.then_s = 0;
    replan.why = "the links of the plan are not known well enough to predict a step";
    return replan;
  }
  replan.steps_counted =
      std::min(request.steps_left, static_cast<int64_t>(std::ceil(kHorizonS / replan.now_s)));
  std::vector<Change> changes = ChangesOf(request, replan.work);
  changes.resize(std::min(changes.size(), kTried));
  const auto steps = static_cast<double>(replan.steps_counted);
  const double horizon_s = steps * replan.now_s;
  replan.risk_now_s = replan.risk_then_s =
      RiskSeconds(request, request.plan, replan.now_s, horizon_s);
  for (Change& change : changes) {
    // Only who moves to a dead slot leaves stages with other numbers of replicas.
    const bool shifts = change.moves.size() == 1 && change.moves[0].from_stage >= 0;
    change.risk_s = replan.risk_now_s;
    if (!shifts) continue;
    const PipelinePlan then = WithMoves(request.plan, change.moves, {});
    change.risk_s = RiskSeconds(request, then, replan.now_s, horizon_s);
  }
  replan.tried = static_cast<int32_t>(changes.size());
  if (!request.wants_figures && !AnyMayPay(replan, changes, predictor)) {
    replan.why = "no change shortens a step by enough, and none makes the run safer";
    return replan;
  }
  for (Change& change : changes) {
    if (!std::isfinite(change.then_s)) change.then_s = predictor.Then(change.moves, kNever);
  }
  const auto rank = [&](const Change& change) {
    return std::tuple(steps * change.then_s + change.risk_s, change.moves.size());
  };
  std::stable_sort(changes.begin(), changes.end(),
                   [&](const Change& a, const Change& b) { return rank(a) < rank(b); });
  ChooseAmong(request, changes, replan);
  Decide(replan);
  return replan;
}

PipelinePlan WithMoves(const PipelinePlan& plan, const std::vector<Move>& moves,
                       const std::map<int32_t, int64_t>& rounds) {
  PipelinePlan next = plan;
  ++next.version;
  const auto at = [&](const Slot& slot) -> NodeId& {
    return next.stages[static_cast<size_t>(slot.stage)].replicas[static_cast<size_t>(slot.replica)];
  };
  std::set<NodeId> movers, dead(plan.dead.begin(), plan.dead.end());
  std::set<Slot> filled;
  for (const Move& move : moves) {
    SKERRY_CHECK(movers.insert(move.node).second && filled.insert(move.to).second);
    dead.erase(move.node);
  }
  for (const Move& move : moves) {
    const auto own = SlotOf(plan, move.node);
    const NodeId replaced = NodeOf(plan, move.to);
    at(move.to) = move.node;
    std::erase_if(next.joining, [&](const Joiner& joiner) {
      return joiner.node == move.node || joiner.node == replaced;
    });
    if (movers.contains(replaced)) continue;
    dead.erase(replaced);
    if (!own || filled.contains(*own)) continue;
    at(*own) = replaced;
    dead.insert(replaced);
  }
  for (const NodeId& mover : movers) {
    const Slot slot = *SlotOf(next, mover);
    const auto committed = rounds.find(slot.stage);
    next.joining.push_back(
        {mover, next.version, committed == rounds.end() ? 0 : committed->second, -1, -1});
  }
  std::sort(next.joining.begin(), next.joining.end(),
            [](const Joiner& a, const Joiner& b) { return a.node < b.node; });
  next.dead.assign(dead.begin(), dead.end());
  PartMoved(plan, &next);
  return next;
}

}  // namespace skerry
