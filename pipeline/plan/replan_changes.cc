#include "pipeline/plan/replan_changes.h"

#include <algorithm>
#include <map>
#include <utility>

#include "pipeline/plan/handover.h"
#include "pipeline/plan/plan_model.h"
#include "pipeline/plan/route.h"
#include "routing/cost_model.h"

namespace skerry {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr int64_t kForEver = std::numeric_limits<int64_t>::max();
constexpr size_t kStandbysMax = 8;

const StageAssignment& StageOf(const PipelinePlan& plan, int32_t stage) {
  return plan.stages[static_cast<size_t>(stage)];
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
  const auto model = ModelOf(input, LivingOnly(plan));
  return model.ok() ? RoughSeconds(*model, model->placement) : kNever;
}

// Live replicas a stage has at least, where they are spread evenly over the stages that live.
size_t EvenShare(const PipelinePlan& plan) {
  size_t replicas = 0, stages = 0;
  for (int32_t stage = 0; stage < static_cast<int32_t>(plan.stages.size()); ++stage) {
    const size_t live = LiveReplicas(plan, stage).size();
    replicas += live;
    stages += live > 0 ? 1 : 0;
  }
  return stages == 0 ? 0 : replicas / stages;
}

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
    Change change;
    change.moves = std::move(moves);
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
    if (live <= EvenShare(plan_)) return;
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
    const auto model = ModelOf(request_.input, LivingOnly(plan_));
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
        Change change;
        change.moves = {{movers[i], a.stage, b}, {movers[j], b.stage, a}};
        change.rough_s = RoughSeconds(*model, placement);
        changes_.push_back(std::move(change));
      }
    }
  }

  // Fastest first.
  void AddStandbys() {
    std::vector<NodeId> standbys = request_.standbys;
    const auto gflops = [&](const NodeId& n) { return request_.input.devices.at(n).gflops; };
    std::stable_sort(standbys.begin(), standbys.end(),
                     [&](const NodeId& a, const NodeId& b) { return gflops(a) > gflops(b); });
    while (standbys.size() > kStandbysMax) standbys.pop_back();
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

}  // namespace

PipelinePlan LivingOnly(PipelinePlan plan) {
  for (Joiner& joiner : plan.joining) joiner.from_step = 0;
  PipelinePlan living = plan;
  living.stages.clear();
  living.dead.clear();
  living.joining.clear();
  std::map<Slot, Slot> place;
  for (int32_t stage = 0; stage < static_cast<int32_t>(plan.stages.size()); ++stage) {
    const StageAssignment& whole = StageOf(plan, stage);
    StageAssignment kept = whole;
    kept.replicas.clear();
    kept.cohorts.clear();
    for (size_t r = 0; r < whole.replicas.size(); ++r) {
      if (IsDead(plan, whole.replicas[r])) continue;
      place[{stage, static_cast<int32_t>(r)}] = {static_cast<int32_t>(living.stages.size()),
                                                 static_cast<int32_t>(kept.replicas.size())};
      kept.replicas.push_back(whole.replicas[r]);
      if (!whole.cohorts.empty()) kept.cohorts.push_back(whole.cohorts[r]);
    }
    if (!kept.replicas.empty()) living.stages.push_back(std::move(kept));
  }
  for (Path& path : living.paths) {
    path = PatchedPath(plan, path, kForEver);
    for (Slot& slot : path) slot = place.at(slot);
  }
  return living;
}

std::vector<Change> ChangesOf(const ReplanRequest& request) {
  return Changes(request).All();
}

}  // namespace skerry
