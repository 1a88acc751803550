#include "sim/scenario_summary.h"

#include <algorithm>
#include <map>
#include <set>

#include "common/status.h"
#include "sim/scenario_emulate.h"

namespace skerry {
namespace {

// "12 / 80 / 140", or "none" for no values.
std::string Spread(std::vector<double> values) {
  if (values.empty()) return "none";
  std::sort(values.begin(), values.end());
  return absl::StrFormat("%.4g / %.4g / %.4g", values.front(), values[values.size() / 2],
                         values.back());
}

double Mbps(double bytes_per_s) {
  return bytes_per_s * 8 / 1e6;
}

std::string NodeLines(const Scenario& scenario) {
  std::map<std::string, size_t> devices;
  for (const ScenarioNode& node : scenario.nodes) {
    const double tflops = node.device.rate(node.format).sustained_tflops;
    ++devices[absl::StrFormat("%s, %s %.4g TFLOP/s, %.4g GiB", node.device.title,
                              node.format == NumberFormat::kFp32 ? "fp32" : "bf16", tflops,
                              node.device.memory_gib)];
  }
  std::string text = absl::StrFormat("%d nodes, the coordinator in %s\n", scenario.nodes.size(),
                                     scenario.RegionOf(0));
  for (const auto& [device, count] : devices)
    text += absl::StrFormat("  %5d × %s\n", count, device);
  return text;
}

std::string NetworkLines(const Scenario& scenario) {
  const NetworkSpec& network = scenario.network;
  const size_t count = network.regions.size();
  std::vector<double> rtt, cap, rate, up, down;
  for (size_t a = 0; a < count; ++a) {
    for (size_t b = 0; b < count; ++b) {
      const PathSpec& path = network.paths[a * count + b];
      if (a == b) continue;
      rtt.push_back((path.one_way + network.paths[b * count + a].one_way).millis());
      if (path.flow_bytes_per_s > 0) cap.push_back(Mbps(path.flow_bytes_per_s));
      if (path.bytes_per_s > 0) rate.push_back(Mbps(path.bytes_per_s));
    }
  }
  const std::set<int32_t> used(network.site_of_node.begin() + 1, network.site_of_node.end());
  for (const int32_t index : used) {
    const SiteSpec& site = network.sites[static_cast<size_t>(index)];
    if (site.up_bytes_per_s > 0) up.push_back(Mbps(site.up_bytes_per_s));
    if (site.down_bytes_per_s > 0) down.push_back(Mbps(site.down_bytes_per_s));
  }
  return absl::StrFormat(
      "%d regions; least / median / most between them: round trip %s ms, rate %s Mbit/s, cap of a "
      "flow %s Mbit/s\n"
      "%d lines of nodes: up %s, down %s Mbit/s; %d changes over time\n"
      "TCP: %s, at most %.3g MB a round trip, %.0f ms of queue\n",
      count, Spread(rtt), Spread(rate), Spread(cap), used.size(), Spread(up), Spread(down),
      network.path_changes.size() + network.site_changes.size(),
      network.congestion_control == CongestionControl::kCubic ? "cubic" : "bbr",
      network.window_bytes_max / 1e6, network.queue.millis());
}

std::string OrOpen(int64_t steps, int64_t least) {
  return steps < least ? "the planner's" : absl::StrFormat("%d", steps);
}

std::string RunLines(const Scenario& scenario) {
  const RunConfig& run = scenario.run;
  return absl::StrFormat(
      "run: %d steps, τ %s, δ %s, %d microbatches of %d sequences of %d tokens, skip %.2g; %d "
      "layers, hidden %d; starts with %d nodes\n",
      run.steps, OrOpen(run.outer.inner_steps, 1), OrOpen(run.outer.overlap_steps, 0),
      run.pipeline.microbatches_per_step, run.pipeline.sequences_per_microbatch, run.model.context,
      run.pipeline.skip_ratio, run.model.layers, run.model.hidden, run.nodes_min);
}

std::string ChurnLines(const Scenario& scenario, uint64_t seed) {
  std::string text;
  for (const Fault& fault : scenario.faults) {
    text += absl::StrFormat(
        "fault: %s %s%s\n", NameOf(fault.kind),
        fault.at_record ? absl::StrFormat("at record %d", *fault.at_record)
                        : absl::StrFormat("at %.6g s", (fault.at - Instant()).seconds()),
        fault.lasts ? absl::StrFormat(" for %.6g s", fault.lasts->seconds()) : "");
  }
  for (const ChurnGroup& group : scenario.churn) {
    const auto events = MakeChurn(group.spec, group.nodes, scenario.horizon, seed);
    if (!events.ok()) return ErrorText(events.status()) + "\n";
    const auto downs = std::count_if(events->begin(), events->end(),
                                     [](const ChurnEvent& event) { return !event.up; });
    const auto at_once = std::count_if(events->begin(), events->end(), [](const ChurnEvent& event) {
      return event.at == Instant() && !event.up;
    });
    text += absl::StrFormat("churn '%s': %d nodes, %d of them away at first; %d leave, %d return\n",
                            group.name, group.nodes.size(), at_once, downs - at_once,
                            static_cast<int64_t>(events->size()) - downs);
  }
  return text;
}

}  // namespace

std::string SummaryOf(const Scenario& scenario, uint64_t seed) {
  std::string text = scenario.name + (scenario.about.empty() ? "" : ": " + scenario.about) + "\n";
  text += NodeLines(scenario) + NetworkLines(scenario) + RunLines(scenario) +
          ChurnLines(scenario, seed);
  text += "checkers:";
  for (const Checker checker : scenario.checkers)
    text += std::string(" ") + kCheckerNames[static_cast<size_t>(checker)];
  const absl::Status emulate = CanEmulate(scenario), packets = CanEmulatePackets(scenario);
  text += absl::StrFormat("\nat most %.6g s of virtual time\nemulate: %s\n",
                          scenario.horizon.seconds(), emulate.ok() ? "yes" : ErrorText(emulate));
  if (!emulate.ok())
    text += packets.ok() ? "emulate --shaper packets: yes\n" : "emulate --shaper packets: nor\n";
  return text;
}

std::string DeviceTable() {
  std::string text = absl::StrFormat(
      "TFLOP/s of matrix products, sustained and peak; GiB of memory, of a card's machine\n"
      "%-16s %9s %9s %9s %9s %7s %7s\n",
      "device", "fp32", "peak", "bf16", "peak", "GiB", "host");
  for (const DeviceSpec& device : DeviceCatalog()) {
    text += absl::StrFormat(
        "%-16s %9.4g %9.4g %9.4g %9.4g %7.4g %7s  %s\n", device.name, device.fp32.sustained_tflops,
        device.fp32.peak_tflops, device.bf16.sustained_tflops, device.bf16.peak_tflops,
        device.memory_gib, device.host_gib > 0 ? absl::StrFormat("%.4g", device.host_gib) : "",
        device.title);
  }
  return text;
}

}  // namespace skerry
