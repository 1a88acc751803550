#include "coordinator/listings.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"
#include "common/round_clock.h"
#include "coordinator/cohort_listing.h"
#include "pipeline/plan/handover.h"
#include "pipeline/plan/node_memory.h"
#include "pipeline/plan/outer_choice.h"
#include "pipeline/plan/route.h"

namespace skerry {

using Json = nlohmann::json;

namespace {

// What the planner chose, null where the operator did.
Json SettingsJson(const PlannedSettings& settings) {
  Json json = {{"inner_steps", nullptr}, {"overlap_steps", nullptr}, {"codec", nullptr}};
  if (settings.inner_steps > 0) json["inner_steps"] = settings.inner_steps;
  if (settings.overlap_steps >= 0) json["overlap_steps"] = settings.overlap_steps;
  if (settings.has_codec) json["codec"] = CodecName(settings.codec);
  return json;
}

std::string SettingsText(const PipelinePlan& plan) {
  std::string text;
  const PlannedSettings& settings = plan.settings;
  if (settings.overlap_steps >= 0) text += absl::StrFormat(", δ %d", settings.overlap_steps);
  if (settings.inner_steps > 0) text += absl::StrFormat(", τ %d", settings.inner_steps);
  if (settings.has_codec) text += absl::StrFormat(", %s deltas", CodecName(settings.codec));
  if (!text.empty()) text = "  chosen: " + text.substr(2) + "\n";
  for (const SlowLink& link : plan.slow_links) {
    text += absl::StrFormat("  slow link %s -> %s: activations are compressed\n", link.from.Short(),
                            link.to.Short());
  }
  return text;
}

// What a node that is served says of itself.
Json HeldBytes(const Json& status, const NodeId& id) {
  if (!status.is_object() || !status.contains("nodes")) return nullptr;
  for (const Json& node : status["nodes"]) {
    if (node.value("id", "") != id.Short() || node.value("memory_bytes", int64_t{0}) == 0) continue;
    return node["memory_bytes"];
  }
  return nullptr;
}

}  // namespace

Json OuterJson(const OuterConfig& outer) {
  return {{"mode", ModeName(outer.mode)},
          {"inner_steps", outer.inner_steps},
          {"overlap_steps", outer.overlap_steps},
          {"fragments", FragmentsOf(outer)},
          {"codec", CodecName(outer.codec)}};
}

namespace {

struct Share {
  int64_t parts = 0, values = 0;
};
std::map<DeltaCodec, Share> SharesOf(const CodecTable& table) {
  std::map<DeltaCodec, Share> shares;
  for (const TablePart& part : table) {
    ++shares[part.codec].parts;
    shares[part.codec].values += part.values;
  }
  return shares;
}

}  // namespace

std::string TableText(const CodecTable& table) {
  const auto all = static_cast<double>(ValuesOf(table));
  std::string text;
  for (const auto& [codec, share] : SharesOf(table)) {
    text += absl::StrFormat("%s%s %.1f %%", text.empty() ? "" : ", ", CodecName(codec),
                            100 * static_cast<double>(share.values) / all);
  }
  return text;
}

Json TablesJson(const RunState& state) {
  Json tables = Json::array();
  if (!state.plan) return tables;
  for (int32_t stage = 0; stage < static_cast<int32_t>(state.plan->stages.size()); ++stage) {
    const int64_t first = state.plan->start.round;
    for (int64_t round = state.RoundsCommitted(stage) - 1; round >= first; --round) {
      const RoundCommit& commit = state.commits.at({stage, round});
      if (commit.table.empty()) continue;
      const auto table = UnpackTable(commit.table);
      if (!table.ok()) break;
      Json codecs = Json::array();
      for (const auto& [codec, share] : SharesOf(*table)) {
        codecs.push_back(
            {{"codec", CodecName(codec)}, {"parts", share.parts}, {"values", share.values}});
      }
      tables.push_back({{"stage", stage},
                        {"round", round},
                        {"codecs", std::move(codecs)},
                        {"text", TableText(*table)}});
      break;
    }
  }
  return tables;
}

std::vector<std::string> TableLines(const Json& tables) {
  std::vector<std::string> lines;
  for (const Json& table : tables) {
    lines.push_back(absl::StrFormat("codecs of stage %d, chosen in round %d: %s",
                                    table.value("stage", 0), table.value("round", int64_t{0}),
                                    table.value("text", "")));
  }
  return lines;
}

int64_t RoundsScreened(const RunState& state, const NodeId& node) {
  const auto it = state.rounds_screened.find(node);
  return it == state.rounds_screened.end() ? 0 : it->second;
}

std::string OddnessOf(const RunState& state, const NodeId& node) {
  const auto it = state.odd.find(node);
  return it == state.odd.end() ? "" : it->second;
}

namespace {

// "yes" (by IPv4), "yes, v6", "yes, v4 v6", "no"; "untested": what it said is believed.
std::string ReachText(const NodeRecord& record) {
  if (!record.IsTested()) return "untested";
  bool v4 = false, v6 = false;
  for (const ReachTry& one : record.reach.tried) {
    const bool is_v6 = one.endpoint.find('[') != std::string::npos;
    v4 |= one.answered && !is_v6;
    v6 |= one.answered && is_v6;
  }
  return v4 && v6 ? "yes, v4 v6" : v4 ? "yes" : v6 ? "yes, v6" : "no";
}

}  // namespace

bool IsRelayed(const RunState& state, const NodeId& a, const NodeId& b) {
  const auto is_hidden = [&](const NodeId& node) {
    const auto it = state.nodes.find(node);
    return it != state.nodes.end() && it->second.IsTested() && it->second.endpoint.empty();
  };
  return is_hidden(a) && is_hidden(b);
}

int64_t CountRelayedPairs(const RunState& state) {
  const auto hidden = std::count_if(state.nodes.begin(), state.nodes.end(), [](const auto& node) {
    const NodeRecord& record = node.second;
    return record.alive && record.IsTested() && record.endpoint.empty();
  });
  return hidden * (hidden - 1) / 2;
}

std::vector<RelayedPair> RelayedPairs(const RunState& state) {
  std::vector<NodeId> hidden, relays;
  for (const auto& [node, record] : state.nodes) {
    if (!record.alive || !record.IsTested()) continue;
    if (record.endpoint.empty()) hidden.push_back(node);
    if (record.relays && !record.endpoint.empty()) relays.push_back(node);
  }
  std::vector<RelayedPair> pairs;
  for (size_t i = 0; i < hidden.size(); ++i) {
    for (size_t j = i + 1; j < hidden.size() && pairs.size() < kRelayedListedMax; ++j) {
      const auto order = RelayOrder(hidden[i], hidden[j], relays, NodeId());
      pairs.push_back({hidden[i], hidden[j], order.empty() ? NodeId() : order.front()});
    }
  }
  return pairs;
}

namespace {

Json RelayedJson(const RunState& state) {
  Json relayed = Json::array();
  for (const RelayedPair& pair : RelayedPairs(state)) {
    relayed.push_back({{"a", pair.a.Hex()},
                       {"b", pair.b.Hex()},
                       {"relay", pair.relay.IsZero() ? "coordinator" : pair.relay.Hex()}});
  }
  return relayed;
}

std::string RelayedText(const RunState& state) {
  constexpr size_t kNamedMax = 12;
  const auto pairs = RelayedPairs(state);
  std::string text;
  for (size_t i = 0; i < pairs.size() && i < kNamedMax; ++i) {
    text += absl::StrFormat("  relayed pair %s - %s, through %s\n", pairs[i].a.Short(),
                            pairs[i].b.Short(),
                            pairs[i].relay.IsZero() ? "the coordinator" : pairs[i].relay.Short());
  }
  const int64_t more = CountRelayedPairs(state) - static_cast<int64_t>(kNamedMax);
  if (more > 0)
    text += absl::StrFormat("  and %d more relayed pair%s\n", more, more == 1 ? "" : "s");
  return text;
}

}  // namespace

void AddNodeFacts(const RunState& state, const NodeId& node, Json* json) {
  const NodeRecord& record = state.nodes.at(node);
  const auto credit = state.credits.find(node);
  const Admission& lists = state.admission;
  (*json)["device"] = record.device.name;
  (*json)["memory_offered_bytes"] = OfferOf(record.device).total();
  (*json)["software"] = record.software;
  (*json)["reach"] = ReachText(record);
  (*json)["rounds_counted"] = credit == state.credits.end() ? 0 : credit->second.rounds;
  (*json)["rounds_screened"] = RoundsScreened(state, node);
  (*json)["sizes"] = OddnessOf(state, node);
  (*json)["out"] = lists.banned.contains(node) || lists.denied.contains(node);
}

Json NodesJson(const RunState& state, const RunConfig& config, const Json& status) {
  const RunConfig settled = state.plan ? Settled(config, *state.plan) : config;
  Json nodes = Json::array();
  for (const auto& [id, record] : state.nodes) {
    const auto slot = state.plan ? SlotOf(*state.plan, id) : std::nullopt;
    const bool takes_part = slot && !IsDead(*state.plan, id);
    const int32_t stage = slot ? slot->stage : -1, replica = slot ? slot->replica : -1;
    Json model;
    if (stage >= 0) model = MemoryIn(settled, *state.plan, stage, OfferOf(record.device)).total();
    nodes.push_back({{"id", id.Hex()},
                     {"region", record.region},
                     {"endpoint", record.endpoint},
                     {"reachable", ReachText(record)},
                     {"seen", record.reach.seen},
                     {"relays", record.relays},
                     {"device", record.device.name},
                     {"gflops", record.device.gflops},
                     {"bf16_gflops", record.device.bf16_gflops},
                     {"memory_bytes", record.device.memory_bytes},
                     {"host_memory_bytes", record.device.host_bytes},
                     {"spill_bytes", record.device.spill_bytes},
                     {"memory_model_bytes", model},
                     {"memory_held_bytes", HeldBytes(status, id)},
                     {"alive", record.alive},
                     {"is", !record.alive                             ? "gone"
                            : takes_part || !state.plan               ? "here"
                            : KnowsWaysOf(*state.plan, record.device) ? "standby"
                                                                      : "too old"},
                     {"stage", stage},
                     {"replica", replica},
                     {"cohort", state.plan ? CohortNumber(*state.plan, id) : -1},
                     {"network", record.device.network},
                     {"rounds_screened", RoundsScreened(state, id)},
                     {"sizes", OddnessOf(state, id)},
                     {"takes_part", takes_part}});
  }
  return nodes;
}

namespace {

// What a node holds of its stage: what it puts off for want of memory.
StageHolds HeldBy(const RunState& state, const RunConfig& settled, int32_t stage,
                  const NodeId& node) {
  const auto record = state.nodes.find(node);
  const MemoryOffer offer =
      record == state.nodes.end() ? MemoryOffer{} : OfferOf(record->second.device);
  return HoldsOf(settled, *state.plan, stage, offer);
}

}  // namespace

Json PlanJson(const RunState& state, const RunConfig& config) {
  if (!state.plan) return nullptr;
  const PipelinePlan& plan = *state.plan;
  const RunConfig settled = Settled(config, plan);
  Json stages = Json::array();
  for (const StageAssignment& stage : plan.stages) {
    const auto index = static_cast<int32_t>(stages.size());
    Json replicas = Json::array();
    for (const NodeId& node : stage.replicas) {
      const StageHolds holds = HeldBy(state, settled, index, node);
      replicas.push_back({{"node", node.Hex()},
                          {"dead", IsDead(plan, node)},
                          {"recomputed_layers", holds.recomputed},
                          {"offloaded", holds.offloads},
                          {"parked_stashes", holds.parked}});
    }
    stages.push_back({{"first_layer", stage.first_layer},
                      {"last_layer", stage.last_layer},
                      {"replicas", replicas}});
  }
  Json paths = Json::array();
  for (const Path& path : plan.paths) {
    Json visits = Json::array();
    for (const Slot& slot : path) visits.push_back({slot.stage, slot.replica});
    paths.push_back(visits);
  }
  Json slow_links = Json::array();
  for (const SlowLink& link : plan.slow_links) {
    slow_links.push_back({{"from", link.from.Hex()}, {"to", link.to.Hex()}});
  }
  return {{"version", plan.version},
          {"microbatches_per_step", plan.microbatches_per_step},
          {"predicted_step_s", state.predicted_step_s},
          {"lower_bound_s", state.lower_bound_s},
          {"stages", stages},
          {"paths", paths},
          {"chosen", SettingsJson(plan.settings)},
          {"slow_links", slow_links},
          {"relayed", RelayedJson(state)},
          {"cohorts", CohortsJson(state, config)},
          {"tables", TablesJson(state)}};
}

std::string PlanText(const RunState& state, const RunConfig& config) {
  if (!state.plan) {
    return absl::StrFormat("no plan yet: %d nodes, %d links measured\n", state.nodes.size(),
                           state.links.size());
  }
  const PipelinePlan& plan = *state.plan;
  const RunConfig settled = Settled(config, plan);
  std::string text =
      absl::StrFormat("plan %d: %d paths, %.3f s a step predicted, at least %.3f s\n", plan.version,
                      plan.paths.size(), state.predicted_step_s, state.lower_bound_s);
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    const StageAssignment& stage = plan.stages[i];
    text +=
        absl::StrFormat("  stage %d, layers %d to %d:", i, stage.first_layer, stage.last_layer - 1);
    for (const NodeId& node : stage.replicas) {
      const auto record = state.nodes.find(node);
      const StageHolds holds = HeldBy(state, settled, static_cast<int32_t>(i), node);
      const std::string region = record == state.nodes.end() ? "?" : record->second.region;
      text += absl::StrFormat(" %s (%s%s%s)", node.Short(), region.empty() ? "no region" : region,
                              PutOffText(holds), IsDead(plan, node) ? ", dead" : "");
    }
    text += "\n";
  }
  for (const std::string& line : TableLines(TablesJson(state))) text += "  " + line + "\n";
  return text + CohortsText(state, config) + RelayedText(state) + SettingsText(plan);
}

}  // namespace skerry
