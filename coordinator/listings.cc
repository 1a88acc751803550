#include "coordinator/listings.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"
#include "pipeline/plan/route.h"

namespace skerry {

using Json = nlohmann::json;

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
  return {{"version", plan.version},
          {"microbatches_per_step", plan.microbatches_per_step},
          {"predicted_step_s", state.predicted_step_s},
          {"lower_bound_s", state.lower_bound_s},
          {"stages", stages},
          {"paths", paths}};
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
  return text;
}

}  // namespace skerry
