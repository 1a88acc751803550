// Periodic work: silence, probes, the plan, the end.

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/status.h"
#include "coordinator/border.h"
#include "coordinator/coordinator_actor.h"
#include "coordinator/listings.h"
#include "coordinator/planning.h"
#include "coordinator/round_traffic.h"
#include "pipeline/plan/handover.h"
#include "pipeline/plan/route.h"
#include "routing/cost_model.h"

namespace skerry {
namespace {

// The last who holds a stage may be silent for so much longer than others: a home line that its
// provider cuts at night is back within a minute.
constexpr int64_t kAwaitedPatience = 6;

// A padded ping of a probe. Where the links of a node are few, more: so that what it sends and
// receives for all of them is about this much.
constexpr int64_t kProbeBytes = 256 << 10;
constexpr double kProbeBytesOfNode = 50e6;
// Of a line so slow that the first probes did not end in time: each asks for a quarter.
constexpr int64_t kProbeBytesMin = 16 << 10;
constexpr int64_t kLargeProbeBytesMin = 1 << 20;
constexpr int64_t kLargeProbeBytesMax = 4 << 20;

// Until then every link of everybody who is here is measured before the plan; after, all but one in
// so many.
constexpr Duration kGatherPatience = Duration::Seconds(120);
constexpr size_t kUnmeasuredShare = 10;

// Several, and none was heard after `since`.
bool AreSilent(const std::map<NodeId, Instant>& heard, const std::vector<NodeId>& nodes,
               Instant since) {
  return nodes.size() > 1 && std::all_of(nodes.begin(), nodes.end(), [&](const NodeId& node) {
           const auto at = heard.find(node);
           return at == heard.end() || at->second < since;
         });
}

void EmitNobodyHeard(Context& context) {
  context.Event(
      "nobody_heard",
      EventFields({{"why",
                    "no node is heard: this machine's line may be cut, or they are all gone. "
                    "Nobody is taken for dead until somebody is heard"}}));
}

}  // namespace

std::vector<NodeId> CoordinatorActor::LiveNodes() const {
  std::vector<NodeId> live;
  for (const auto& [id, record] : state_.nodes) {
    if (record.alive) live.push_back(id);
  }
  return live;
}

void CoordinatorActor::WatchForSilence(Context& context) {
  const Duration patience = Duration::Seconds(options_.config.node_silent_s);
  // Who was stopped, or whose clock was set, cannot say of others that they were silent meanwhile.
  const Duration away = context.now() - watched_ - Duration::Seconds(options_.config.heartbeat_s);
  watched_ = context.now();
  const bool was_away = away > Duration::Seconds(options_.config.heartbeat_s);
  for (auto& [node, heard] : heard_) {
    heard = std::min(was_away ? heard + away : heard, context.now());
  }
  // All at once: it is this machine's line that is cut, and they hold what they have learnt. If
  // not, there is nobody to go on with. In heard_ this machine stands with when it last heard
  // nobody.
  const Duration least = std::max(patience / 2, Duration::Seconds(3 * options_.config.heartbeat_s));
  const auto deaf = heard_.find(context.self());
  if (state_.plan && state_.lost.empty() && !state_.exported &&
      AreSilent(heard_, LiveNodes(), context.now() - least)) {
    if (deaf == heard_.end() || context.now() - deaf->second > patience * 2)
      EmitNobodyHeard(context);
    heard_[context.self()] = context.now();
    return;
  }
  for (const NodeId& node : LiveNodes()) {
    // A coordinator that just came back gives everybody the full time anew (OnStart sets heard_).
    // One that heard nobody does, too, and as much again to find the way back.
    const bool was_deaf = deaf != heard_.end();
    const Instant heard = was_deaf ? std::max(heard_[node], deaf->second + patience) : heard_[node];
    const Duration silent = context.now() - heard;
    if (silent <= patience) {
      awaited_.erase(node);
    } else if (silent > patience * kAwaitedPatience || !MustAwait(context, node)) {
      DeclareGone(context, node, Gone::kDead, "it is silent");
    }
    if (stopping_) return;
  }
}

// Only those are measured who are known to each other; who comes later, too, if it may be moved.
void CoordinatorActor::RequestProbes(Context& context) {
  const bool trains = state_.plan && state_.lost.empty();
  if (trains && (options_.config.replan_s == 0 || state_.finished)) return;
  std::set<NodeId> ready;
  for (const NodeId& node : active_) {
    if (greeted_.contains(node) && !untold_.contains(node)) ready.insert(ready.end(), node);
  }
  if (ready != probed_) {
    probed_ = std::move(ready);
    probes_.SetNodes(probed_);
  }
  // In training a pair that was measured once is not given up: its ends may only be busy.
  for (const auto& pair : probes_.GiveUp(context.now())) {
    if (!state_.plan || !state_.links.contains(pair)) {
      links_.AddUnanswered(pair.first, pair.second);
    }
  }
  Ask(context, probes_.Next(context.now()));
}

void CoordinatorActor::Ask(Context& context, const std::vector<ProbeSchedule::Pair>& pairs) {
  const auto nodes = static_cast<double>(std::max<size_t>(1, probed_.size()));
  const double of_node = static_cast<double>(probes_.pairs()) / nodes;  // it sends, and receives
  const auto share = static_cast<int64_t>(kProbeBytesOfNode / 4 / std::max(1.0, of_node));
  const int64_t bytes =
      share < kLargeProbeBytesMin ? kProbeBytes : std::min(share, kLargeProbeBytesMax);
  for (const auto& [from, target] : pairs) {
    Introduce(context, from, {target});
    const int64_t least = std::min(bytes, kProbeBytesMin);
    context.Send(
        from,
        ProbeRequest{target, std::max(bytes >> 2 * probes_.Unanswered({from, target}), least)});
  }
}

// Readings that the others contradict; true: some are asked for again.
bool CoordinatorActor::MeasureDoubtful(Context& context, const std::vector<NodeId>& nodes) {
  bool any = false;
  for (const ProbeSchedule::Pair& pair :
       links_.Doubtful(nodes, context.now(), options_.doubts_uneven)) {
    if (!probes_.MeasureAgain(pair)) continue;
    any = true;
    context.Event("doubted", EventFields({{"from", pair.first.Short()},
                                          {"to", pair.second.Short()},
                                          {"why", "unlike the other links: measured again"}}));
  }
  if (any) Ask(context, probes_.Next(context.now()));
  return any;
}

void CoordinatorActor::PlanWhenReady(Context& context) {
  const bool trains = state_.plan && state_.lost.empty();
  const bool is_enough = static_cast<int32_t>(active_.size()) >= options_.config.nodes_min;
  if (trains || !is_enough) gathers_since_.reset();
  if (!trains && is_enough && !gathers_since_) gathers_since_ = context.now();
  if (trains || planning_ || starting_) return;
  // Among nodes that come and go there is always a link that was not measured, and somebody who is
  // not back: after a while the run begins with what there is.
  const bool is_late = gathers_since_ && context.now() - *gathers_since_ > kGatherPatience &&
                       probes_.unsettled() * kUnmeasuredShare <= probes_.pairs();
  if (!probes_.Complete() && !is_late) return;
  std::vector<NodeId> live(active_.begin(), active_.end());
  if (is_late) {
    std::erase_if(live, [&](const NodeId& node) {
      return !probed_.contains(node) || (!state_.lost.empty() && !HoldsNothing(node));
    });
  }
  if (!MayPlan(live, context.now())) return;
  // Some have not come back, or are not known to all.
  if (live.size() != probed_.size() && !is_late) return;
  // What gave no plan gives none again: wait for other nodes, or links that were cut.
  if (!no_plan_.empty() && active_ == no_plan_among_ && readings_ == no_plan_readings_) {
    probes_.AskAgain();
    return;
  }
  // Lines are tested once no reading is doubtful; to estimate all links at every answer takes long.
  if (line_tests_.IsOver() && MeasureDoubtful(context, live)) return;
  if (TestLines(context, live)) return;
  planning_ = std::make_shared<Planning>();
  planning_->began = context.now();
  planning_->readings = links_;
  PlannerInput& input = planning_->input;
  input.config = options_.config;
  for (const NodeId& node : live) {
    input.devices[node] = ComputingFor(input.config, state_.nodes.at(node).device);
    input.regions[node] = state_.nodes.at(node).region;
  }
  input.nodes = live;
  input.version = state_.plan ? state_.plan->version + 1 : 1;
  input.is_quick = options_.plans_quickly;
  no_plan_among_ = active_;
  no_plan_readings_ = readings_;
  planning_job_ =
      context.Submit({"plan", Duration::Millis(200), [planning = planning_] { planning->Make(); }});
}

void CoordinatorActor::PlanMade(Context& context) {
  const auto planning = std::exchange(planning_, nullptr);
  if (!planning->planned.ok()) {
    const std::string before = std::exchange(no_plan_, ErrorText(planning->planned.status()));
    if (no_plan_ != before) context.Event("no_plan", EventFields({{"reason", no_plan_}}));
    return;  // the fleet may still grow
  }
  no_plan_.clear();
  const PlannedRun& planned = *planning->planned;
  // Somebody died while the plan was made, or came back older: the next duty plans again.
  for (const StageAssignment& stage : planned.plan.stages) {
    for (const NodeId& node : stage.replicas) {
      const NodeRecord& record = state_.nodes.at(node);
      if (!record.alive || !KnowsWaysOf(planned.plan, record.device)) return;
    }
  }
  if (AwaitsStart()) {
    return PrepareStart(context, planned.plan, planned.predicted_step_s, planned.lower_bound_s,
                        planned.explanation);
  }
  Record(context, PlanRecord(planned.plan, planned.predicted_step_s, planned.lower_bound_s));
  AnnouncePlan(context, planned.explanation);
}

void CoordinatorActor::AnnouncePlan(Context& context, const std::string& reason) {
  const PipelinePlan& plan = *state_.plan;
  nlohmann::json stages = nlohmann::json::array();
  for (const StageAssignment& stage : plan.stages) {
    std::vector<std::string> replicas;
    for (const NodeId& node : stage.replicas) replicas.push_back(node.Short());
    const bool holds_ends = &stage == &plan.stages.front();
    stages.push_back({{"first_layer", stage.first_layer},
                      {"last_layer", stage.last_layer},
                      {"parameters", ParametersOf(options_.config.model, stage, holds_ends)},
                      {"replicas", replicas}});
  }
  context.Event("plan", EventFields({{"version", plan.version},
                                     {"stages", stages},
                                     {"paths", plan.paths.size()},
                                     {"predicted_step_s", state_.predicted_step_s},
                                     {"lower_bound_s", state_.lower_bound_s},
                                     {"outer", OuterJson(options_.config.outer)},
                                     {"slow_links", plan.slow_links.size()},
                                     {"reason", reason}}));
  IntroducePartners(context);
  const SharedMessage update = Share(PlanUpdate{plan});
  for (const NodeId& node : active_) {
    if (!greeted_.contains(node)) continue;
    told_.insert(node);
    if (TakesPart(node)) fresh_.erase(node);
    context.Send(node, update);
  }
  SendTablesToJoiners(context);
}

void CoordinatorActor::FinishWhenDone(Context& context) {
  if (!state_.plan || state_.exported || export_ || !state_.lost.empty()) return;
  if (!state_.finished) {
    // A joiner that nobody waits for yet need not finish.
    for (size_t stage = 0; stage < state_.plan->stages.size(); ++stage) {
      for (const NodeId& node : LiveReplicas(*state_.plan, static_cast<int32_t>(stage))) {
        const auto beat = beats_.find(node);
        if (beat == beats_.end() || beat->second.phase != Phase::kFinished) return;
      }
    }
    EmitPassedSteps(context);
    for (const auto& [node, traffic] : traffic_) Record(context, TrafficRecord(node, traffic));
    Record(context, MarkRecord("finished"));
  }
  EmitFinished(context);  // after a restart too: the line may have been lost
  if (options_.model == nullptr) return Collected(context, "");
  export_.emplace();
  ContinueExport(context);
}

}  // namespace skerry
