// Handing slots of dead nodes to standbys (docs/PROTOCOL.md, 16).
//
// Of a handover the journal knows two plans: the one that names the joiner and the one that fixes
// its first step. All else is looked up again at every duty, so that a coordinator that restarts
// goes on.

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/round_clock.h"
#include "coordinator/border.h"
#include "coordinator/coordinator_actor.h"
#include "pipeline/plan/route.h"
#include "routing/cost_model.h"

namespace skerry {
namespace {

constexpr int64_t kLagMax = 2;           // spans of τ that a joiner may still have to apply
constexpr size_t kPredictedFleet = 128;  // larger ones fill slots by device alone
// How fast a joiner is given its state at least.
constexpr double kSlowestBytesPerS = 1e6;

}  // namespace

struct CoordinatorActor::Choosing {
  PlannerInput input;
  PipelinePlan plan;
  int32_t stage = 0;
  std::vector<NodeId> standbys;
  std::optional<Handover> chosen;
};

void CoordinatorActor::TendHandovers(Context& context) {
  if (!state_.plan || state_.finished) return;
  if (!IsAtPause()) GiveUpSlowJoiners(context);
  if (stopping_) return;
  // Who was asked may have died meanwhile.
  for (size_t stage = 0; stage < state_.plan->stages.size() && !stopping_; ++stage) {
    AgreeOnState(context, static_cast<int32_t>(stage));
  }
  if (stopping_) return;
  FixFirstSteps(context);
  OfferHandover(context);
}

// Its first step comes after a round that no stage has committed: nobody gets past that without a
// commit, which comes after this plan.
void CoordinatorActor::FixFirstSteps(Context& context) {
  if (!state_.plan || state_.finished) return;
  const int64_t lag_max = RoundClock(options_.config).RoundsIn(kLagMax);
  const std::vector<Joiner> joining = state_.plan->joining;
  for (const Joiner& joiner : joining) {
    const auto beat = beats_.find(joiner.node);
    if (joiner.IsFixed() || beat == beats_.end() || beat->second.phase != Phase::kCatchingUp) {
      continue;
    }
    const int32_t stage = *StageOf(joiner.node);
    if (beat->second.base_version + lag_max < state_.RoundsCommitted(stage)) continue;
    const int64_t round = state_.RoundsOfAnyStage() + 1;
    const int64_t step = FirstStepAfter(options_.config, round);
    if (step >= options_.config.steps) continue;
    const PipelinePlan plan = WithFirstStep(*state_.plan, joiner.node, options_.config, round);
    Record(context, PlanRecord(plan, state_.predicted_step_s, state_.lower_bound_s));
    joining_since_.erase(joiner.node);
    context.Event(
        "joined",
        EventFields({{"node", joiner.node.Short()}, {"stage", stage}, {"from_step", step}}));
    AnnouncePlan(context,
                 absl::StrFormat("%s is a replica from step %d on", joiner.node.Short(), step));
    TryCommit(context, stage);
  }
}

// As long as the state of a stage may take on a slow line, and then some rounds.
Duration CoordinatorActor::JoinersTime(int32_t stage) const {
  const RunConfig& config = options_.config;
  const StageAssignment& assignment = state_.plan->stages[static_cast<size_t>(stage)];
  int64_t bytes =
      kStateBytesPerParameter *
      StageParameters(config.model, assignment.last_layer - assignment.first_layer, stage == 0);
  for (const ShardName& shard : options_.shards) bytes += stage == 0 ? shard.bytes : 0;
  const double round_s = static_cast<double>(config.outer.inner_steps) * state_.predicted_step_s;
  return Duration::Seconds(static_cast<double>(bytes) / kSlowestBytesPerS + 8 * round_s +
                           6 * config.node_silent_s);
}

void CoordinatorActor::GiveUpSlowJoiners(Context& context) {
  const RunConfig& config = options_.config;
  const Instant now = context.now();
  const double round_s = static_cast<double>(config.outer.inner_steps) * state_.predicted_step_s;
  const Duration patience = Duration::Seconds(config.node_silent_s + round_s);
  const std::vector<Joiner> joining = state_.plan->joining;
  for (const Joiner& joiner : joining) {
    if (joiner.IsFixed() || JoinerOf(*state_.plan, joiner.node) == nullptr) continue;
    const int32_t stage = *StageOf(joiner.node);
    const Instant since = joining_since_.try_emplace(joiner.node, now).first->second;
    const auto held_up = held_up_since_.find(stage);
    if (held_up != held_up_since_.end() && now - held_up->second > patience) {
      GiveUpJoiner(context, joiner.node, "its stage waits for it");
    } else if (now - since > JoinersTime(stage)) {
      GiveUpJoiner(context, joiner.node, "it takes too long");
    }
    if (stopping_) return;
  }
}

// It stays, as a standby.
void CoordinatorActor::GiveUpJoiner(Context& context, const NodeId& joiner,
                                    const std::string& why) {
  context.Event("handover_failed",
                EventFields({{"node", joiner.Short()}, {"stage", *StageOf(joiner)}, {"why", why}}));
  beats_.erase(joiner);
  RouteAround(context, joiner, absl::StrFormat("%s joins no more: %s", joiner.Short(), why));
}

// Those that hold nothing, have said so, and could take a place. Who cannot must not be offered to
// a stage, which would rest after that although others come.
std::vector<NodeId> CoordinatorActor::Standbys() const {
  std::vector<NodeId> standbys;
  for (const NodeId& node : active_) {
    const auto beat = beats_.find(node);
    if (greeted_.contains(node) && !TakesPart(node) && !untold_.contains(node) &&
        beat != beats_.end() && beat->second.phase == Phase::kStandby &&
        KnowsWaysOf(*state_.plan, state_.nodes.at(node).device)) {
      standbys.push_back(node);
    }
  }
  return standbys;
}

// Of who is named a joiner now.
int64_t CoordinatorActor::SoonestFirstStep(const RunConfig& config) const {
  return FirstStepAfter(config, state_.RoundsOfAnyStage() + RoundClock(config).RoundsIn(2));
}

// The most urgent one. One handover a stage at a time, only where both the stage and the
// microbatches' origins have rounds, and rounds enough are left.
std::optional<int32_t> CoordinatorActor::StageToFill(Instant now) const {
  const RunConfig& config = options_.config;
  const PipelinePlan& plan = *state_.plan;
  const Duration rest = Duration::Seconds(2 * config.node_silent_s);
  if (SoonestFirstStep(config) >= config.steps) return std::nullopt;
  if (plan.stages.front().replicas.size() < 2) return std::nullopt;
  std::optional<int32_t> most_urgent;
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    const auto stage = static_cast<int32_t>(i);
    const size_t planned = plan.stages[i].replicas.size();
    const size_t live = LiveReplicas(plan, stage).size();
    const auto failed = failed_handover_.find(stage);
    const bool rests = failed != failed_handover_.end() && now - failed->second < rest;
    const bool lacks = planned >= 2 && live >= 1 && live < planned;
    if (!lacks || rests || Holders(plan, stage).size() != live) continue;
    if (!most_urgent || UrgencyOf(plan, stage) < UrgencyOf(plan, *most_urgent)) most_urgent = stage;
  }
  return most_urgent;
}

void CoordinatorActor::OfferHandover(Context& context) {
  if (choosing_ || state_.plan->dead.empty()) return;
  const auto stage = StageToFill(context.now());
  if (!stage) return;
  auto choosing = std::make_shared<Choosing>();
  choosing->standbys = Standbys();
  if (choosing->standbys.empty()) return;
  choosing->plan = *state_.plan;
  choosing->stage = *stage;
  PlannerInput& input = choosing->input;
  input.config = options_.config;
  std::set<NodeId> nodes(choosing->standbys.begin(), choosing->standbys.end());
  for (const StageAssignment& assignment : state_.plan->stages) {
    nodes.insert(assignment.replicas.begin(), assignment.replicas.end());
  }
  input.nodes.assign(nodes.begin(), nodes.end());
  for (const NodeId& node : nodes) {
    input.devices[node] = ComputingFor(input.config, state_.nodes.at(node).device);
  }
  if (nodes.size() <= kPredictedFleet) input.links = links_.Estimate(input.nodes, context.now());
  choosing_ = choosing;
  choosing_job_ = context.Submit({"choose handover", Duration::Millis(20), [choosing] {
                                    choosing->chosen =
                                        ChooseHandover(choosing->input, choosing->plan,
                                                       choosing->stage, choosing->standbys);
                                  }});
}

void CoordinatorActor::HandoverChosen(Context& context) {
  const auto choosing = std::exchange(choosing_, nullptr);
  if (state_.finished || !state_.plan) return;
  if (!choosing->chosen) {  // nobody has the memory: the stage waits for another standby
    failed_handover_[choosing->stage] = context.now();
    return;
  }
  // What has changed meanwhile, the next duty sees.
  const std::vector<NodeId> standbys = Standbys();
  const bool is_free =
      std::find(standbys.begin(), standbys.end(), choosing->chosen->node) != standbys.end();
  if (state_.plan->version != choosing->plan.version || !is_free) return;
  Appoint(context, *choosing->chosen);
}

void CoordinatorActor::Appoint(Context& context, const Handover& handover) {
  const auto& [slot, node] = handover;
  const NodeId gone = NodeOf(*state_.plan, slot);
  const PipelinePlan plan =
      WithJoiner(*state_.plan, slot, node, state_.RoundsCommitted(slot.stage));
  // What an earlier process of it held is gone with that.
  ForgetHoldings(node);
  joining_since_[node] = context.now();
  held_up_since_.erase(slot.stage);
  Record(context, PlanRecord(plan, state_.predicted_step_s, state_.lower_bound_s));
  context.Event("handover", EventFields({{"node", node.Short()},
                                         {"stage", slot.stage},
                                         {"replica", slot.replica},
                                         {"from", gone.Short()}}));
  AnnouncePlan(context, absl::StrFormat("%s joins stage %d", node.Short(), slot.stage));
}

}  // namespace skerry
