#include "sim/scenario_emulate.h"

#include <algorithm>
#include <set>

#include "common/status.h"

namespace skerry {
namespace {

constexpr double kRateMbpsMax = 1e6;  // the shaper's file allows no more

template <typename... Args>
absl::Status Refuse(const Scenario& scenario, int line, const absl::FormatSpec<Args...>& format,
                    const Args&... args) {
  const std::string place =
      line > 0 ? absl::StrFormat("%s:%d", scenario.file, line) : scenario.file;
  return FailedPrecondition("%s: emulate cannot %s; `skerry-sim run` can", place,
                            absl::StrFormat(format, args...));
}

// What only the in-process shaper cannot.
absl::Status RefuseInProcess(const Scenario& scenario, const std::string& what) {
  return FailedPrecondition(
      "%s: emulate cannot %s in-process; `emulate --shaper packets` and `skerry-sim run` can",
      scenario.file, what);
}

// The shaper gives every pair of nodes a line of its own: what a path can carry in all is imitated
// only where no two pairs of nodes share it. The coordinator's few bytes are not counted.
bool IsShared(const Scenario& scenario, size_t from, size_t to) {
  const NetworkSpec& network = scenario.network;
  const auto nodes_in = [&](size_t region) {
    return std::count_if(
        network.site_of_node.begin() + 1, network.site_of_node.end(), [&](int32_t site) {
          return network.sites[static_cast<size_t>(site)].region == static_cast<int32_t>(region);
        });
  };
  return from == to ? nodes_in(from) > 1 : nodes_in(from) > 1 || nodes_in(to) > 1;
}

// What one pair of nodes gets; 0: no limit.
double RateOfOneFlow(const PathSpec& path) {
  if (path.flow_bytes_per_s == 0 || path.bytes_per_s == 0)
    return std::max(path.flow_bytes_per_s, path.bytes_per_s);
  return std::min(path.flow_bytes_per_s, path.bytes_per_s);
}

absl::Status CheckPaths(const Scenario& scenario) {
  const NetworkSpec& network = scenario.network;
  const size_t count = network.regions.size();
  for (size_t from = 0; from < count; ++from) {
    for (size_t to = 0; to < count; ++to) {
      const PathSpec& path = network.paths[from * count + to];
      const auto refuse = [&](const char* what) {
        return RefuseInProcess(
            scenario, absl::StrFormat("imitate %s (from '%s' to '%s')", what, network.regions[from],
                                      network.regions[to]));
      };
      if (path.loss > 0) return refuse("loss");
      if (path.jitter > Duration()) return refuse("jitter");
      if (path.bytes_per_s > 0 && IsShared(scenario, from, to)) {
        return refuse(
            "a rate that several nodes share, only flow_cap_mbps with unlimited = true, for each "
            "pair of nodes");
      }
      if (path.one_way != network.paths[to * count + from].one_way)
        return refuse("delays that differ by direction");
      if (from == to && path != network.paths[0])
        return refuse("regions that differ in their own network");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckSites(const Scenario& scenario) {
  const NetworkSpec& network = scenario.network;
  std::set<int32_t> taken;
  const SiteSpec& first = network.sites[static_cast<size_t>(network.site_of_node[0])];
  for (const int32_t index : network.site_of_node) {
    const SiteSpec& site = network.sites[static_cast<size_t>(index)];
    if (!taken.insert(index).second)
      return RefuseInProcess(
          scenario, absl::StrFormat("imitate several nodes behind one line ('%s')", site.name));
    if (site.up_bytes_per_s != first.up_bytes_per_s ||
        site.down_bytes_per_s != first.down_bytes_per_s ||
        site.access_one_way != first.access_one_way) {
      return RefuseInProcess(
          scenario, absl::StrFormat("give '%s' another line than '%s': every process has the same",
                                    site.name, first.name));
    }
  }
  return absl::OkStatus();
}

std::string Mbps(double bytes_per_s) {
  return absl::StrFormat("%.9g", bytes_per_s > 0 ? bytes_per_s * 8 / 1e6 : kRateMbpsMax);
}

}  // namespace

absl::Status CanEmulatePackets(const Scenario& scenario) {
  if (scenario.nodes.size() > kEmulatedNodesMax) {
    return Refuse(scenario, 0, "run %d nodes, more than %d processes, on one machine",
                  scenario.nodes.size(), kEmulatedNodesMax);
  }
  if (scenario.text_file.empty())
    return Refuse(scenario, 0, "train without a text: add text = \"FILE\"");
  for (const Fault& fault : scenario.faults)
    return Refuse(scenario, fault.line, "inject faults ('%s')", NameOf(fault.kind));
  for (const ChurnGroup& group : scenario.churn)
    return Refuse(scenario, group.line, "make nodes come and go ([churn.%s])", group.name);
  if (!scenario.network.path_changes.empty() || !scenario.network.site_changes.empty())
    return Refuse(scenario, 0, "follow a [[trace]]");
  return absl::OkStatus();
}

absl::Status CanEmulate(const Scenario& scenario) {
  SKERRY_RETURN_IF_ERROR(CanEmulatePackets(scenario));
  const bool has_routers = std::any_of(scenario.nodes.begin(), scenario.nodes.end(),
                                       [](const ScenarioNode& node) { return node.nat; });
  if (has_routers) return RefuseInProcess(scenario, "imitate routers (nat = true)");
  SKERRY_RETURN_IF_ERROR(CheckPaths(scenario));
  return CheckSites(scenario);
}

absl::StatusOr<WanShape> WanShapeOf(const Scenario& scenario) {
  SKERRY_RETURN_IF_ERROR(CanEmulate(scenario));
  const NetworkSpec& network = scenario.network;
  const SiteSpec& line = network.sites[static_cast<size_t>(network.site_of_node[0])];
  const size_t count = network.regions.size();
  WanShape shape;
  shape.regions = network.regions;
  shape.up_bytes_per_s = line.up_bytes_per_s;
  shape.down_bytes_per_s = line.down_bytes_per_s;
  for (size_t from = 0; from < count; ++from) {
    for (size_t to = 0; to < count; ++to) {
      const PathSpec& path = network.paths[from * count + to];
      const LinkShape link = {path.one_way + line.access_one_way * 2, RateOfOneFlow(path)};
      if (from == to) {
        shape.same_region = link;
      } else {
        shape.links[{shape.regions[from], shape.regions[to]}] = link;
      }
    }
  }
  return shape;
}

std::vector<RegionLink> ConfiguredLinks(const Scenario& scenario) {
  const NetworkSpec& network = scenario.network;
  if (!CheckSites(scenario).ok()) return {};
  const SiteSpec& line = network.sites[static_cast<size_t>(network.site_of_node[0])];
  const size_t count = network.regions.size();
  std::vector<RegionLink> links;
  for (size_t from = 0; from < count; ++from) {
    for (size_t to = 0; to < count; ++to) {
      const PathSpec& path = network.paths[from * count + to];
      const Duration there = path.one_way + network.paths[to * count + from].one_way;
      if (path.bytes_per_s > 0 && IsShared(scenario, from, to)) continue;
      double rate = RateOfOneFlow(path);
      for (const double limit : {line.up_bytes_per_s, line.down_bytes_per_s}) {
        if (limit > 0) rate = rate > 0 ? std::min(rate, limit) : limit;
      }
      links.push_back({network.regions[from],
                       network.regions[to],
                       {there / 2 + line.access_one_way * 2, rate}});
    }
  }
  return links;
}

std::string FormatWanShape(const WanShape& shape) {
  std::string text = "# Written from a scenario.\n";
  for (const std::string& region : shape.regions)
    text += absl::StrFormat("[[region]]\nname = \"%s\"\n", region);
  for (const auto& [ends, link] : shape.links) {
    if (ends.first > ends.second) continue;
    const LinkShape& back = shape.links.at({ends.second, ends.first});
    text += absl::StrFormat(
        "[[pair]]\na = \"%s\"\nb = \"%s\"\none_way_ms = %.6f\nrate_ab_mbps = %s\n"
        "rate_ba_mbps = %s\n",
        ends.first, ends.second, link.one_way.millis(), Mbps(link.bytes_per_s),
        Mbps(back.bytes_per_s));
  }
  text += absl::StrFormat("[same_region]\none_way_ms = %.6f\nrate_mbps = %s\n",
                          shape.same_region.one_way.millis(), Mbps(shape.same_region.bytes_per_s));
  if (shape.up_bytes_per_s > 0 || shape.down_bytes_per_s > 0) text += "[access]\n";
  if (shape.up_bytes_per_s > 0) text += "up_mbps = " + Mbps(shape.up_bytes_per_s) + "\n";
  if (shape.down_bytes_per_s > 0) text += "down_mbps = " + Mbps(shape.down_bytes_per_s) + "\n";
  return text;
}

}  // namespace skerry
