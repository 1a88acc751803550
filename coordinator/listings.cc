#include "coordinator/listings.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"
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

}  // namespace

Json OuterJson(const OuterConfig& outer) {
  return {{"inner_steps", outer.inner_steps},
          {"overlap_steps", outer.overlap_steps},
          {"codec", CodecName(outer.codec)}};
}

Json NodesJson(const RunState& state) {
  Json nodes = Json::array();
  for (const auto& [id, record] : state.nodes) {
    const auto slot = state.plan ? SlotOf(*state.plan, id) : std::nullopt;
    nodes.push_back({{"id", id.Hex()},
                     {"region", record.region},
                     {"endpoint", record.endpoint},
                     {"device", record.device.name},
                     {"gflops", record.device.gflops},
                     {"memory_bytes", record.device.memory_bytes},
                     {"alive", record.alive},
                     {"stage", slot ? slot->stage : -1},
                     {"replica", slot ? slot->replica : -1},
                     {"takes_part", slot && !IsDead(*state.plan, id)}});
  }
  return nodes;
}

std::string NodesTable(const RunState& state) {
  std::string text = absl::StrFormat("%-9s %-12s %-7s %-8s %9s %9s  %s\n", "node", "region", "slot",
                                     "is", "GFLOP/s", "GiB", "device");
  for (const Json& node : NodesJson(state)) {
    const bool part = node["takes_part"], alive = node["alive"];
    const int stage = node["stage"], replica = node["replica"];
    const double gib = node["memory_bytes"].get<double>() / (1 << 30);
    text += absl::StrFormat(
        "%-9s %-12s %-7s %-8s %9.1f %9.1f  %s\n", node["id"].get<std::string>().substr(0, 8),
        node["region"].get<std::string>(), part ? absl::StrFormat("%d.%d", stage, replica) : "-",
        !alive                  ? "gone"
        : (part || !state.plan) ? "here"
                                : "standby",
        node["gflops"].get<double>(), gib, node["device"].get<std::string>());
  }
  return text;
}

Json PlanJson(const RunState& state) {
  if (!state.plan) return nullptr;
  const PipelinePlan& plan = *state.plan;
  Json stages = Json::array();
  for (const StageAssignment& stage : plan.stages) {
    Json replicas = Json::array();
    for (const NodeId& node : stage.replicas) {
      replicas.push_back({{"node", node.Hex()}, {"dead", IsDead(plan, node)}});
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
          {"slow_links", slow_links}};
}

std::string PlanText(const RunState& state) {
  if (!state.plan) {
    return absl::StrFormat("no plan yet: %d nodes, %d links measured\n", state.nodes.size(),
                           state.links.size());
  }
  const PipelinePlan& plan = *state.plan;
  std::string text =
      absl::StrFormat("plan %d: %d paths, %.3f s a step predicted, at least %.3f s\n", plan.version,
                      plan.paths.size(), state.predicted_step_s, state.lower_bound_s);
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    const StageAssignment& stage = plan.stages[i];
    text +=
        absl::StrFormat("  stage %d, layers %d to %d:", i, stage.first_layer, stage.last_layer - 1);
    for (const NodeId& node : stage.replicas) {
      const auto record = state.nodes.find(node);
      text += absl::StrFormat(" %s (%s%s)", node.Short(),
                              record == state.nodes.end() ? "?" : record->second.region,
                              IsDead(plan, node) ? ", dead" : "");
    }
    text += "\n";
  }
  return text + SettingsText(plan);
}

}  // namespace skerry
