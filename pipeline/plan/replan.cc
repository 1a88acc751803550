#include "pipeline/plan/replan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/check.h"
#include "pipeline/plan/handover.h"
#include "pipeline/plan/plan_model.h"
#include "pipeline/plan/route.h"
#include "routing/cost_model.h"
#include "routing/evaluator.h"

namespace skerry {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr int64_t kForEver = std::numeric_limits<int64_t>::max();
constexpr int64_t kRoundsToBegin = 2;  // about, between having the state and the first step
constexpr size_t kStandbysMax = 8;

const StageAssignment& StageOf(const PipelinePlan& plan, int32_t stage) {
  return plan.stages[static_cast<size_t>(stage)];
}

// The same without the dead and without stages that nobody holds: what really works.
PipelinePlan Living(PipelinePlan plan) {
  for (Joiner& joiner : plan.joining) joiner.from_step = 0;
  PipelinePlan living = plan;
  living.stages.clear();
  living.dead.clear();
  living.joining.clear();
  std::map<Slot, Slot> place;
  for (int32_t stage = 0; stage < static_cast<int32_t>(plan.stages.size()); ++stage) {
    StageAssignment kept = StageOf(plan, stage);
    kept.replicas.clear();
    const auto& replicas = StageOf(plan, stage).replicas;
    for (int32_t r = 0; r < static_cast<int32_t>(replicas.size()); ++r) {
      const NodeId& node = replicas[static_cast<size_t>(r)];
      if (IsDead(plan, node)) continue;
      place[{stage, r}] = {static_cast<int32_t>(living.stages.size()),
                           static_cast<int32_t>(kept.replicas.size())};
      kept.replicas.push_back(node);
    }
    if (!kept.replicas.empty()) living.stages.push_back(std::move(kept));
  }
  for (Path& path : living.paths) {
    path = PatchedPath(plan, path, kForEver);
    for (Slot& slot : path) slot = place.at(slot);
  }
  return living;
}

// A bound on a step from below, near enough to tell which changes are worth predicting: the device
// that computes most, and the stage-0 node whose microbatches take longest around.
double RoughSeconds(const PlanModel& model, const Placement& placement) {
  const Workload& work = model.problem.workload;
  const Fleet& fleet = model.problem.fleet;
  std::vector<double> busy(work.stage_of_slot.size()), around(work.stage_of_slot.size());
  for (const Workload::Microbatch& microbatch : work.microbatches) {
    const size_t length = microbatch.slots.size();
    const auto home = static_cast<size_t>(microbatch.slots.front());
    for (size_t hop = 0; hop < length; ++hop) {
      const auto slot = static_cast<size_t>(microbatch.slots[hop]);
      const auto next = static_cast<size_t>(microbatch.slots[(hop + 1) % length]);
      const auto stage = static_cast<size_t>(work.stage_of_slot[slot]);
      const double flops =
          (1 + kBackwardPerForward) * work.forward_flops[stage] + (hop == 0 ? work.loss_flops : 0);
      const double task_s =
          ComputeSeconds(flops, fleet.gflops[static_cast<size_t>(placement[slot])]);
      busy[slot] += task_s;
      around[home] += task_s;
      if (slot == next) continue;
      const size_t there = fleet.Pair(placement[slot], placement[next]);
      const size_t back = fleet.Pair(placement[next], placement[slot]);
      around[home] +=
          fleet.latency_s[there] + fleet.wire_s[there] + fleet.latency_s[back] + fleet.wire_s[back];
    }
  }
  double most = 0;
  for (size_t slot = 0; slot < busy.size(); ++slot) {
    most = std::max({most, busy[slot], around[slot] / work.in_flight});
  }
  return most / work.steps;
}

double RoughSeconds(const PlannerInput& input, const PipelinePlan& plan) {
  const auto model = ModelOf(input, Living(plan));
  return model.ok() ? RoughSeconds(*model, model->placement) : kNever;
}

struct Change {
  std::vector<Move> moves;
  double rough_s = 0;
  double then_s = kNever;
};

// The changes there are, and what they ask of the plan.
class Changes {
 public:
  explicit Changes(const ReplanRequest& request) : request_(request), plan_(request.plan) {
    for (int32_t stage = 0; stage < static_cast<int32_t>(plan_.stages.size()); ++stage) {
      const bool joins = Holders(plan_, stage).size() != LiveReplicas(plan_, stage).size();
      std::vector<NodeId>& at_work = at_work_.emplace_back();
      if (joins || request.resting.contains(stage)) continue;
      for (const NodeId& node : LiveReplicas(plan_, stage)) {
        if (request.at_work.contains(node)) at_work.push_back(node);
      }
    }
  }

  std::vector<Change> All() {
    for (const NodeId& mover : Movers()) AddWaysOf(mover);
    AddExchanges();
    AddStandbys();
    std::stable_sort(changes_.begin(), changes_.end(),
                     [](const Change& a, const Change& b) { return a.rough_s < b.rough_s; });
    return std::move(changes_);
  }

 private:
  const std::vector<NodeId>& AtWork(int32_t stage) const {
    return at_work_[static_cast<size_t>(stage)];
  }
  std::vector<NodeId> Movers() const {
    std::vector<NodeId> movers;
    for (const auto& at_work : at_work_) {
      if (at_work.size() > 1) movers.insert(movers.end(), at_work.begin(), at_work.end());
    }
    return movers;
  }

  void Add(std::vector<Move> moves) {
    Change change{std::move(moves), 0, kNever};
    change.rough_s = RoughSeconds(request_.input, WithMoves(plan_, change.moves, {}));
    changes_.push_back(std::move(change));
  }

  bool AStandbyFits(int32_t stage) const {
    return std::any_of(request_.standbys.begin(), request_.standbys.end(), [&](const NodeId& node) {
      return HasMemory(request_.input, plan_, stage, node);
    });
  }

  // To the first dead slot of each stage that is worse off.
  void AddWaysOf(const NodeId& mover) {
    const int32_t from = SlotOf(plan_, mover)->stage;
    const size_t live = LiveReplicas(plan_, from).size();
    if (from == 0 && AtWork(0).size() < 3) return;  // the run ends with the last one
    for (int32_t stage = 0; stage < static_cast<int32_t>(plan_.stages.size()); ++stage) {
      const auto& replicas = StageOf(plan_, stage).replicas;
      const auto dead = std::find_if(replicas.begin(), replicas.end(),
                                     [&](const NodeId& node) { return IsDead(plan_, node); });
      if (stage == from || dead == replicas.end() || AtWork(stage).empty() ||
          live <= LiveReplicas(plan_, stage).size() || AStandbyFits(stage) ||
          !HasMemory(request_.input, plan_, stage, mover)) {
        continue;
      }
      Add({{mover, from, {stage, static_cast<int32_t>(dead - replicas.begin())}}});
    }
  }

  // Slots stay what they are, so that one model serves for all.
  void AddExchanges() {
    const auto model = ModelOf(request_.input, Living(plan_));
    if (!model.ok()) return;
    std::map<NodeId, size_t> place;
    for (size_t i = 0; i < model->node_of_slot.size(); ++i) place[model->node_of_slot[i]] = i;
    const std::vector<NodeId> movers = Movers();
    for (size_t i = 0; i < movers.size(); ++i) {
      for (size_t j = i + 1; j < movers.size(); ++j) {
        const Slot a = *SlotOf(plan_, movers[i]), b = *SlotOf(plan_, movers[j]);
        if (a.stage == b.stage || !HasMemory(request_.input, plan_, b.stage, movers[i]) ||
            !HasMemory(request_.input, plan_, a.stage, movers[j])) {
          continue;
        }
        Placement placement = model->placement;
        std::swap(placement[place.at(movers[i])], placement[place.at(movers[j])]);
        changes_.push_back({{{movers[i], a.stage, b}, {movers[j], b.stage, a}},
                            RoughSeconds(*model, placement),
                            kNever});
      }
    }
  }

  // Fastest first.
  void AddStandbys() {
    std::vector<NodeId> standbys = request_.standbys;
    const auto gflops = [&](const NodeId& n) { return request_.input.devices.at(n).gflops; };
    std::stable_sort(standbys.begin(), standbys.end(),
                     [&](const NodeId& a, const NodeId& b) { return gflops(a) > gflops(b); });
    if (standbys.size() > kStandbysMax)
      standbys.erase(standbys.begin() + kStandbysMax, standbys.end());
    for (const NodeId& standby : standbys) {
      for (const NodeId& replaced : Movers()) {
        const Slot slot = *SlotOf(plan_, replaced);
        if (!HasMemory(request_.input, plan_, slot.stage, standby)) continue;
        Add({{standby, -1, slot}});
      }
    }
  }

  const ReplanRequest& request_;
  const PipelinePlan& plan_;
  std::vector<std::vector<NodeId>> at_work_;  // by stage; empty: nothing moves there
  std::vector<Change> changes_;
};

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

// Fills in cost_s and meanwhile_s.
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
}

double Net(const Replan& replan) {
  return replan.gain_s * static_cast<double>(replan.steps_counted) - kPayBack * replan.cost_s;
}

void Decide(Replan& replan) {
  if (replan.moves.empty()) {
    replan.why = "there is no change of places that the stages allow";
    return;
  }
  const std::string change = MovesText(replan.moves);
  if (replan.gain_s < kGainLeast * replan.now_s) {
    replan.why = absl::StrFormat(
        "the best change, %s, would make a step of %.2f s %.2f s shorter: less than "
        "%.0f %%",
        change, replan.now_s, std::max(0.0, replan.gain_s), 100 * kGainLeast);
    return;
  }
  if (std::isfinite(replan.cost_s)) {
    replan.pays_back_steps = static_cast<int64_t>(std::ceil(replan.cost_s / replan.gain_s));
  }
  replan.migrates = Net(replan) > 0;
  replan.why = absl::StrFormat("%s would make a step of %.2f s %.2f s shorter and costs %.0f s, ",
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
    PriceOf(request, replan);
    if (best.moves.empty() || Net(replan) > Net(best)) best = replan;
  }
}

}  // namespace

double PredictedStepSeconds(const PlannerInput& input, const PipelinePlan& plan) {
  const auto model = ModelOf(input, Living(plan));
  if (!model.ok()) return kNever;
  Evaluator evaluator(model->problem.workload, model->problem.fleet);
  const double step_s = evaluator.StepSeconds(model->placement);
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
  std::vector<Change> changes = Changes(request).All();
  changes.resize(std::min(changes.size(), kTried));
  for (Change& change : changes) {
    change.then_s = PredictedStepSeconds(request.input, WithMoves(request.plan, change.moves, {}));
  }
  replan.tried = static_cast<int32_t>(changes.size());
  std::stable_sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
    return std::tuple(a.then_s, a.moves.size()) < std::tuple(b.then_s, b.moves.size());
  });
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
  return next;
}

}  // namespace skerry
