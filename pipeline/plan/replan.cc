#include "pipeline/plan/replan.h"
#include "pipeline/plan/cohorts.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/check.h"
#include "pipeline/plan/handover.h"
#include "pipeline/plan/plan_model.h"
#include "pipeline/plan/replan_changes.h"
#include "pipeline/plan/route.h"
#include "routing/cost_model.h"
#include "routing/evaluator.h"

namespace skerry {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr int64_t kRoundsToBegin = 2;  // about, between having the state and the first step

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
  replan.meanwhile_s = PredictedStepSeconds(request.input, *without);
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
  for (size_t i = 0; i < std::min(changes.size(), kCosted); ++i) {
    if (!std::isfinite(changes[i].then_s)) break;
    Replan replan = present;
    replan.moves = changes[i].moves;
    replan.then_s = changes[i].then_s;
    replan.gain_s = replan.now_s - replan.then_s;
    replan.risk_then_s = changes[i].risk_s;
    PriceOf(request, replan);
    if (best.moves.empty() || Net(replan) > Net(best)) best = replan;
  }
}

}  // namespace

double PredictedStepSeconds(const PlannerInput& input, const PipelinePlan& plan) {
  const auto model = ModelOf(input, LivingOnly(plan));
  if (!model.ok()) return kNever;
  Evaluator evaluator(model->problem.workload, model->problem.fleet);
  const double step_s = StepSeconds(evaluator, model->problem, model->placement);
  return step_s + ExposedSeconds(model->problem, model->placement, step_s);
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
  replan.now_s = replan.then_s = PredictedStepSeconds(request.input, request.plan);
  if (!std::isfinite(replan.now_s)) {
    replan.now_s = replan.then_s = 0;
    replan.why = "the links of the plan are not known well enough to predict a step";
    return replan;
  }
  replan.steps_counted =
      std::min(request.steps_left, static_cast<int64_t>(std::ceil(kHorizonS / replan.now_s)));
  std::vector<Change> changes = ChangesOf(request);
  changes.resize(std::min(changes.size(), kTried));
  const auto steps = static_cast<double>(replan.steps_counted);
  const double horizon_s = steps * replan.now_s;
  replan.risk_now_s = replan.risk_then_s =
      RiskSeconds(request, request.plan, replan.now_s, horizon_s);
  for (Change& change : changes) {
    const PipelinePlan then = WithMoves(request.plan, change.moves, {});
    change.then_s = PredictedStepSeconds(request.input, then);
    change.risk_s = RiskSeconds(request, then, replan.now_s, horizon_s);
  }
  replan.tried = static_cast<int32_t>(changes.size());
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
