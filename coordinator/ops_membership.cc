// Who is here: joining, heartbeats, leaving, death, measured links, data.

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/round_clock.h"
#include "common/status.h"
#include "coordinator/border.h"
#include "coordinator/coordinator_actor.h"
#include "coordinator/listings.h"
#include "pipeline/plan/planner.h"
#include "pipeline/plan/route.h"

namespace skerry {
namespace {

// Phases of a process that holds nothing of the run.
bool IsIdle(Phase phase) {
  return phase == Phase::kJoining || phase == Phase::kMeasuring ||
         phase == Phase::kWaitingForPlan || phase == Phase::kStandby;
}

bool LacksStageFrom(const RunState& state, int32_t first) {
  for (int32_t stage = first; stage < static_cast<int32_t>(state.plan->stages.size()); ++stage) {
    const std::vector<NodeId> replicas = LiveReplicas(*state.plan, stage);
    const bool is_there = std::any_of(replicas.begin(), replicas.end(), [&](const NodeId& node) {
      return state.nodes.at(node).alive;
    });
    if (!is_there) return true;
  }
  return false;
}

}  // namespace

using Json = nlohmann::json;

void CoordinatorActor::On(Context& context, const NodeId& from, const Hello& message) {
  const Hello hello = CleanHello(message);
  const auto known = state_.nodes.find(from);
  if (known == state_.nodes.end()) return Admit(context, from, hello);
  if (state_.exported) return Farewell(context, from);
  if (!state_.admission.WhyOut(from).empty()) return TellOfDeath(context, from);
  if (state_.finished && hello.plan_version == 0) {  // nothing to contribute, nothing to collect
    DeclareGone(context, from, Gone::kDead, "its process restarted after the end");
    const bool returns = options_.checkpoints != nullptr && !state_.checkpoints.empty();
    const int32_t collected = export_ ? export_->stage : 0;
    // The run will go back for what it held, and needs it for that: it says Hello again by then.
    if ((returns || BeginsAnew()) && LacksStageFrom(state_, collected)) return;
    context.ConnectPeer(from, "");
    context.Send(from, Shutdown{"the run is finished"});
    return;
  }
  // A process that knows no plan although its node was seen at work, or may have been sent the plan
  // as another process, perhaps by a coordinator that has died since: what the node held is lost.
  const bool is_new = hello.plan_version == 0;
  const uint64_t before = known->second.process;
  const bool is_other = before != 0 && hello.process != before;
  const bool lost = is_new && TakesPart(from) &&
                    (is_other || state_.started.contains(from) || told_.contains(from) ||
                     JoinerOf(*state_.plan, from) != nullptr);
  if (is_new) beats_.erase(from);
  if (lost) DeclareGone(context, from, Gone::kDead, "its process restarted and lost its stage");
  if (stopping_) return;
  NodeRecord record = state_.nodes.at(from);
  const bool returned = !record.alive;
  TakeAddress(record, hello);
  record.region = hello.region;
  record.device = hello.device;
  record.software = hello.software;
  record.alive = true;
  const bool is_news = record != state_.nodes.at(from);
  record.process = hello.process;
  if (record != state_.nodes.at(from)) Record(context, AdmittedRecord(from, record));
  if (returned) context.Event("returned", EventFields({{"node", from.Short()}}));
  if (returned) NoteChange(from.Short() + " is back");
  Greet(context, from, hello, is_news);
}

// Everything a process needs to go on from what it says it holds.
void CoordinatorActor::Greet(Context& context, const NodeId& node, const Hello& hello,
                             bool peers_changed) {
  context.ConnectPeer(node, "");
  ahead_.erase(node);
  if (IsAhead(hello)) {
    greeted_.erase(node);
    return void(ahead_.emplace(node, hello));
  }
  greeted_.insert(node);
  dismissed_.erase(node);
  // Whoever has heard that all is lost has dropped what it held.
  const bool is_fresh = hello.plan_version == 0 ||
                        (!state_.lost.empty() && hello.plan_version >= state_.plan->version);
  if (is_fresh)
    fresh_.insert(node);
  else
    fresh_.erase(node);
  context.Send(node,
               Welcome{options_.run, options_.config, options_.shards, options_.coordinators});
  TellPause(context, node);
  if (options_.tests_reach) {
    auto& dialled = dialled_[node];
    dialled = {{hello.endpoint}, {}, false, {}, peers_changed};
    dialled.listens.insert(dialled.listens.end(), hello.listens.begin(), hello.listens.end());
    const bool tested = state_.nodes.at(node).IsTested();
    if (!tested) dialled.introduces = hello;
    TestReach(context, node);
    if (!tested) return;
  }
  Introduce(context, node, hello, peers_changed);
}

void CoordinatorActor::Introduce(Context& context, const NodeId& node, const Hello& hello,
                                 bool peers_changed) {
  const bool is_new = !active_.contains(node);
  if (!TakePlace(node)) return;
  SendPeers(context, node);
  if (peers_changed || is_new) PeersChanged(context, node);
  if (!state_.plan) {
    RequestProbes(context);
    return PlanWhenReady(context);
  }
  told_.insert(node);
  context.Send(node, PlanUpdate{*state_.plan});
  if (const auto stage = StageOf(node)) {
    const Joiner* joiner = JoinerOf(*state_.plan, node);
    SendTables(context, node, *stage,
               joiner != nullptr ? joiner->base_version : hello.base_version);
    const int64_t first = std::max(hello.base_version, state_.plan->start.round);
    for (int64_t round = first; round < state_.RoundsCommitted(*stage); ++round) {
      context.Send(node, state_.commits.at({*stage, round}));
    }
  }
}

bool CoordinatorActor::HasPlaceFor(const NodeId& node) const {
  return active_.contains(node) || TakesPart(node) ||
         static_cast<int32_t>(active_.size()) < options_.config.nodes_max;
}

// False: there is none, and a node that was greeted waits for one.
bool CoordinatorActor::TakePlace(const NodeId& node) {
  if (HasPlaceFor(node)) {
    active_.insert(node);
    return true;
  }
  std::erase(reserve_, node);
  if (greeted_.contains(node)) reserve_.push_back(node);
  return false;
}

// From the reserve.
void CoordinatorActor::Activate(Context& context, const NodeId& node) {
  active_.insert(node);
  SendPeers(context, node);
  PeersChanged(context, node);
  if (!state_.plan) return;
  ++arrivals_;
  told_.insert(node);
  context.Send(node, PlanUpdate{*state_.plan});
}

void CoordinatorActor::FillPlaces(Context& context) {
  while (!reserve_.empty() && HasPlaceFor(reserve_.front())) {
    const NodeId node = reserve_.front();
    reserve_.pop_front();
    Activate(context, node);
  }
}

void CoordinatorActor::Farewell(Context& context, const NodeId& node) {
  context.ConnectPeer(node, "");
  context.Send(node, Shutdown{"the run is finished; thank you"});
  greeted_.insert(node);
  const std::vector<NodeId> live = LiveNodes();
  const bool all =
      std::all_of(live.begin(), live.end(), [&](const NodeId& n) { return greeted_.contains(n); });
  if (all) context.Stop(0, "the run is finished");
}

void CoordinatorActor::On(Context& context, const NodeId& from, const Heartbeat& message) {
  const Heartbeat beat = CleanHeartbeat(message);
  Traffic& traffic = traffic_[from];
  const Traffic before = traffic;
  traffic.OnReport(beat.bytes_sent, beat.bytes_received);
  if (traffic.ended_sent != before.ended_sent || traffic.ended_received != before.ended_received) {
    Record(context, TrafficRecord(from, traffic));
  }
  const auto [known, is_first] = beats_.try_emplace(from);
  const bool is_further = is_first || known->second.step != beat.step;
  known->second = beat;
  WatchSpeed(from, beat);
  switch (beat.phase) {
    case Phase::kFetchingData:
    case Phase::kTraining:
    case Phase::kWaitingForRound:
    case Phase::kWaitingForPeers:
    case Phase::kFinished:
    case Phase::kCatchingUp:
      NoteStarted(context, from);
      break;
    default:
      break;
  }
  if (is_further && StageOf(from) == 0) EmitPassedSteps(context);
  if (beat.phase == Phase::kCatchingUp) FixFirstSteps(context);
  if (beat.phase == Phase::kFinished) FinishWhenDone(context);
  TellStanding(context, from);
  // It was faster than the news: the others go that far, too. Not to where a joiner begins.
  const RunOrders& orders = state_.orders;
  if (!orders.paused_at || !TakesPart(from) || state_.finished) return;
  const Joiner* joiner = JoinerOf(*state_.plan, from);
  const int64_t stands = std::max(*orders.paused_at, joiner == nullptr ? 0 : joiner->from_step);
  if (beat.step > stands) PauseAhead(context, std::string(orders.why));
}

// Once a node has been seen at work, a process of it without memory is another one.
void CoordinatorActor::NoteStarted(Context& context, const NodeId& node) {
  if (TakesPart(node) && !state_.started.contains(node)) Record(context, StartedRecord(node));
}

// Taken for dead, and here after all: that is no matter before the plan, or if it does nothing yet;
// else its part has gone to others, and it has to be told (once a process).
void CoordinatorActor::HeardFromGone(Context& context, const NodeId& node, const Message& message) {
  const auto* beat = std::get_if<Heartbeat>(&message);
  const bool is_idle = beat != nullptr && IsIdle(beat->phase);
  const bool unwanted = !state_.admission.WhyOut(node).empty();
  if (unwanted || (state_.plan && !is_idle)) {
    if (greeted_.contains(node)) TellOfDeath(context, node);
    return;
  }
  Record(context, LifeRecord(node, true));
  context.Event("returned", EventFields({{"node", node.Short()}}));
  TellPause(context, node);  // ordered, or over, while nothing was sent to it
  if (!TakePlace(node)) return;
  SendPeers(context, node);  // it heard nothing of who came and went meanwhile
  PeersChanged(context, node);
  if (state_.plan) context.Send(node, PlanUpdate{*state_.plan});
}

// It begins anew, as a standby; or it is not wanted any more.
void CoordinatorActor::TellOfDeath(Context& context, const NodeId& node) {
  if (!told_of_death_.insert(node).second) return;
  if (const std::string why = state_.admission.WhyOut(node); !why.empty()) {
    Refuse(context, node, why);
    return Dismiss(context, node);
  }
  context.ConnectPeer(node, "");
  context.Send(node, PlanUpdate{*state_.plan});
}

void CoordinatorActor::On(Context& context, const NodeId& from, const Leave& message) {
  greeted_.erase(from);
  DeclareGone(context, from, Gone::kLeft, "it left: " + CleanText(message.reason));
}

void CoordinatorActor::DeclareGone(Context& context, const NodeId& node, Gone how,
                                   const std::string& why) {
  if (!state_.nodes.at(node).alive) return;
  Record(context, LifeRecord(node, false, how == Gone::kEvicted, why));
  Record(context, TrafficRecord(node, traffic_[node]));
  told_.erase(node);
  dialled_.erase(node);
  told_of_death_.erase(node);
  const bool was_active = active_.erase(node) > 0;
  std::erase(reserve_, node);
  speeds_.erase(node);
  if (was_active && state_.plan && how != Gone::kEvicted) ++departures_;
  if (how == Gone::kLeft) {
    context.Event("left", EventFields({{"node", node.Short()}, {"why", why}}));
  } else {
    const double silent_s = (context.now() - heard_[node]).seconds();
    context.Event("dead",
                  EventFields({{"node", node.Short()}, {"silent_s", silent_s}, {"why", why}}));
  }
  // What is finished needs no new plan: the export asks another replica.
  if (TakesPart(node) && !state_.finished) {
    RouteAround(context, node, absl::StrFormat("%s is out: %s", node.Short(), why));
    if (stopping_) return;
  }
  if (was_active) PeersChanged(context, node);
  FillPlaces(context);
}

void CoordinatorActor::RouteAround(Context& context, const NodeId& node,
                                   const std::string& reason) {
  const std::set<NodeId> dead = DeadWith(node);
  if (const Joiner* joiner = JoinerOf(*state_.plan, node); joiner && !joiner->IsFixed()) {
    failed_handover_[*StageOf(node)] = context.now();
  }
  if (BeginRecovery(context, dead, reason)) return;
  const auto repaired = RepairPlan(*state_.plan, dead, state_.plan->version + 1);
  if (!repaired.ok()) return GiveUp(context, ErrorText(repaired.status()));
  const PipelinePlan plan = CallBackAbsent(*repaired);
  Record(context, PlanRecord(plan, state_.predicted_step_s, state_.lower_bound_s));
  AnnouncePlan(context, reason);
  NoteChange(reason);
  GoOnWithout(context);
}

// What only those held back can go on who are not of the plan any more, or elsewhere in it.
void CoordinatorActor::GoOnWithout(Context& context) {
  for (size_t i = 0; i < state_.plan->stages.size(); ++i) {
    const auto stage = static_cast<int32_t>(i);
    TryCommit(context, stage);
    const int64_t rounds = state_.RoundsCommitted(stage);
    const int64_t in_flight = RoundClock(options_.config).in_flight_max();
    for (int64_t round = std::max<int64_t>(0, rounds - in_flight); round < rounds; ++round) {
      EvictMinority(context, stage, round);
      if (stopping_) return;
    }
  }
  EmitPassedSteps(context);
}

void CoordinatorActor::GiveUp(Context& context, const std::string& reason) {
  if (std::exchange(stopping_, true)) return;
  for (const NodeId& node : LiveNodes()) {
    if (greeted_.contains(node)) {
      context.Send(node, Shutdown{"the run cannot go on: " + reason});
    }
  }
  context.Stop(1, "the run cannot go on: " + reason);
}

void CoordinatorActor::On(Context& context, const NodeId& from, const ObjectRequest& message) {
  if (message.offset < 0 || message.length <= 0 || message.length > kObjectChunkBytesMax ||
      message.object.size() > kShortTextMax) {
    return void(++refused_);
  }
  if (message.object.starts_with("replica/")) return OnStartRequest(context, from, message);
  if (message.object.starts_with("holders/")) return NameHolders(context, from, message);
  if (options_.objects == nullptr) return void(++refused_);
  context.Send(from, options_.objects->Read(message));
}

}  // namespace skerry
