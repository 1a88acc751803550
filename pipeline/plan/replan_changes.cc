#include "pipeline/plan/replan_changes.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "pipeline/plan/handover.h"
#include "pipeline/plan/plan_model.h"
#include "pipeline/plan/rough_step.h"
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

// Who may hold which stage; asked of the same few nodes for thousands of changes.
class Memory {
 public:
  explicit Memory(const ReplanRequest& request) : request_(request) {}
  bool Has(int32_t stage, const NodeId& node) {
    const auto [known, is_new] = fits_.try_emplace({stage, node}, false);
    if (is_new) known->second = CanHoldSlot(request_.input, request_.plan, stage, node);
    return known->second;
  }

 private:
  const ReplanRequest& request_;
  std::map<std::pair<int32_t, NodeId>, bool> fits_;
};

// The changes there are, and what they ask of the plan. Exchanges and standbys leave its slots and
// paths as they are, so one model serves for all of them.
class Changes {
 public:
  Changes(const ReplanRequest& request, ReplanWork& work)
      : request_(request), work_(work), plan_(request.plan), memory_(request) {
    for (int32_t stage = 0; stage < static_cast<int32_t>(plan_.stages.size()); ++stage) {
      const bool joins = Holders(plan_, stage).size() != LiveReplicas(plan_, stage).size();
      std::vector<NodeId>& at_work = at_work_.emplace_back();
      if (joins || request.resting.contains(stage)) continue;
      for (const NodeId& node : LiveReplicas(plan_, stage)) {
        if (request.at_work.contains(node)) at_work.push_back(node);
      }
    }
    standbys_ = FastestStandbys();
    MakeModel();
  }

  std::vector<Change> All() {
    for (const NodeId& mover : Movers()) AddWaysOf(mover);
    if (rough_) AddExchanges();
    AddStandbys();
    std::stable_sort(changes_.begin(), changes_.end(),
                     [](const Change& a, const Change& b) { return a.rough_s < b.rough_s; });
    return std::move(changes_);
  }

 private:
  void MakeModel() {
    const PipelinePlan living = LivingOnly(plan_);
    auto model = ModelOf(request_.input, living, standbys_);
    ++work_.models;
    knows_standbys_ = model.ok();
    if (!model.ok()) {
      model = ModelOf(request_.input, living);
      ++work_.models;
    }
    if (!model.ok()) return;
    model_ = *std::move(model);
    usual_gflops_ = SpeedsOf(model_.node_of_slot, request_.input.devices);
    for (size_t slot = 0; slot < model_.node_of_slot.size(); ++slot)
      place_[model_.node_of_slot[slot]] = static_cast<int32_t>(slot);
    rough_.emplace(model_, usual_gflops_);
  }

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
    const auto model = ModelOf(request_.input, LivingOnly(WithMoves(plan_, change.moves, {})));
    ++work_.models;
    change.rough_s = kNever;
    if (model.ok()) {
      RoughStep rough(*model, model->problem.fleet.gflops);
      change.rough_s = rough.Exchanged(0, 0);
    }
    changes_.push_back(std::move(change));
  }

  bool AStandbyFits(int32_t stage) {
    return std::any_of(request_.standbys.begin(), request_.standbys.end(),
                       [&](const NodeId& node) { return memory_.Has(stage, node); });
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
          !memory_.Has(stage, mover)) {
        continue;
      }
      Add({{mover, from, {stage, static_cast<int32_t>(dead - replicas.begin())}}});
    }
  }

  void AddExchanges() {
    const std::vector<NodeId> movers = Movers();
    std::vector<Slot> slots;
    for (const NodeId& mover : movers) slots.push_back(*SlotOf(plan_, mover));
    for (size_t i = 0; i < movers.size(); ++i) {
      for (size_t j = i + 1; j < movers.size(); ++j) {
        const Slot a = slots[i], b = slots[j];
        if (a.stage == b.stage || !memory_.Has(b.stage, movers[i]) ||
            !memory_.Has(a.stage, movers[j])) {
          continue;
        }
        Change change;
        change.moves = {{movers[i], a.stage, b}, {movers[j], b.stage, a}};
        change.rough_s = rough_->Exchanged(place_.at(movers[i]), place_.at(movers[j]));
        changes_.push_back(std::move(change));
      }
    }
  }

  std::vector<NodeId> FastestStandbys() const {
    std::vector<NodeId> standbys = request_.standbys;
    const auto gflops = [&](const NodeId& n) { return request_.input.devices.at(n).gflops; };
    std::stable_sort(standbys.begin(), standbys.end(),
                     [&](const NodeId& a, const NodeId& b) { return gflops(a) > gflops(b); });
    while (standbys.size() > kStandbysMax) standbys.pop_back();
    return standbys;
  }

  void AddStandbys() {
    const std::vector<NodeId> movers = Movers();
    for (size_t i = 0; i < standbys_.size(); ++i) {
      for (const NodeId& replaced : movers) {
        const Slot slot = *SlotOf(plan_, replaced);
        if (!memory_.Has(slot.stage, standbys_[i])) continue;
        if (!knows_standbys_) {
          Add({{standbys_[i], -1, slot}});
          continue;
        }
        const auto node = static_cast<int32_t>(model_.node_of_slot.size() + i);
        const int32_t place = place_.at(replaced);
        Change change;
        change.moves = {{standbys_[i], -1, slot}};
        change.rough_s = rough_->Replaced(place, node, SpeedsWith(standbys_[i], place));
        changes_.push_back(std::move(change));
      }
    }
  }

  // Of the slots, once the standby is in that one: nodes of a kind share the median of who is here.
  std::vector<double> SpeedsWith(const NodeId& standby, int32_t place) const {
    std::vector<NodeId> nodes = model_.node_of_slot;
    nodes[static_cast<size_t>(place)] = standby;
    return SpeedsOf(nodes, request_.input.devices);
  }

  const ReplanRequest& request_;
  ReplanWork& work_;
  const PipelinePlan& plan_;
  Memory memory_;
  std::vector<std::vector<NodeId>> at_work_;  // by stage; empty: nothing moves there
  std::vector<NodeId> standbys_;              // kStandbysMax at most, fastest first
  PlanModel model_;  // of who lives, and the standbys where all of them are known
  bool knows_standbys_ = false;
  std::vector<double> usual_gflops_;
  std::map<NodeId, int32_t> place_;  // slots of the model
  std::optional<RoughStep> rough_;   // nothing without a model
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
  for (size_t index = 0; index < plan.paths.size(); ++index) {
    living.paths[index] = PatchedPath(plan, index, kForEver);
    for (Slot& slot : living.paths[index]) slot = place.at(slot);
  }
  return living;
}

std::vector<Change> ChangesOf(const ReplanRequest& request, ReplanWork& work) {
  return Changes(request, work).All();
}

}  // namespace skerry
