#include "sim/plan_topology.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <span>
#include <utility>

#include "common/status.h"
#include "routing/access_lines.h"
#include "routing/link_estimator.h"

namespace skerry {
namespace {

struct Way {
  double rtt_s = 0;
  double bytes_per_s = 0;
};

const PathSpec& PathBetween(const NetworkSpec& network, const SiteSpec& from, const SiteSpec& to) {
  return network.paths[static_cast<size_t>(from.region) * network.regions.size() +
                       static_cast<size_t>(to.region)];
}

double PortOf(const SiteSpec& site, int32_t nodes) {
  return nodes > 1 && !site.local_is_shared ? site.local_bytes_per_s : 0;
}

Way WayOf(const NetworkSpec& network, std::span<const int32_t> nodes_at, int32_t from, int32_t to) {
  const auto site = [&](int32_t node) { return network.site_of_node[static_cast<size_t>(node)]; };
  const SiteSpec& a = network.sites[static_cast<size_t>(site(from))];
  const SiteSpec& b = network.sites[static_cast<size_t>(site(to))];
  if (site(from) == site(to)) return {2 * a.local_one_way.seconds(), a.local_bytes_per_s};
  const PathSpec& there = PathBetween(network, a, b);
  const PathSpec& back = PathBetween(network, b, a);
  Way way;
  way.rtt_s = there.one_way.seconds() + back.one_way.seconds() +
              2 * (a.access_one_way.seconds() + b.access_one_way.seconds());
  way.bytes_per_s = network.window_bytes_max / std::max(way.rtt_s, 1e-6);
  const auto port = [&](int32_t node, const SiteSpec& of) {
    return PortOf(of, nodes_at[static_cast<size_t>(site(node))]);
  };
  for (const double limit : {port(from, a), a.up_bytes_per_s, there.bytes_per_s,
                             there.flow_bytes_per_s, b.down_bytes_per_s, port(to, b)}) {
    if (limit > 0) way.bytes_per_s = std::min(way.bytes_per_s, limit);
  }
  return way;
}

LineFinding FanOutFinding(const NetworkSpec& network, std::span<const int32_t> nodes_at,
                          int32_t site, const LineTest& test) {
  const SiteSpec& of = network.sites[static_cast<size_t>(site)];
  double together = std::accumulate(test.rates.begin(), test.rates.end(), 0.0);
  const double port = PortOf(of, nodes_at[static_cast<size_t>(site)]);
  for (const double limit : {port, of.up_bytes_per_s}) {
    if (limit > 0) together = std::min(together, limit);
  }
  return {test.members, {test.rates.front()}, {together}};
}

// What the tests of these links find where nothing but access lines is shared.
std::vector<LineFinding> FindingsOf(const NetworkSpec& network, std::span<const int32_t> nodes_at,
                                    const LinkMatrix& links, bool fans_out) {
  const auto site_of = [&](const NodeId& node) {
    return network.site_of_node[static_cast<size_t>(links.IndexOf(node)) + 1];
  };
  std::vector<LineFinding> findings;
  for (const LineTest& test : LineTestsOf(links, {}, fans_out)) {
    if (test.FansOut()) {
      findings.push_back(FanOutFinding(network, nodes_at, site_of(test.members.front()), test));
      continue;
    }
    LineFinding finding{test.members, test.rates, test.rates};
    std::map<int32_t, double> sending;
    for (const NodeId& member : test.members) ++sending[site_of(member)];
    for (size_t i = 0; i < test.members.size(); ++i) {
      const int32_t site = site_of(test.members[i]);
      const double up = network.sites[static_cast<size_t>(site)].up_bytes_per_s;
      if (up > 0) finding.together[i] = std::min(test.rates[i], up / sending[site]);
    }
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace

absl::StatusOr<Topology> TopologyOf(const Scenario& scenario, const RunConfig& run) {
  Topology topology;
  topology.input.config = run;
  LinkEstimator estimator;
  const auto nodes = static_cast<int32_t>(scenario.nodes.size());
  const std::vector<int32_t> nodes_at = NodesAtSites(scenario.network);
  for (int32_t i = 0; i < nodes; ++i) {
    const ScenarioNode& node = scenario.nodes[static_cast<size_t>(i)];
    const NodeId id = TestNodeId(static_cast<uint32_t>(i) + 1);
    topology.input.nodes.push_back(id);
    topology.input.devices[id] = ProfileOf(node.device, node.format);
    topology.regions.push_back(scenario.RegionOf(i + 1));
    topology.input.regions[id] = topology.regions.back();
  }
  if (!std::is_sorted(topology.input.nodes.begin(), topology.input.nodes.end())) {
    return Internal("node ids do not ascend with their numbers");
  }
  for (int32_t i = 0; i < nodes; ++i) {
    for (int32_t j = 0; j < nodes; ++j) {
      if (i == j) continue;
      const Way way = WayOf(scenario.network, nodes_at, i + 1, j + 1);
      // What the other links contradict the coordinator asks again, and then believes.
      for (int32_t times = 0; times < LinkEstimator::kBelieveAfter; ++times) {
        SKERRY_RETURN_IF_ERROR(estimator.Add(topology.input.nodes[static_cast<size_t>(i)],
                                             topology.input.nodes[static_cast<size_t>(j)],
                                             way.rtt_s, way.bytes_per_s, Instant()));
      }
    }
  }
  LinkMatrix& links = topology.input.links;
  links = estimator.Estimate(topology.input.nodes, Instant());
  if (scenario.tests_lines)
    SetLines(FindingsOf(scenario.network, nodes_at, links, run.cluster.is_on()), &links);
  return topology;
}

}  // namespace skerry
