// A middle stage of which nobody is left, made again from its neighbours (CheckFree;
// docs/PROTOCOL.md, 42; docs/decisions/0036-neighbours.md).
//
// It is a generation like any other (ops_checkpoint.cc) but for three things: every stage that is
// left gives what it has at once, so versions may differ by a round; what is lost is computed when
// the others are here; and the run goes back to it as soon as it is whole. In the journal there is
// nothing of it before that: a coordinator that dies meanwhile sees in the plan that a stage is
// lost, and begins again.

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "common/round_clock.h"
#include "common/status.h"
#include "coordinator/border.h"
#include "coordinator/checkpoint_store.h"
#include "coordinator/checkpointing.h"

namespace skerry {

// Empty: nothing stands in the way.
std::string CoordinatorActor::WhyNotRemade(const std::vector<int32_t>& lost) const {
  const auto& stages = state_.plan->stages;
  const auto layers = [&](int32_t stage) {
    const StageAssignment& of = stages[static_cast<size_t>(stage)];
    return of.last_layer - of.first_layer;
  };
  const auto is_lost = [&](int32_t stage) {
    return std::find(lost.begin(), lost.end(), stage) != lost.end();
  };
  for (const int32_t stage : lost) {
    if (stage == 0) return "stage 0 holds embedding and head, which no other stage is like";
    if (stage + 1 == std::ssize(stages)) {
      return absl::StrFormat("stage %d is the last, and has one neighbour", stage);
    }
    for (const int32_t neighbour : {stage - 1, stage + 1}) {
      if (is_lost(neighbour)) {
        return absl::StrFormat("its neighbour, stage %d, is lost too", neighbour);
      }
      if (layers(neighbour) != layers(stage)) {
        return absl::StrFormat("stage %d has %d layers, its neighbour, stage %d, has %d", stage,
                               layers(stage), neighbour, layers(neighbour));
      }
    }
  }
  return RoundsReached() > 0 ? "" : "they have not learnt anything yet";
}

// True: it is being made. Called before anybody hears that the stage is lost, so that what is asked
// for comes before what the others would learn without it.
bool CoordinatorActor::RemakeLost(Context& context, const std::vector<int32_t>& lost,
                                  const std::string& reason) {
  const bool may = options_.config.checkpoint.lost_stage == LostStage::kNeighbours &&
                   options_.checkpoints != nullptr && !state_.finished;
  if (!may) return false;
  if (checkpointing_ && checkpointing_->lost == lost) return true;
  const bool was_tried = std::any_of(lost.begin(), lost.end(),
                                     [&](int32_t stage) { return not_remade_.contains(stage); });
  if (was_tried) return false;
  if (const std::string why = WhyNotRemade(lost); !why.empty()) {
    not_remade_.insert(lost.begin(), lost.end());
    checkpointing_.reset();
    context.Event("stage_not_remade", EventFields({{"stages", lost}, {"why", why}}));
    return false;
  }
  context.Event("stage_lost",
                EventFields({{"stages", lost},
                             {"why", reason},
                             {"then", "it is made again from its neighbours (CheckFree)"}}));
  NewGeneration();
  checkpointing_->lost = lost;
  checkpointing_->reason = reason;
  for (const int32_t stage : lost)
    checkpointing_->stages[static_cast<size_t>(stage)].is_done = true;
  for (size_t i = 0; checkpointing_ && i < checkpointing_->stages.size(); ++i) {
    if (!checkpointing_->stages[i].is_done) AskForState(context, i);
  }
  return true;
}

// The plan of an earlier life says that a stage has nobody.
void CoordinatorActor::RemakeAfterReturn(Context& context) {
  if (options_.config.checkpoint.lost_stage != LostStage::kNeighbours) return;
  const std::set<NodeId> dead(state_.plan->dead.begin(), state_.plan->dead.end());
  const std::vector<int32_t> lost = StagesWithout(*state_.plan, dead);
  const bool is_new = std::any_of(lost.begin(), lost.end(),
                                  [&](int32_t stage) { return !not_remade_.contains(stage); });
  if (is_new) BeginRecovery(context, dead, "nobody is left of a stage");
}

// All that is left of the run is here: of which version it is, and what is made anew. False: it is
// given up.
bool CoordinatorActor::SettleRemade(Context& context) {
  Checkpoint& made = checkpointing_->made;
  const RoundClock clock(options_.config);
  int64_t round = std::numeric_limits<int64_t>::max();
  for (size_t i = 0; i < made.stages.size(); ++i) {
    const auto stage = static_cast<int32_t>(i);
    const auto& lost = checkpointing_->lost;
    if (std::find(lost.begin(), lost.end(), stage) != lost.end()) {
      for (int32_t l = made.stages[i].first_layer; l < made.stages[i].last_layer; ++l) {
        made.remade.push_back(l);
      }
    } else {
      round = std::min(round, checkpointing_->stages[i].round);
    }
  }
  std::sort(made.remade.begin(), made.remade.end());
  made.round = round - round % clock.fragments();
  made.step = clock.StartOf(made.round);
  if (made.round > 0 && made.step < options_.config.steps) return true;
  GiveUpCheckpoint(context, made.round > 0 ? "its neighbours have finished"
                                           : "they have not learnt anything yet");
  return false;
}

void CoordinatorActor::GoBackToRemade(Context& context, const Checkpointing& done) {
  context.Event("stage_remade", EventFields({{"stages", done.lost},
                                             {"layers", done.made.remade},
                                             {"generation", done.made.generation},
                                             {"round", done.made.round},
                                             {"step", done.made.step},
                                             {"from", "the means of its neighbours"}}));
  for (const int32_t stage : done.lost) told_lost_.erase(stage);
  LoseAll(context, done.lost);
}

// What the run does that does not allow it.
void CoordinatorActor::GiveUpRemaking(Context& context, const Checkpointing& given_up,
                                      const std::string& why) {
  not_remade_.insert(given_up.lost.begin(), given_up.lost.end());
  context.Event("stage_not_remade", EventFields({{"stages", given_up.lost}, {"why", why}}));
  BeginRecovery(context, {state_.plan->dead.begin(), state_.plan->dead.end()}, given_up.reason);
}

}  // namespace skerry
