// The scenarios under sim/scenarios: they load, and say what their sources say.
#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <string>

#include "pipeline/plan/partition.h"
#include "sim/scenario.h"
#include "sim/scenario_emulate.h"
#include "wire/toml_reader.h"

namespace skerry {
namespace {

Scenario Shipped(const std::string& name) {
  const auto scenario = LoadScenario(std::string(SKERRY_SCENARIO_DIR) + "/" + name);
  INFO(scenario.status().message());
  REQUIRE(scenario.ok());
  return *scenario;
}

const PathSpec& PathOf(const Scenario& scenario, const std::string& from, const std::string& to) {
  const auto& regions = scenario.network.regions;
  const auto index = [&](const std::string& name) {
    return static_cast<size_t>(std::find(regions.begin(), regions.end(), name) - regions.begin());
  };
  return scenario.network.paths[index(from) * regions.size() + index(to)];
}

TEST_CASE("Scenario: every shipped scenario loads, with the nodes and regions it promises",
          "[sim][scenario][shipped]") {
  struct Promise {
    const char* name;
    size_t nodes, regions;
  };
  for (const Promise& promise :
       {Promise{"three_regions", 8, 3}, Promise{"gcp12", 20, 12}, Promise{"dtfm_1", 64, 1},
        Promise{"dtfm_2", 64, 1}, Promise{"dtfm_3", 64, 2}, Promise{"dtfm_4", 64, 4},
        Promise{"dtfm_5", 64, 8}, Promise{"aws33", 33, 33}, Promise{"azure50", 50, 50},
        Promise{"homes36", 72, 36}, Promise{"two_universities", 20, 2},
        Promise{"spot_fleet", 28, 1}, Promise{"wild_delta", 8, 2},
        Promise{"volunteers_1000", 1000, 10}, Promise{"volunteers_10000", 10000, 10},
        Promise{"two_clusters", 8, 2}, Promise{"three_rooms", 12, 3}}) {
    INFO(promise.name);
    const Scenario scenario = Shipped(promise.name);
    CHECK(scenario.nodes.size() == promise.nodes);
    CHECK(scenario.network.regions.size() == promise.regions);
    CHECK(scenario.network.site_of_node.size() == promise.nodes + 1);
    CHECK(ChurnOf(scenario, 1).ok());
    const std::set<std::string> emulated = {"three_regions", "two_clusters"};
    CHECK(CanEmulate(scenario).ok() == emulated.contains(promise.name));
  }
}

TEST_CASE("Scenario: shipped networks have their published figures", "[sim][scenario][shipped]") {
  // One way, and a cap of each flow: a window, not a capacity.
  const Scenario gcp = Shipped("gcp12");
  CHECK(PathOf(gcp, "Belgium", "Iowa").one_way == Duration::Millis(49));
  CHECK(PathOf(gcp, "Iowa", "Belgium").flow_bytes_per_s == Approx(243.27e6 / 8));
  CHECK(PathOf(gcp, "Iowa", "Belgium").bytes_per_s == 0);
  CHECK(PathOf(gcp, "NL", "London").flow_bytes_per_s == Approx(2083.06e6 / 8));

  // Round trips, each way its own.
  const Scenario aws = Shipped("aws33");
  CHECK(PathOf(aws, "af-south-1", "ap-east-1").one_way == Duration::Micros(173776));
  CHECK(PathOf(aws, "af-south-1", "af-south-1").one_way == Duration::Micros(2228));

  // DT-FM's delays are round trips, its rates those of one pair of devices.
  const Scenario dtfm = Shipped("dtfm_5");
  CHECK(PathOf(dtfm, "Oregon", "Tokyo").one_way == Duration::Millis(48));
  CHECK(PathOf(dtfm, "Tokyo", "Oregon").flow_bytes_per_s == Approx(523e6 / 8));

  const Scenario homes = Shipped("homes36");
  CHECK(homes.network.sites.front().name == "node1");
  CHECK(homes.network.sites.front().down_bytes_per_s == Approx(284.13e6 / 8));
}

TEST_CASE("Scenario: the demo's network is the one its shaper had before there were scenarios",
          "[sim][emulate][shipped]") {
  const auto shape = WanShapeOf(Shipped("three_regions"));
  REQUIRE(shape.ok());
  CHECK(*shape->Between("frankfurt", "virginia") == LinkShape{Duration::Micros(46500), 25e6});
  CHECK(*shape->Between("tokyo", "virginia") == LinkShape{Duration::Millis(74), 18.75e6});
  CHECK(*shape->Between("virginia", "tokyo") == LinkShape{Duration::Millis(74), 12.5e6});
  CHECK(*shape->Between("tokyo", "tokyo") == LinkShape{Duration::Millis(1), 125e6});
}

TEST_CASE("Scenario: a spot fleet follows its trace", "[sim][churn][shipped]") {
  const Scenario fleet = Shipped("spot_fleet");
  const auto events = *ChurnOf(fleet, 1);
  REQUIRE_FALSE(events.empty());
  // All 24 are there at first; 1,440 s of the trace are 540 s of the scenario, when five go.
  CHECK(events.front().at == Instant() + Duration::Seconds(540));
  CHECK(std::count_if(events.begin(), events.end(),
                      [&](const ChurnEvent& event) { return event.at == events.front().at; }) == 5);
  CHECK_FALSE(fleet.churn.front().spec.keeps_disk);
  CHECK(*ChurnOf(fleet, 2) == events);
}

TEST_CASE("Scenario: a site has a switch unless its network is said to be shared",
          "[sim][scenario]") {
  const auto scenario = ParseScenario(
      "name = \"homes\"\nregions = [\"eu\"]\n[[site]]\nname = \"wired\"\nregion = \"eu\"\n"
      "[[site]]\nname = \"radio\"\nregion = \"eu\"\nlocal_shared = true\n"
      "[[nodes]]\nsite = \"wired\"\n[[nodes]]\nsite = \"radio\"\n[run]\nnodes_min = 1\n",
      "scenario.toml");
  INFO(scenario.status().message());
  REQUIRE(scenario.ok());
  for (const SiteSpec& site : scenario->network.sites)
    CHECK(site.local_is_shared == (site.name == "radio"));
}

TEST_CASE("Scenario: a site's trace repeats until the horizon", "[sim][scenario][shipped]") {
  const Scenario campus = Shipped("two_universities");
  const auto& changes = campus.network.site_changes;
  REQUIRE(changes.size() == 13);  // four an hour for three hours, and one at their end
  CHECK(changes[1].at == Instant() + Duration::Seconds(1200));
  CHECK(changes[1].up_bytes_per_s == 50e6);
  CHECK(changes[5].at == Instant() + Duration::Seconds(4800));
  CHECK(campus.network.sites[static_cast<size_t>(changes[1].site)].name == "virginia-lab");
}

TEST_CASE("Scenario: the nodes of every shipped scenario hold its model", "[sim][shipped]") {
  for (const char* name :
       {"three_regions", "gcp12", "dtfm_1", "dtfm_3", "dtfm_5", "aws33", "azure50", "homes36",
        "two_universities", "spot_fleet", "volunteers_1000"}) {
    INFO(name);
    const Scenario scenario = Shipped(name);
    std::vector<double> gflops;
    std::vector<MemoryOffer> memory;
    // Training starts with nodes_min of them, whichever come first.
    for (int32_t i = 0; i < scenario.run.nodes_min; ++i) {
      const ScenarioNode& node = scenario.nodes[static_cast<size_t>(i)];
      const DeviceProfile profile = ProfileOf(node.device, node.format);
      gflops.push_back(profile.gflops);
      memory.push_back(OfferOf(profile));
    }
    const auto partition = MakePartition(scenario.run, gflops, memory);
    INFO(partition.status().message());
    CHECK(partition.ok());
  }
}

TEST_CASE("Scenario: the example of docs/SIMULATION.md is one, and every word is explained there",
          "[sim][scenario][docs]") {
  const std::string page = *ReadTextFile(SKERRY_SIMULATION_PAGE);
  const size_t begin = page.find("```toml\n") + 8;
  const std::string example = page.substr(begin, page.find("```", begin) - begin);
  const auto scenario = ParseScenario(example, "scenario.toml");
  INFO(scenario.status().message());
  REQUIRE(scenario.ok());
  CHECK(scenario->nodes.size() == 8);

  for (int kind = 0; kind < kFaultKinds; ++kind) {
    INFO(NameOf(static_cast<FaultKind>(kind)));
    CHECK(page.find("| `" + std::string(NameOf(static_cast<FaultKind>(kind))) + "`") !=
          std::string::npos);
  }
  for (const char* checker : kCheckerNames)
    CHECK(page.find("`" + std::string(checker) + "`") != std::string::npos);
}

}  // namespace
}  // namespace skerry
