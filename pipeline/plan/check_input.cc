#include "pipeline/plan/check_input.h"

#include <algorithm>
#include <cmath>

#include "common/status.h"

namespace skerry {
namespace {

absl::Status CheckDevice(const NodeId& node, const DeviceProfile& device) {
  const bool has_speed = std::isfinite(device.gflops) && device.gflops >= 0;
  if (has_speed && device.memory_bytes >= 0 && device.host_bytes >= 0) return absl::OkStatus();
  return InvalidArgument(
      "node %s says it computes %g GFLOP/s and has %d bytes of memory, %d on its host: want finite "
      "numbers ≥ 0 (0: "
      "not measured). Have it measured again (skerry-node bench), or plan without it.",
      node.Short(), device.gflops, device.memory_bytes, device.host_bytes);
}

absl::Status CheckLinks(const PlannerInput& input) {
  for (const NodeId& from : input.nodes) {
    for (const NodeId& to : input.nodes) {
      if (from == to) continue;
      const LinkEstimate& link = input.links.At(input.links.IndexOf(from), input.links.IndexOf(to));
      if (std::isfinite(link.rtt_s) && link.rtt_s >= 0 && std::isfinite(link.bytes_per_s) &&
          link.bytes_per_s >= 0) {
        continue;
      }
      return InvalidArgument(
          "link %s -> %s reads %g s there and back and %g byte/s: want finite numbers ≥ 0 (0 "
          "byte/s: no link). Measure it again, or plan without one of the two.",
          from.Short(), to.Short(), link.rtt_s, link.bytes_per_s);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckInput(const PlannerInput& input) {
  const PipelineConfig& pipeline = input.config.pipeline;
  if (input.nodes.empty()) return FailedPrecondition("no nodes to plan for: at least 1 is needed");
  if (!std::is_sorted(input.nodes.begin(), input.nodes.end()) ||
      std::adjacent_find(input.nodes.begin(), input.nodes.end()) != input.nodes.end()) {
    return InvalidArgument("planner: nodes must be ascending without repetition");
  }
  for (const NodeId& node : input.nodes) {
    if (!input.devices.contains(node)) {
      return InvalidArgument("planner: node %s has no device profile", node.Short());
    }
    if (input.nodes.size() > 1 && input.links.IndexOf(node) < 0) {
      return FailedPrecondition("node %s is not in the link matrix: measure its links first",
                                node.Short());
    }
    SKERRY_RETURN_IF_ERROR(CheckDevice(node, input.devices.at(node)));
  }
  if (input.nodes.size() > 1) SKERRY_RETURN_IF_ERROR(CheckLinks(input));
  const bool is_cut = pipeline.sequences_per_microbatch >= 1 || pipeline.sequences_per_step >= 1;
  if (pipeline.microbatches_per_step < 1 || pipeline.in_flight < 0 || pipeline.swaps < 0 ||
      pipeline.sequences_per_microbatch < 0 || !is_cut || pipeline.stages < 0 ||
      !(pipeline.skip_ratio >= 0 && pipeline.skip_ratio <= 0.5)) {
    return InvalidArgument("planner: the [pipeline] settings are out of range");
  }
  if (input.config.model.layers < 1) return InvalidArgument("planner: the model has no layers");
  return absl::OkStatus();
}

}  // namespace skerry
