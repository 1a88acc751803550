// What two nodes behind routers say to each other crosses the lines of their relay.
#include <catch2/catch.hpp>
#include <set>

#include "sim/flow_map.h"
#include "sim/packet/packet_plan.h"
#include "sim/scenario.h"
#include "tests/sim/flow_player.h"

using namespace skerry;
using namespace skerry::testing;

namespace {

// Nodes 0, 2, 4 in the west, 1, 3, 5 in the east, a site each.
NetworkSpec SixHomes() {
  NetworkSpec spec = TwoSites(100, Duration::Millis(40), CongestionControl::kBbr, 3);
  const SiteSpec west = spec.sites[0], east = spec.sites[1];
  spec.sites.clear();
  spec.site_of_node.clear();
  for (int32_t node = 0; node < 6; ++node) {
    spec.sites.push_back(node % 2 == 0 ? west : east);
    spec.site_of_node.push_back(node);
  }
  spec.paths[1].loss = 0.01;
  return spec;
}

}  // namespace

TEST_CASE("FlowMap: a relayed pair's bytes cross both ways, once what they share", "[sim][nat]") {
  NetworkSpec spec = SixHomes();
  const FlowMap open(spec);
  spec.behind_routers = {1, 2, 3};
  const FlowMap shut(spec);
  // One side can be dialled, or the coordinator is an end: as before.
  CHECK(shut.RelayOf(1, 4) == -1);
  CHECK(shut.RelayOf(0, 1) == -1);
  CHECK(shut.Route(1, 4).one_way == open.Route(1, 4).one_way);
  // Two behind routers: over node 0, in the west.
  CHECK(shut.RelayOf(1, 3) == 0);
  const FlowRoute relayed = shut.Route(1, 3), there = open.Route(1, 0), on = open.Route(0, 3);
  CHECK(relayed.link_count == 6);
  CHECK(relayed.one_way == there.one_way + on.one_way);
  CHECK(relayed.round_trip == there.round_trip + on.round_trip);
  CHECK(relayed.loss == Approx(1 - (1 - there.loss) * (1 - on.loss)));
  CHECK(relayed.flow_cap == std::min(there.flow_cap, on.flow_cap));
  std::set<int32_t> links(relayed.links.begin(), relayed.links.begin() + relayed.link_count);
  CHECK(links.size() == 6);
  // The path within the west is crossed once although both ways use it.
  NetworkSpec west = spec;
  west.behind_routers = {2, 4};
  CHECK(FlowMap(west).Route(2, 4).link_count == 5);
}

TEST_CASE("FlowMap: each pair has a relay of its own, the same both ways", "[sim][nat]") {
  NetworkSpec spec = SixHomes();
  spec.behind_routers = {1, 2, 3};
  spec.relays = {4, 5};
  const FlowMap map(spec);
  std::set<int32_t> used;
  for (const auto& [a, b] : {std::pair{1, 2}, {1, 3}, {2, 3}}) {
    used.insert(map.RelayOf(a, b));
    CHECK(map.RelayOf(a, b) == map.RelayOf(b, a));
    CHECK((map.RelayOf(a, b) == 4 || map.RelayOf(a, b) == 5));
  }
  // Packets of an emulation go where they are sent: its relays are processes.
  NetworkSpec open = spec;
  open.behind_routers.clear();
  CHECK(MakePacketPlan(spec).Route(1, 3).hops.size() ==
        MakePacketPlan(open).Route(1, 3).hops.size());
}

TEST_CASE("Scenario: nodes behind routers, and relays", "[sim][nat]") {
  const std::string text = R"(
name = "x"
horizon_s = 600
regions = ["a"]
[run]
nodes_min = 1
[same_region]
rtt_ms = 2
unlimited = true
[[nodes]]
region = "a"
count = 2
nat = true
[[nodes]]
region = "a"
relay = true
)";
  const auto scenario = ParseScenario(text, "/tmp/x/scenario.toml");
  INFO(scenario.status());
  REQUIRE(scenario.ok());
  CHECK(scenario->network.behind_routers == std::vector<int32_t>{1, 2});
  CHECK(scenario->network.relays == std::vector<int32_t>{3});
  CHECK(scenario->nodes[0].nat);
  CHECK_FALSE(ParseScenario(text + "nat = true\n", "/tmp/x/scenario.toml").ok());
}
