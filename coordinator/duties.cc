// Periodic work: silence, probes, the plan, the end, the status for people.

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/status.h"
#include "coordinator/coordinator_actor.h"
#include "coordinator/planning.h"
#include "pipeline/plan/route.h"

namespace skerry {
namespace {

constexpr int64_t kProbeBytes = 256 << 10;
constexpr Duration kProbePatience = Duration::Seconds(10);

const char* PhaseName(Phase phase) {
  switch (phase) {
    case Phase::kJoining:
      return "joining";
    case Phase::kMeasuring:
      return "measuring links";
    case Phase::kWaitingForPlan:
      return "waiting for the plan";
    case Phase::kFetchingData:
      return "preparing";
    case Phase::kTraining:
      return "training";
    case Phase::kWaitingForRound:
      return "waiting for a round";
    case Phase::kWaitingForPeers:
      return "waiting for peers";
    case Phase::kFinished:
      return "finished";
    case Phase::kStandby:
      return "standby";
  }
  return "?";
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
  for (const NodeId& node : LiveNodes()) {
    // A coordinator that just came back gives everybody the full time anew (OnStart sets heard_).
    if (context.now() - heard_[node] > patience) DeclareDead(context, node, "it is silent");
  }
}

// Before the plan: every ordered pair once, as many at a time as there are disjoint pairs.
void CoordinatorActor::RequestProbes(Context& context) {
  if (state_.plan) return;
  std::erase_if(probes_, [&](const Probe& p) { return context.now() - p.asked > kProbePatience; });
  std::set<NodeId> busy;
  for (const Probe& probe : probes_) busy.insert({probe.from, probe.target});
  const std::vector<NodeId> live = LiveNodes();
  for (const NodeId& from : live) {
    for (const NodeId& target : live) {
      if (from == target || busy.contains(from) || busy.contains(target) ||
          !greeted_.contains(from) || !greeted_.contains(target) ||
          state_.links.contains({from, target})) {
        continue;
      }
      busy.insert({from, target});
      probes_.push_back({from, target, context.now()});
      context.Send(from, ProbeRequest{target, kProbeBytes});
    }
  }
}

void CoordinatorActor::PlanWhenReady(Context& context) {
  const std::vector<NodeId> live = LiveNodes();
  if (state_.plan || planning_ || static_cast<int32_t>(live.size()) < options_.config.nodes_min) {
    return;
  }
  PlannerInput input;
  for (const NodeId& from : live) {
    input.devices[from] = state_.nodes.at(from).device;
    for (const NodeId& target : live) {
      if (from != target && !state_.links.contains({from, target})) return;
    }
  }
  input.config = options_.config;
  input.nodes = live;
  input.links = links_.Estimate(live, context.now());
  input.version = 1;
  planning_ = std::make_shared<Planning>();
  planning_job_ = context.Submit({"plan", Duration::Millis(200), [planning = planning_, input] {
                                    planning->planned = MakePlan(input);
                                  }});
}

void CoordinatorActor::PlanMade(Context& context) {
  const auto planning = std::exchange(planning_, nullptr);
  if (!planning->planned.ok()) {
    context.Stop(1, "no plan: " + ErrorText(planning->planned.status()));
    return;
  }
  const PlannedRun& planned = *planning->planned;
  // Somebody died while the plan was made: the next duty plans again.
  for (const StageAssignment& stage : planned.plan.stages) {
    for (const NodeId& node : stage.replicas) {
      if (!state_.nodes.at(node).alive) return;
    }
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
    stages.push_back({{"first_layer", stage.first_layer},
                      {"last_layer", stage.last_layer},
                      {"replicas", replicas}});
  }
  nlohmann::json event = {{"version", plan.version},
                          {"stages", stages},
                          {"paths", plan.paths.size()},
                          {"predicted_step_s", state_.predicted_step_s},
                          {"lower_bound_s", state_.lower_bound_s},
                          {"reason", reason}};
  const std::string text = event.dump();
  context.Event("plan", text.substr(1, text.size() - 2));
  for (const NodeId& node : LiveNodes()) {
    if (greeted_.contains(node)) context.Send(node, PlanUpdate{plan});
  }
}

void CoordinatorActor::FinishWhenDone(Context& context) {
  if (!state_.plan || state_.exported || export_) return;
  if (!state_.finished) {
    for (const StageAssignment& stage : state_.plan->stages) {
      for (const NodeId& node : stage.replicas) {
        if (IsDead(*state_.plan, node)) continue;
        const auto beat = beats_.find(node);
        if (beat == beats_.end() || beat->second.phase != Phase::kFinished) return;
      }
    }
    Record(context, MarkRecord("finished"));
    int64_t sent = 0, received = 0;
    double transfer = 0, wait = 0;
    for (const auto& [node, beat] : beats_) {
      sent += beat.bytes_sent;
      received += beat.bytes_received;
    }
    for (const auto& [key, replicas] : state_.applied) {
      for (const auto& [node, applied] : replicas) {
        transfer += applied.transfer_s;
        wait += applied.wait_s;
      }
    }
    context.Event(
        "finished",
        absl::StrFormat(
            R"("steps":%d,"tokens":%d,"bytes_sent":%d,"bytes_received":%d,"outer_rounds":%d,"hidden_fraction":%.6f,"wall_s":%.3f)",
            options_.config.steps, state_.tokens, sent, received,
            options_.config.steps / options_.config.outer.inner_steps,
            transfer > 0 ? 1 - wait / transfer : 1.0, (context.now() - started_).seconds()));
  }
  export_.emplace();
  export_->progress = context.now();
  ContinueExport(context);
}

void CoordinatorActor::ReportStatus(Context& context) {
  if (!options_.status) return;
  const RunConfig& config = options_.config;
  nlohmann::json nodes = nlohmann::json::array();
  int64_t sent = 0, received = 0;
  for (const auto& [id, record] : state_.nodes) {
    const auto beat_it = beats_.find(id);
    const Heartbeat beat = beat_it == beats_.end() ? Heartbeat() : beat_it->second;
    const auto slot = state_.plan ? SlotOf(*state_.plan, id) : std::nullopt;
    const auto heard = heard_.find(id);
    sent += beat.bytes_sent;
    received += beat.bytes_received;
    nodes.push_back(
        {{"id", id.Short()},
         {"region", record.region},
         {"stage", slot ? slot->stage : -1},
         {"replica", slot ? slot->replica : -1},
         {"phase", !record.alive ? "gone" : PhaseName(beat.phase)},
         {"step", beat.step},
         {"base_version", beat.base_version},
         {"waiting_for", beat.waiting_for},
         {"silent_s", heard == heard_.end() ? 0.0 : (context.now() - heard->second).seconds()},
         {"bytes_sent", beat.bytes_sent},
         {"bytes_received", beat.bytes_received},
         {"alive", record.alive}});
  }
  const char* phase = state_.exported   ? "finished"
                      : state_.finished ? "collecting the model"
                      : state_.plan     ? "training"
                      : static_cast<int32_t>(LiveNodes().size()) < config.nodes_min
                          ? "waiting for nodes"
                          : "measuring links";
  const double elapsed = (context.now() - started_).seconds();
  // Over the last ten seconds or so.
  throughput_.emplace_back(context.now(), state_.tokens);
  while (throughput_.size() > 11) throughput_.pop_front();
  const double span = (throughput_.back().first - throughput_.front().first).seconds();
  const double tokens_per_s =
      span > 0 ? static_cast<double>(state_.tokens - throughput_.front().second) / span : 0;
  nlohmann::json status = {{"run", options_.run.Short()},
                           {"name", config.name},
                           {"phase", phase},
                           {"step", last_step_ + 1},
                           {"steps", config.steps},
                           {"loss", last_loss_},
                           {"tokens", state_.tokens},
                           {"bytes_sent", sent},
                           {"bytes_received", received},
                           {"rounds", state_.plan ? state_.RoundsCommitted(0) : 0},
                           {"version", state_.plan ? state_.plan->version : 0},
                           {"nodes_min", config.nodes_min},
                           {"links", state_.links.size()},
                           {"tokens_per_s", tokens_per_s},
                           {"elapsed_s", elapsed},
                           {"nodes", nodes}};
  options_.status(status.dump());
}

}  // namespace skerry
