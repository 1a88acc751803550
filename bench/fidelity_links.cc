#include "bench/fidelity_links.h"

namespace skerry::bench {

NetworkSpec SpecOf(const std::vector<TestLink>& links, CongestionControl control) {
  NetworkSpec spec;
  const size_t count = 2 * links.size();
  PathSpec nowhere;
  nowhere.one_way = Duration::Millis(10);
  nowhere.bytes_per_s = kMbit;
  spec.paths.assign(count * count, nowhere);
  for (size_t i = 0; i < count; ++i) {
    spec.regions.push_back("end" + std::to_string(i));
    SiteSpec site;
    site.region = static_cast<int32_t>(i);
    spec.sites.push_back(site);
    spec.site_of_node.push_back(static_cast<int32_t>(i));
  }
  for (size_t i = 0; i < links.size(); ++i) {
    PathSpec path;
    path.one_way = Duration::Micros(500) * links[i].rtt_ms;
    path.bytes_per_s = links[i].mbps * kMbit;
    spec.paths[(2 * i + 1) * count + 2 * i] = path;
    path.loss = links[i].loss;
    spec.paths[2 * i * count + 2 * i + 1] = path;
  }
  spec.congestion_control = control;
  return spec;
}

NetworkSpec SharedLineSpec(const TestLink& line, int peers, CongestionControl control) {
  NetworkSpec spec;
  const auto count = static_cast<size_t>(peers) + 1;
  PathSpec path;
  path.one_way = Duration::Micros(500) * line.rtt_ms;
  path.bytes_per_s = 10'000 * kMbit;
  spec.paths.assign(count * count, path);
  for (size_t i = 0; i < count; ++i) {
    spec.regions.push_back("end" + std::to_string(i));
    SiteSpec site;
    site.region = static_cast<int32_t>(i);
    site.up_bytes_per_s = site.down_bytes_per_s = (i == 0 ? line.mbps : 10'000) * kMbit;
    spec.sites.push_back(site);
    spec.site_of_node.push_back(static_cast<int32_t>(i));
    if (i > 0) spec.paths[i].loss = line.loss;
  }
  spec.congestion_control = control;
  return spec;
}

std::vector<TestLink> GridOfLinks() {
  std::vector<TestLink> links;
  for (const double mbps : {10.0, 100.0, 1000.0}) {
    for (const int rtt_ms : {20, 80, 200}) links.push_back({mbps, rtt_ms, 0});
  }
  return links;
}

std::vector<double> SimulatedSeconds(const NetworkSpec& spec, uint64_t seed,
                                     const std::vector<int64_t>& messages) {
  FlowNetwork network(spec, seed);
  const Duration back = spec.paths[spec.regions.size()].one_way;
  std::vector<double> seconds;
  Instant now;
  for (const int64_t bytes : messages) {
    network.Send(now, 0, 1, bytes, 1);
    std::vector<FlowNetwork::Arrival> arrived;
    Instant at = now;
    while (arrived.empty()) {
      at = network.NextDue().value();
      network.Advance(at, arrived);
    }
    seconds.push_back((at + back - now).seconds());
    now = at + back;
  }
  return seconds;
}

std::vector<double> SimulatedAtOnce(const NetworkSpec& spec, uint64_t seed, int flows,
                                    int64_t bytes) {
  FlowNetwork network(spec, seed);
  for (int i = 0; i < flows; ++i)
    network.Send(Instant(), 2 * i, 2 * i + 1, bytes, static_cast<uint64_t>(i));
  const Duration back = spec.paths[spec.regions.size()].one_way;
  std::vector<double> seconds(static_cast<size_t>(flows));
  while (const auto due = network.NextDue()) {
    std::vector<FlowNetwork::Arrival> arrived;
    network.Advance(*due, arrived);
    for (const auto& arrival : arrived) seconds[arrival.tag] = (*due + back - Instant()).seconds();
  }
  return seconds;
}

}  // namespace skerry::bench
