// A stage that has nobody left, and a plan that begins with a checkpoint (docs/PROTOCOL.md, 38 to
// 41).
//
// Of that the journal knows two records. *lost*: a plan in which everybody is dead, so that all
// drop what they hold and say Hello as ones that hold nothing; what they said before is refused as
// any dead node's. *rewind*: the plan made of those who are here then, and what it takes back. In
// between the run gathers as at its beginning. A run that begins with another's checkpoint has only
// the second.

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/round_clock.h"
#include "common/status.h"
#include "coordinator/border.h"
#include "coordinator/coordinator_actor.h"
#include "pipeline/plan/handover.h"
#include "pipeline/plan/route.h"

namespace skerry {

struct CoordinatorActor::Starting {
  PipelinePlan plan;
  double step_s = 0, bound_s = 0;
  std::string explanation;
  CheckpointRecord from;
  absl::Status status;
};

// What this life knew of the training that is over.
void CoordinatorActor::ForgetTraining() {
  held_.clear();
  sums_held_.clear();
  sum_checking_.reset();
  work_checking_.reset();
  sizes_watching_.reset();
  late_.clear();
  statistics_.clear();
  table_parts_.clear();
  told_of_detour_.clear();
  joining_since_.clear();
  held_up_since_.clear();
  failed_handover_.clear();
  moved_at_.clear();
  migration_.reset();
  speeds_.clear();
  beats_.clear();
  told_.clear();
  told_of_death_.clear();
  checkpointing_.reset();
  checkpoint_margin_ = 0;
}

namespace {

std::string ListOf(const std::vector<int32_t>& stages) {
  std::string list = stages.size() == 1 ? "stage" : "stages";
  for (const int32_t stage : stages) list += absl::StrFormat(" %d", stage);
  return list;
}

}  // namespace

// Stages of which only these were left.
std::vector<int32_t> CoordinatorActor::StagesWithout(const PipelinePlan& plan,
                                                     const std::set<NodeId>& dead) {
  std::vector<int32_t> lost;
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    const auto& replicas = plan.stages[i].replicas;
    const bool is_lost = std::all_of(replicas.begin(), replicas.end(),
                                     [&](const NodeId& node) { return dead.contains(node); });
    if (is_lost) lost.push_back(static_cast<int32_t>(i));
  }
  return lost;
}

// The plan's dead, this node, and whoever is stranded without it: who joins a stage needs its
// rounds until its own begin, and without a participant of the next one there will be none.
std::set<NodeId> CoordinatorActor::DeadWith(const NodeId& node) const {
  const PipelinePlan& plan = *state_.plan;
  std::set<NodeId> dead(plan.dead.begin(), plan.dead.end());
  dead.insert(node);
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    const auto& replicas = plan.stages[i].replicas;
    const int64_t round = state_.RoundsCommitted(static_cast<int32_t>(i));
    const bool goes_on = std::any_of(replicas.begin(), replicas.end(), [&](const NodeId& other) {
      const Joiner* joiner = JoinerOf(plan, other);
      return !dead.contains(other) &&
             (joiner == nullptr || (joiner->IsFixed() && joiner->from_round <= round));
    });
    if (!goes_on) dead.insert(replicas.begin(), replicas.end());
  }
  return dead;
}

// A silent node may come back with what it holds, a dead one comes back with nothing. Where its
// death would end the run, silence is borne for longer: nobody can go on without it anyway.
bool CoordinatorActor::MustAwait(Context& context, const NodeId& node) {
  const RunConfig& config = options_.config;
  if (!state_.plan || !state_.lost.empty() || state_.exported || !TakesPart(node)) return false;
  const bool returns = options_.checkpoints != nullptr && !state_.checkpoints.empty();
  const bool remakes = config.checkpoint.lost_stage == LostStage::kNeighbours;
  if (returns || remakes || BeginsAnew()) return false;
  const std::vector<int32_t> lost = StagesWithout(*state_.plan, DeadWith(node));
  const bool is_first = std::find(lost.begin(), lost.end(), 0) != lost.end();
  if (lost.empty() || (config.pipeline.skip_ratio > 0 && !is_first)) return false;
  if (!awaited_.insert(node).second) return true;
  context.Event("awaited",
                EventFields({{"node", node.Short()},
                             {"stages", lost},
                             {"why",
                              "it is silent, nobody else holds its stage, and there is no "
                              "checkpoint to go back to"},
                             {"action",
                              "see to it that it comes back within six times node_silent_s, "
                              "or the run ends"}}));
  return true;
}

// A run that makes checkpoints has one from the beginning: its seed. So has one in which nobody was
// seen at work yet, and one that has learnt nothing yet which its neighbours could give.
bool CoordinatorActor::BeginsAnew() const {
  if (options_.checkpoints == nullptr || !state_.checkpoints.empty() || state_.resumed)
    return false;
  if (!state_.lost.empty() || state_.started.empty()) return true;
  const CheckpointConfig& config = options_.config.checkpoint;
  const bool is_young = RoundsReached() <= RoundClock(options_.config).fragments();
  return config.every_rounds > 0 || (config.lost_stage == LostStage::kNeighbours && is_young);
}

// Nobody has what the stage learnt, nor ever will: what comes back comes with nothing. Without
// skipping there is nothing to go on with, nor without the first, where every path begins.
bool CoordinatorActor::GoOnIfSkipped(Context& context, const std::vector<int32_t>& lost,
                                     const std::string& reason) {
  constexpr char kAction[] = "run with [checkpoint] every_rounds, or more replicas of every stage";
  const bool is_first = std::find(lost.begin(), lost.end(), 0) != lost.end();
  if (options_.config.pipeline.skip_ratio == 0 || is_first) {
    GiveUp(context, absl::StrFormat("%s; nobody is left of %s, and there is no checkpoint to go "
                                    "back to: %s",
                                    reason, ListOf(lost), kAction));
    return true;
  }
  for (const int32_t stage : lost) {
    if (!told_lost_.insert(stage).second) continue;
    context.Event("stage_lost",
                  EventFields({{"stages", {stage}},
                               {"why", reason},
                               {"then",
                                "it is skipped, and its parameters are lost: the model "
                                "cannot be collected"},
                               {"action", kAction}}));
  }
  return false;
}

// False: no stage is lost with these dead, or the run goes on without it.
bool CoordinatorActor::BeginRecovery(Context& context, const std::set<NodeId>& dead,
                                     const std::string& reason) {
  const std::vector<int32_t> lost = StagesWithout(*state_.plan, dead);
  if (lost.empty()) return false;
  if (RemakeLost(context, lost, reason)) return false;
  if ((options_.checkpoints == nullptr || state_.checkpoints.empty()) && !BeginsAnew()) {
    return GoOnIfSkipped(context, lost, reason);
  }
  const CheckpointRecord newest = LoseAll(context, lost);
  context.Event("stage_lost", EventFields({{"stages", lost},
                                           {"why", reason},
                                           {"generation", newest.generation},
                                           {"round", newest.round},
                                           {"step", newest.step}}));
  return true;
}

// Everybody starts over, with the newest checkpoint, which is returned.
CheckpointRecord CoordinatorActor::LoseAll(Context& context, const std::vector<int32_t>& lost) {
  PipelinePlan plan = *state_.plan;
  std::set<NodeId> all;
  for (const StageAssignment& stage : plan.stages) {
    all.insert(stage.replicas.begin(), stage.replicas.end());
  }
  const CheckpointRecord newest =
      BeginsAnew() ? CheckpointRecord() : state_.checkpoints.rbegin()->second;
  ++plan.version;
  plan.dead.assign(all.begin(), all.end());
  plan.joining.clear();
  plan.absent.clear();
  Record(context, LostRecord(plan, lost));
  ForgetTraining();
  fresh_since_ = context.now();
  const SharedMessage update = Share(PlanUpdate{plan});
  for (const NodeId& node : active_) {
    if (greeted_.contains(node)) context.Send(node, update);
  }
  NoteChange("stage lost");
  return newest;
}

bool CoordinatorActor::AwaitsStart() const {
  return !state_.lost.empty() || (!state_.plan && state_.resumed);
}

// Said so in its Hello, or, as one who had no stage when all was lost, in a heartbeat since.
bool CoordinatorActor::HoldsNothing(const NodeId& node) const {
  if (fresh_.contains(node)) return true;
  const auto beat = beats_.find(node);
  return beat != beats_.end() &&
         (beat->second.phase == Phase::kStandby || beat->second.phase == Phase::kWaitingForPlan);
}

// Everybody who is here has dropped what it held. Fewer than the run began with will do, when
// nobody else has come for a while.
bool CoordinatorActor::MayPlan(const std::vector<NodeId>& live, Instant now) {
  const bool enough = static_cast<int32_t>(live.size()) >= options_.config.nodes_min;
  if (state_.lost.empty()) return enough;
  const bool all =
      std::all_of(live.begin(), live.end(), [&](const NodeId& node) { return HoldsNothing(node); });
  const std::set<NodeId> here(live.begin(), live.end());
  if (here != fresh_last_) {
    fresh_last_ = here;
    fresh_since_ = now;
  }
  if (!all || live.empty()) return false;
  return enough || now - fresh_since_ > Duration::Seconds(2 * options_.config.node_silent_s);
}

// The states are put together, and every byte of them verified, before the run goes back to them.
void CoordinatorActor::PrepareStart(Context& context, PipelinePlan plan, double step_s,
                                    double bound_s, const std::string& explanation) {
  const bool is_anew = BeginsAnew();
  if (!is_anew && (options_.checkpoints == nullptr || state_.checkpoints.empty())) {
    return GiveUp(context, "there is no checkpoint to begin with");
  }
  if (state_.plan) {
    const PlannedSettings of_who_is_here = plan.settings;
    plan.settings = state_.plan->settings;
    plan.settings.spreads = of_who_is_here.spreads;
    plan.settings.round_s = of_who_is_here.round_s;
    plan.settings.step_s = of_who_is_here.step_s;
  }
  starting_ = std::make_shared<Starting>();
  if (!is_anew) starting_->from = state_.checkpoints.rbegin()->second;
  starting_->step_s = step_s;
  starting_->bound_s = bound_s;
  starting_->explanation = explanation;
  plan.start = {plan.version, starting_->from.round, starting_->from.step};
  for (StageAssignment& stage : plan.stages) {
    stage.remade.clear();
    for (const int32_t layer : starting_->from.remade) {
      if (layer >= stage.first_layer && layer < stage.last_layer) stage.remade.push_back(layer);
    }
  }
  starting_->plan = std::move(plan);
  starting_job_ = context.Submit({"prepare checkpoint", Duration::Millis(100),
                                  [starting = starting_, store = options_.checkpoints,
                                   model = options_.trained_model.value_or(options_.config.model)] {
                                    if (starting->from.generation == 0) return;  // the seed
                                    starting->status = store->Prepare(starting->from.generation,
                                                                      starting->from.round, model,
                                                                      starting->plan.stages);
                                  }});
}

void CoordinatorActor::StartPrepared(Context& context) {
  const auto starting = std::exchange(starting_, nullptr);
  const CheckpointRecord& from = starting->from;
  if (!starting->status.ok()) {
    const std::string why = ErrorText(starting->status);
    const bool is_damaged = absl::IsDataLoss(starting->status);
    context.Event(is_damaged ? "checkpoint_damaged" : "no_plan",
                  EventFields({{"generation", from.generation}, {"reason", why}}));
    if (!is_damaged) return;  // the disk may come back: the next duty tries again
    Record(context, CheckpointDropped(from.generation));
    if (!state_.checkpoints.empty()) return;
    return GiveUp(context, "no whole checkpoint is left: " + why);
  }
  for (const StageAssignment& stage : starting->plan.stages) {
    for (const NodeId& node : stage.replicas) {
      const NodeRecord& record = state_.nodes.at(node);
      const bool knows = KnowsWaysOf(starting->plan, record.device);
      if (!record.alive || !active_.contains(node) || !knows) return;  // plan again
      if (!state_.lost.empty() && !HoldsNothing(node)) return;
    }
  }
  if (state_.plan && starting->plan.version != state_.plan->version + 1) return;
  const int64_t before = state_.rewound_tokens;
  Record(context, RewindRecord(PlanRecord(starting->plan, starting->step_s, starting->bound_s),
                               from.generation));
  emitted_steps_.erase(emitted_steps_.lower_bound(from.step), emitted_steps_.end());
  emitted_below_ = std::min(emitted_below_, from.step);
  last_step_ = from.step - 1;
  told_of_death_.clear();
  context.Event("rewind", EventFields({{"generation", from.generation},
                                       {"round", from.round},
                                       {"step", from.step},
                                       {"tokens", state_.tokens},
                                       {"rewound_tokens", state_.rewound_tokens - before}}));
  if (state_.orders.paused_at) {  // before they hear of the plan
    for (const NodeId& node : LiveNodes()) TellPause(context, node);
  }
  AnnouncePlan(context, starting->explanation);
}

// "replica/STAGE" of a node of that stage; the answer names the version, and so do further
// requests.
void CoordinatorActor::OnStartRequest(Context& context, const NodeId& from,
                                      const ObjectRequest& request) {
  const auto stage = StageOf(from);
  const bool may = stage && options_.checkpoints != nullptr && state_.plan->start.since > 0;
  if (!may) return context.Send(from, ObjectChunk{request.object, request.offset, -1, nullptr});
  const std::string object = absl::StrFormat("replica/%d", *stage);
  const std::string named = absl::StrFormat("%s/%d", object, state_.plan->start.round);
  if (request.object != object && request.object != named) return void(++refused_);
  // From here on it may work and send, though this process may not live to see it.
  NoteStarted(context, from);
  if (stopping_) return;
  ObjectChunk chunk = options_.checkpoints->Read(*stage, request);
  chunk.object = named;
  context.Send(from, std::move(chunk));
}

}  // namespace skerry
