// The picture of the present for people, and the last line of a run.

#include <nlohmann/json.hpp>
#include <utility>

#include "common/round_clock.h"
#include "coordinator/border.h"
#include "coordinator/checkpointing.h"
#include "coordinator/coordinator_actor.h"
#include "coordinator/listings.h"
#include "coordinator/round_traffic.h"
#include "localsgd/table_choice.h"
#include "pipeline/plan/node_memory.h"
#include "pipeline/plan/route.h"

namespace skerry {
namespace {

using Json = nlohmann::json;

Json RoundsJson(const RunState& state, const RunConfig& config) {
  const RoundTraffic traffic = TrafficOfRounds(state, config.model, FragmentsOf(config.outer));
  return {{"bits_up", traffic.bits_up},
          {"bits_down", traffic.bits_down},
          {"hidden_fraction", state.hidden.Fraction()}};
}

// Stages of which nobody is left while the run goes on: nobody has what they learnt.
Json LeftOut(const RunState& state) {
  Json stages = Json::array();
  if (!state.plan || state.exported || !state.lost.empty()) return stages;
  for (size_t i = 0; i < state.plan->stages.size(); ++i) {
    if (LiveReplicas(*state.plan, static_cast<int32_t>(i)).empty()) stages.push_back(i);
  }
  return stages;
}

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
    case Phase::kCatchingUp:
      return "catching up";
  }
  return "?";
}

const char* PhaseName(bool is_active, bool is_too_old, Phase phase) {
  if (is_too_old && phase == Phase::kStandby) return "standby, too old";
  return is_active ? PhaseName(phase) : "in reserve";
}

// What the memory model says of a node in that stage; 0: it is in none.
int64_t ModelBytes(const RunConfig& config, const std::optional<PipelinePlan>& plan, int32_t stage,
                   const DeviceProfile& device) {
  if (!plan || stage < 0) return 0;
  return MemoryIn(config, *plan, stage, OfferOf(device)).total();
}

}  // namespace

const char* CoordinatorActor::RunPhase() const {
  if (state_.exported) return "finished";
  if (state_.finished) return "collecting the model";
  if (!state_.lost.empty()) return "going back to a checkpoint";
  if (checkpointing_ && !checkpointing_->lost.empty())
    return "making a lost stage from its neighbours";
  if (state_.plan && state_.orders.paused_at) return IsAtPause() ? "paused" : "pausing";
  if (state_.plan) return "training";
  const auto live = static_cast<int32_t>(LiveNodes().size());
  if (live < options_.config.nodes_min) return "waiting for nodes";
  if (planning_ || starting_) return "choosing a plan";
  const bool is_measured = probes_.Complete() && !line_tests_.IsOver();
  return is_measured ? "finding out who shares a line" : "measuring links";
}

// Over the last ten reports.
double CoordinatorActor::TokensPerSecond(Instant now) {
  // Gone back to a checkpoint: what was taken back is no work of the seconds since.
  if (!throughput_.empty() && state_.tokens < throughput_.back().second) throughput_.clear();
  throughput_.emplace_back(now, state_.tokens);
  while (throughput_.size() > 11) throughput_.pop_front();
  const double span = (throughput_.back().first - throughput_.front().first).seconds();
  return span > 0 ? static_cast<double>(state_.tokens - throughput_.front().second) / span : 0;
}

// One of ten thousand: filled in where it stays.
void CoordinatorActor::ReportNode(Instant now, const NodeId& id, nlohmann::json& node) const {
  const NodeRecord& record = state_.nodes.at(id);
  const auto known = beats_.find(id);
  const Heartbeat beat = known == beats_.end() ? Heartbeat() : known->second;
  const auto slot = state_.plan ? SlotOf(*state_.plan, id) : std::nullopt;
  const int32_t stage = slot ? slot->stage : -1;
  const auto heard = heard_.find(id);
  const auto counted = traffic_.find(id);
  const Traffic traffic = counted == traffic_.end() ? Traffic() : counted->second;
  node["id"] = id.Short();
  node["region"] = record.region;
  node["stage"] = stage;
  node["replica"] = slot ? slot->replica : -1;
  const bool is_too_old = state_.plan && !KnowsWaysOf(*state_.plan, record.device);
  node["phase"] = record.alive ? PhaseName(active_.contains(id), is_too_old, beat.phase) : "gone";
  node["step"] = beat.step;
  node["base_version"] = beat.base_version;
  node["waiting_for"] = record.alive ? beat.waiting_for : "";
  node["contributed_tokens"] = ContributionOf(id);
  node["reachable"] = !record.IsTested() || !record.endpoint.empty();
  node["silent_s"] = heard == heard_.end() ? 0.0 : (now - heard->second).seconds();
  node["bytes_sent"] = traffic.total_sent();
  node["bytes_received"] = traffic.total_received();
  node["memory_bytes"] = beat.memory_bytes;
  node["memory_model_bytes"] = ModelBytes(options_.config, state_.plan, stage, record.device);
  node["alive"] = record.alive;
  AddNodeFacts(state_, id, &node);
}

void CoordinatorActor::ReportStatus(Context& context) {
  if (!options_.status) return;
  const RunConfig& config = options_.config;
  const bool is_remade = checkpointing_ && !checkpointing_->lost.empty();
  Json status = {{"run", options_.run.Short()},
                 {"name", config.name},
                 {"phase", RunPhase()},
                 {"step", last_step_ + 1},
                 {"steps", config.steps},
                 {"loss", last_loss_},
                 {"tokens", state_.tokens},
                 {"rounds", state_.RoundsOfAnyStage()},
                 {"version", state_.plan ? state_.plan->version : 0},
                 {"outer", OuterJson(config.outer)},
                 {"round_traffic", RoundsJson(state_, config)},
                 {"tables", HasBudget(config.outer) ? TablesJson(state_) : Json::array()},
                 {"checkpoint", CheckpointJson()},
                 {"orders", OrdersJson(state_.orders)},
                 {"nodes_min", config.nodes_min},
                 {"note", no_plan_},
                 {"refused", refused_},
                 {"refusals", RefusalsJson()},
                 {"left_out", is_remade ? Json::array() : LeftOut(state_)},
                 {"links", state_.links.size()},
                 {"relayed_pairs", CountRelayedPairs(state_)},
                 {"tokens_per_s", TokensPerSecond(context.now())},
                 {"elapsed_s", (context.now() - started_).seconds()}};
  int64_t sent = 0, received = 0;
  Json& nodes = status["nodes"] = Json::array();
  for (const auto& [id, record] : state_.nodes) {
    Json& node = nodes.emplace_back();
    ReportNode(context.now(), id, node);
    sent += node["bytes_sent"].get<int64_t>();
    received += node["bytes_received"].get<int64_t>();
  }
  status["bytes_sent"] = sent;
  status["bytes_received"] = received;
  options_.status(status.dump(-1, ' ', false, Json::error_handler_t::replace));
}

void CoordinatorActor::EmitFinished(Context& context) {
  int64_t sent = 0, received = 0;
  for (const auto& [node, traffic] : traffic_) {
    sent += traffic.total_sent();
    received += traffic.total_received();
  }
  for (const NodeId& node : active_) {
    const auto beat = beats_.find(node);
    const int32_t stage = StageOf(node).value_or(-1);
    if (beat == beats_.end() || beat->second.memory_bytes <= 0 || stage < 0) continue;
    const DeviceProfile& device = state_.nodes.at(node).device;
    context.Event(
        "memory",
        EventFields({{"node", node.Short()},
                     {"held_bytes", beat->second.memory_bytes},
                     {"model_bytes", ModelBytes(options_.config, state_.plan, stage, device)}}));
  }
  context.Event("finished", EventFields({{"steps", options_.config.steps},
                                         {"tokens", state_.tokens},
                                         {"bytes_sent", sent},
                                         {"bytes_received", received},
                                         {"outer_rounds", state_.RoundsOfAnyStage()},
                                         {"hidden_fraction", state_.hidden.Fraction()},
                                         {"wall_s", (context.now() - started_).seconds()}}));
}

}  // namespace skerry
