// What a plan means for who may do what: deaths, joiners, and who tells the truth.
#include <algorithm>

#include "absl/strings/str_format.h"
#include "common/status.h"
#include "pipeline/plan/route.h"
#include "pipeline/plan/validate.h"
#include "sim/checkers.h"

namespace skerry {

void Checkers::NoteNewPlan(Instant now, const PipelinePlan* before, const PipelinePlan& plan) {
  if (!plan.dead.empty() || !plan.joining.empty()) all_alive_ = false;
  CheckSound(now, before, plan);
  NoteLiars(plan);
  for (const NodeId& node : plan.dead) {
    const auto slot = SlotOf(plan, node);
    const bool is_new = before == nullptr || !IsDead(*before, node);
    // When a stage is lost all are dead to the plan; what they had under way is made again.
    const bool is_gone = state().lost.empty() || !state().nodes.at(node).alive;
    if (is_new && slot && slot->stage == 0 && is_gone) ++data_node_deaths_;
  }
  if (before != nullptr) NoteMoved(now, *before, plan);
  if (before != nullptr) NotePartings(*before, plan);
  for (const Joiner& joiner : plan.joining) {
    const Joiner* known = before == nullptr ? nullptr : JoinerOf(*before, joiner.node);
    if (known == nullptr || known->since != joiner.since) {
      // What an earlier process of it held, and counted, is gone.
      for (auto& [round, held] : held_) held.erase(joiner.node);
      counted_.erase(joiner.node);
      last_counted_.erase(joiner.node);
      step_of_.erase(joiner.node);
      made_.erase(joiner.node);
    }
    if (joiner.IsFixed() && (known == nullptr || !known->IsFixed())) {
      CheckNobodyIsPast(now, plan, joiner);
      fixed_by_[joiner.node] = plan.version;
      ++handovers_;
    }
  }
}

// What a data node had under way when it was moved or replaced is lost as if it had died. While it
// goes, somebody else must work in its stage.
void Checkers::NoteMoved(Instant now, const PipelinePlan& before, const PipelinePlan& plan) {
  for (int32_t stage = 0; stage < static_cast<int32_t>(before.stages.size()); ++stage) {
    bool somebody_went = false;
    for (const NodeId& node : LiveReplicas(before, stage)) {
      const auto slot = SlotOf(plan, node);
      const Joiner* joiner = JoinerOf(plan, node);
      // Who is replaced may be left in the replacer's former slot, dead there.
      const bool goes = !slot || slot->stage != stage || (joiner != nullptr && !joiner->IsFixed());
      if (!goes) continue;
      somebody_went = true;
      ++movers_;
      if (stage == 0) ++data_node_deaths_;
    }
    if (somebody_went && LiveReplicas(plan, stage).empty()) {
      Violate(now, "liveness", absl::StrFormat("nobody was left in stage %d by a move", stage));
    }
  }
}

void Checkers::CheckSound(Instant now, const PipelinePlan* before, const PipelinePlan& plan) {
  absl::Status sound = ValidatePlan(plan, options_.config);
  // Several may be journalled at once, of which only the last is seen.
  const bool begins = plan.start.since == plan.version;
  const bool follows = !begins && before != nullptr && plan.version == before->version + 1;
  if (sound.ok() && follows) sound = ValidateNext(*before, plan);
  if (!sound.ok()) Violate(now, "plan_agreement", ErrorText(sound));
}

void Checkers::CheckNobodyIsPast(Instant now, const PipelinePlan& plan, const Joiner& joiner) {
  for (const StageAssignment& stage : plan.stages) {
    for (const NodeId& node : stage.replicas) {
      const auto made = made_.find(node);
      if (stage.replicas.size() < 2 || IsDead(plan, node) || made == made_.end() ||
          made->second < joiner.from_step) {
        continue;
      }
      Violate(now, "plan_agreement",
              absl::StrFormat("%s works from step %d on, which %s has made already",
                              joiner.node.Short(), joiner.from_step, node.Short()));
    }
  }
}

// A joiner may be given what a liar holds, and tell the truth about that.
void Checkers::NoteLiars(const PipelinePlan& plan) {
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    const std::vector<NodeId> live = LiveReplicas(plan, static_cast<int32_t>(i));
    const auto liars = std::count_if(live.begin(), live.end(), [&](const NodeId& node) {
      return options_.liars.contains(node);
    });
    if (liars == 0 || static_cast<int64_t>(live.size()) > 2 * liars) continue;
    beside_liars_.insert(live.begin(), live.end());
    for (const NodeId& node : Holders(plan, static_cast<int32_t>(i))) {
      const Joiner* joiner = JoinerOf(plan, node);
      if (joiner == nullptr || joiner->IsFixed()) continue;
      options_.liars.insert(node);
      beside_liars_.insert(node);
    }
  }
}

// Who has no rounds is not held back by their commits; and what it does then depends on no joiner.
void Checkers::CheckHeardOfJoiners(Instant now, const NodeId& node, int64_t step) {
  if (!state().plan) return;
  const auto slot = SlotOf(*state().plan, node);
  if (!slot || state().plan->stages[static_cast<size_t>(slot->stage)].replicas.size() < 2) return;
  for (const Joiner& joiner : state().plan->joining) {
    if (!joiner.IsFixed() || step < joiner.from_step) continue;
    const int64_t fixed_by = fixed_by_[joiner.node];
    if (heard_plan_[node] >= fixed_by) continue;
    Violate(
        now, "plan_agreement",
        absl::StrFormat("%s made step %d without having heard of plan %d, by which %s works from "
                        "step %d on",
                        node.Short(), step, fixed_by, joiner.node.Short(), joiner.from_step));
  }
}

bool Checkers::SomePlanLeadsThrough(const NodeId& node, int64_t step, int32_t microbatch) const {
  return std::any_of(plans_.rbegin(), plans_.rend(), [&](const auto& plan) {
    const Path path = PathOf(plan.second, step, microbatch);
    return std::any_of(path.begin(), path.end(),
                       [&](const Slot& slot) { return NodeOf(plan.second, slot) == node; });
  });
}

// By the plan that its stage-0 node knew: meanwhile the node may have lost its slot.
bool Checkers::WasLedTo(const NodeId& node, int64_t step, int32_t microbatch) const {
  const auto led = led_around_.find({step, microbatch});
  if (led == led_around_.end()) return false;
  return std::any_of(plans_.rbegin(), plans_.rend(), [&](const auto& plan) {
    const auto slot = SlotOf(*plan.second, node);
    return slot && std::any_of(led->second.begin(), led->second.end(), [&](const NodeId& around) {
             const auto other = SlotOf(*plan.second, around);
             return around != node && other && other->stage == slot->stage;
           });
  });
}

}  // namespace skerry
