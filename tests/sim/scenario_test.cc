#include "sim/scenario.h"

#include <catch2/catch.hpp>

#include "sim/scenario_emulate.h"
#include "tests/coded_error.h"

namespace skerry {
namespace {

// A whole scenario of two regions; tests add to it. What they add begins in line 6.
constexpr char kHead[] = R"(name = "test"
horizon_s = 600
regions = ["us", "eu"]
[run]
nodes_min = 1
)";
constexpr char kPair[] = "[[pair]]\na = \"us\"\nb = \"eu\"\nrtt_ms = 80\nrate_mbps = 100\n";
constexpr char kFlows[] =
    "[[pair]]\na = \"us\"\nb = \"eu\"\nrtt_ms = 80\nunlimited = true\nflow_cap_mbps = 100\n"
    "[same_region]\nunlimited = true\nflow_cap_mbps = 1000\n";
constexpr char kNodes[] = "[[nodes]]\nregion = \"us\"\ncount = 2\n[[nodes]]\nregion = \"eu\"\n";

absl::StatusOr<Scenario> Parse(const std::string& rest) {
  return ParseScenario(kHead + rest, "s.toml");
}

Scenario Parsed(const std::string& rest) {
  const auto scenario = Parse(rest);
  INFO(scenario.status().message());
  REQUIRE(scenario.ok());
  return *scenario;
}

std::string ErrorOf(const std::string& rest) {
  const auto scenario = Parse(rest);
  return scenario.ok() ? "accepted" : WithoutCode(scenario.status().message());
}

TEST_CASE("Scenario: regions, pairs and nodes become a network with the coordinator as node 0",
          "[sim][scenario]") {
  const Scenario scenario = Parsed(std::string(kPair) + R"(flow_cap_mbps = 40
loss = 0.001
jitter_ms = 2
[same_region]
one_way_ms = 1
rate_mbps = 800
[network]
congestion_control = "cubic"
queue_ms = 50
)" + kNodes);
  const NetworkSpec& network = scenario.network;
  CHECK(network.regions == std::vector<std::string>{"us", "eu"});
  const PathSpec wide = {Duration::Millis(40), 12.5e6, 5e6, 0.001, Duration::Millis(2)};
  const PathSpec near = {Duration::Millis(1), 100e6, 0, 0, Duration()};
  CHECK(network.paths == std::vector<PathSpec>{near, wide, wide, near});
  CHECK(network.congestion_control == CongestionControl::kCubic);
  CHECK(network.queue == Duration::Millis(50));
  REQUIRE(scenario.nodes.size() == 3);
  REQUIRE(network.site_of_node.size() == 4);
  CHECK(scenario.RegionOf(0) == "us");
  CHECK(scenario.RegionOf(2) == "us");
  CHECK(scenario.RegionOf(3) == "eu");
  CHECK(scenario.checkers.size() == kCheckerNames.size());
}

TEST_CASE("Scenario: a one-way delay is not halved, and rates may differ by direction",
          "[sim][scenario]") {
  const Scenario scenario =
      Parsed(std::string("[[pair]]\na = \"us\"\nb = \"eu\"\none_way_ms = 80\nrate_ab_mbps = 8\n"
                         "rate_ba_mbps = 16\n") +
             kNodes);
  CHECK(scenario.network.paths[1] == PathSpec{Duration::Millis(80), 1e6, 0, 0, Duration()});
  CHECK(scenario.network.paths[2] == PathSpec{Duration::Millis(80), 2e6, 0, 0, Duration()});
}

TEST_CASE("Scenario: nodes of a class have its line, a shared site is one line for several",
          "[sim][scenario]") {
  const Scenario scenario = Parsed(std::string(kPair) + R"([class.dsl]
up_mbps = 8
down_mbps = 80
access_rtt_ms = 30
[[site]]
name = "lab"
region = "eu"
class = "university"
local_rate_mbps = 10000
[coordinator]
region = "eu"
class = "datacenter"
[[nodes]]
region = "us"
count = 2
class = "dsl"
down_mbps = 160
[[nodes]]
name = "dormitory"
region = "us"
count = 3
class = "home"
shared = true
[[nodes]]
site = "lab"
count = 2
)");
  const NetworkSpec& network = scenario.network;
  const auto site = [&](int node) {
    return network.sites[static_cast<size_t>(network.site_of_node[static_cast<size_t>(node)])];
  };
  CHECK(site(0).region == 1);
  CHECK(site(0).up_bytes_per_s == 1.25e9);
  CHECK(site(1).up_bytes_per_s == 1e6);
  CHECK(site(1).down_bytes_per_s == 20e6);
  CHECK(site(1).access_one_way == Duration::Millis(15));
  CHECK(network.site_of_node[1] != network.site_of_node[2]);
  CHECK(site(2) ==
        SiteSpec{"node2", 0, 1e6, 20e6, Duration::Millis(15), 125e6, Duration::Micros(250)});
  CHECK(site(3).name == "dormitory");
  CHECK(network.site_of_node[3] == network.site_of_node[5]);
  CHECK(site(6).name == "lab");
  CHECK(site(7).local_bytes_per_s == 1.25e9);
  CHECK(network.site_of_node[6] == network.site_of_node[7]);
}

TEST_CASE("Scenario: mistakes of the network are reported with their line",
          "[sim][scenario][error]") {
  const std::string pair = "[[pair]]\na = \"us\"\nb = \"eu\"\n";
  const std::string whole = kPair;
  CHECK(ErrorOf(kNodes) ==
        "s.toml:3: the way from 'us' to 'eu' has no delay: give a [[pair]], a [[matrix]] or "
        "[pair_default]");
  CHECK(ErrorOf(pair + "rate_mbps = 1\n" + kNodes) ==
        "s.toml:6: the delay is missing: give rtt_ms or one_way_ms");
  CHECK(ErrorOf(pair + "rtt_ms = 1\n" + kNodes) ==
        "s.toml:6: the rate is missing: give rate_mbps, or rate_ab_mbps and rate_ba_mbps, or "
        "unlimited = true");
  CHECK(ErrorOf(pair + "rtt_ms = 1\none_way_ms = 1\nrate_mbps = 1\n" + kNodes) ==
        "s.toml:10: give rtt_ms or one_way_ms, not both");
  CHECK(ErrorOf(pair + "delay = 0.08\nrate_mbps = 1\n" + kNodes) ==
        "s.toml:6: the delay is missing: give rtt_ms or one_way_ms");
  CHECK(ErrorOf(pair + "rtt_ms = \"80 ms\"\nrate_mbps = 1\n" + kNodes) ==
        "s.toml:9: 'rtt_ms' must be a number, not text");
  CHECK(ErrorOf(whole + "los = 0.1\n" + kNodes) ==
        "s.toml:11: unknown key 'los' in [[pair]]; nearest is 'loss'");
  CHECK(ErrorOf(whole + "loss = 1.5\n" + kNodes) ==
        "s.toml:11: 'loss' is 1.5, allowed are 0 to 0.999");
  CHECK(ErrorOf(whole + "[same_region]\nrate_ab_mbps = 5\n" + kNodes) ==
        "s.toml:12: unknown key 'rate_ab_mbps' in [same_region]; nearest is 'rate_mbps'");
  CHECK(ErrorOf(whole + kPair + kNodes) == "s.toml:12: this pair is given twice");
  CHECK(ErrorOf(whole + "[class]\nup_mbps = 3\n" + kNodes) ==
        "s.toml:12: 'up_mbps' must be a section [class.up_mbps]");
  CHECK(ErrorOf(whole + "[class.dsl]\nup_mbps = 3\n" + kNodes) ==
        "s.toml:11: a class needs up_mbps and down_mbps, or unlimited = true");
  CHECK(ErrorOf(whole + kNodes + "[check]\ncheckers = [3]\n") ==
        "s.toml:17: 'checkers' must be a list of texts, but has a whole number");
  CHECK(ErrorOf(whole + "[wan]\n" + kNodes) == "s.toml:11: unknown section 'wan'");
  CHECK(ErrorOf(whole + "[[region]]\nname = \"node3\"\n" + kNodes) ==
        "s.toml:12: 'node3' cannot name a region");
}

TEST_CASE("Scenario: mistakes about nodes are reported with their line", "[sim][scenario][error]") {
  const std::string head = kPair;
  const std::string nodes = "[[nodes]]\nregion = \"us\"\n";
  CHECK(ErrorOf(head) == "s.toml:1: there are no nodes: want [[nodes]] with region and count");
  CHECK(ErrorOf(head + "[[nodes]]\nregion = \"su\"\n") == "s.toml:12: there is no region 'su'");
  CHECK(ErrorOf(head + nodes + "device = \"rtx-490\"\n") ==
        "s.toml:13: there is no device 'rtx-490' in the catalogue nor in [device.X]; nearest is "
        "'rtx-4090'");
  CHECK(ErrorOf(head + nodes + "device = \"t4\"\nformat = \"bf16\"\n") ==
        "s.toml:14: 't4' does not compute in this format");
  CHECK(ErrorOf(head + nodes + "class = \"cable\"\n") ==
        "s.toml:13: there is no class 'cable', there are 'datacenter', 'direct', 'home', "
        "'university'");
  CHECK(ErrorOf(head + nodes + "count = 0\n") ==
        "s.toml:13: 'count' is 0, allowed are 1 to 100000");
  CHECK(ErrorOf(head + nodes + "churn = \"spot\"\n") == "s.toml:13: there is no [churn.spot]");
  CHECK(ErrorOf(head + nodes + "[churn.spot]\nup_shape = 1\n") ==
        "s.toml:13: want up_shape and up_scale_h of a Weibull distribution, or a trace");
  CHECK(ErrorOf(head + "[[nodes]]\nsite = \"lab\"\nregion = \"us\"\n") ==
        "s.toml:13: give region or site, not both");
  const auto many = ParseScenario(
      "name = \"t\"\nregions = [\"us\"]\n[run]\nnodes_min = 9\n[[nodes]]\nregion = \"us\"\n",
      "s.toml");
  CHECK(WithoutCode(many.status().message()) ==
        "s.toml:3: the run waits for nodes_min = 9 nodes, the scenario has 1");
}

TEST_CASE("Scenario: an empty file, no regions, an unknown run are errors like others",
          "[sim][scenario][error]") {
  const auto error_of = [](const std::string& text) {
    return WithoutCode(ParseScenario(text, "s.toml").status().message());
  };
  CHECK(error_of("").find("a scenario needs a name") != std::string::npos);
  CHECK(error_of("name = \"t\"\n[run]\n[[pair]]\na = \"us\"\nb = \"eu\"\n[[nodes]]\nregion = "
                 "\"us\"\n[[fault]]\nat_s = 1\nkind = \"cut\"\na = \"us\"\n") ==
        "s.toml:1: there is no region: want regions = [\"…\"] or [[region]] with a name");
  CHECK(error_of("name = \"t\"\nregions = [\"us\"]\n[[nodes]]\nregion = \"us\"\n") ==
        "s.toml:1: the run is missing: want run = \"run.toml\" or a section [run]");
  CHECK(error_of("name = ").find("s.toml:1: ") == 0);
}

TEST_CASE("Scenario: an inline run is held to the rules of run.toml", "[sim][scenario]") {
  const std::string rest = std::string(kPair) + kNodes;
  CHECK(Parsed(rest + "[model]\nlayers = 12\n").run.model.layers == 12);
  CHECK(ErrorOf(rest + "[model]\nlayer = 12\n") ==
        "s.toml:17: unknown key 'layer' in [model]; nearest is 'layers'");
  CHECK(ErrorOf(rest + "[model]\nheads = 5\nkv_heads = 5\n") ==
        "s.toml:16: [model] hidden: 192 must be a multiple of heads (5)");
}

std::string FaultOf(const std::string& keys) {
  return std::string(kPair) + kNodes + "[[fault]]\n" + keys;
}

TEST_CASE("Scenario: faults say when, whom, how much and how long", "[sim][fault]") {
  const Scenario scenario = Parsed(FaultOf(R"(at_s = 10
kind = "restart"
node = 2
for_s = 5
disk = false
[[fault]]
at_s = 20
kind = "cut"
a = "eu"
for_s = 90
[[fault]]
at_s = 20
kind = "slow_link"
a = "us"
b = "node3"
direction = "one_way"
factor = 10
[[fault]]
kind = "coordinator_crash"
at_record = 17
for_s = 2
[[fault]]
at_s = 30
kind = "clock_jump"
region = "us"
by_s = -3.5
[[fault]]
at_s = 30
kind = "poisoned_delta"
node = 1
)"));
  REQUIRE(scenario.faults.size() == 6);
  const auto& faults = scenario.faults;
  CHECK(faults[0].kind == FaultKind::kRestart);
  CHECK(faults[0].at == Instant() + Duration::Seconds(10));
  CHECK(faults[0].lasts == Duration::Seconds(5));
  CHECK_FALSE(faults[0].keeps_disk);
  CHECK(faults[0].where.Nodes(scenario.network) == std::vector<int32_t>{2});

  CHECK(faults[1].where.Has(3, scenario.network));
  CHECK_FALSE(faults[1].where.Has(0, scenario.network));
  CHECK(faults[1].other.kind == FaultEnd::Kind::kEverything);
  CHECK(faults[1].both_directions);

  CHECK_FALSE(faults[2].both_directions);
  CHECK(faults[2].factor == 10);
  CHECK_FALSE(faults[2].lasts);
  CHECK(faults[2].where.Has(0, scenario.network));  // the coordinator is in "us"
  CHECK(faults[2].other.Nodes(scenario.network) == std::vector<int32_t>{3});

  CHECK(faults[3].at_record == 17);
  CHECK(faults[4].by == Duration::Seconds(-3.5));
  CHECK(faults[4].where.Nodes(scenario.network) == std::vector<int32_t>{1, 2});
  CHECK(std::string(NameOf(faults[5].kind)) == "poisoned_delta");
}

TEST_CASE("Scenario: a wild delta says how wild", "[sim][fault]") {
  const Scenario scenario =
      Parsed(FaultOf("at_s = 30\nkind = \"wild\"\nnode = 2\nfactor = -1000\nnoise = true\n"));
  REQUIRE(scenario.faults.size() == 1);
  CHECK(scenario.faults[0].kind == FaultKind::kWild);
  CHECK(scenario.faults[0].factor == -1000);
  CHECK(scenario.faults[0].is_noise);
}

TEST_CASE("Scenario: a fault has the keys of its kind and no others", "[sim][fault][error]") {
  CHECK(ErrorOf(FaultOf("at_s = 1\nkind = \"crash\"\n")) == "s.toml:16: say whom: node or region");
  CHECK(ErrorOf(FaultOf("at_s = 1\nkind = \"crash\"\nnode = 4\n")) ==
        "s.toml:19: 'node' is 4, allowed are 1 to 3");
  CHECK(ErrorOf(FaultOf("at_s = 1\nkind = \"crash\"\nnode = 1\nfactor = 2\n")) ==
        "s.toml:20: unknown key 'factor' in [[fault]]");
  CHECK(ErrorOf(FaultOf("kind = \"crash\"\nnode = 1\n")) ==
        "s.toml:16: a fault needs at_s, its time in seconds");
  CHECK(ErrorOf(FaultOf("at_s = 601\nkind = \"crash\"\nnode = 1\n")) ==
        "s.toml:17: 601 s is after the scenario's horizon_s of 600");
  CHECK(ErrorOf(FaultOf("at_s = 1\nkind = \"hang\"\nnode = 1\n")) ==
        "s.toml:16: a hang needs for_s, its length in seconds");
  CHECK(ErrorOf(FaultOf("at_s = 1\nkind = \"restart\"\nnode = 1\nfor_s = 1\n")) ==
        "s.toml:16: a restart needs disk = true or false: does it survive");
  CHECK(ErrorOf(FaultOf("at_s = 1\nkind = \"cut\"\na = \"node9\"\n")) ==
        "s.toml:19: 'node9' is no region, nor one of node1 to node3, nor 'coordinator'");
  CHECK(ErrorOf(FaultOf("at_s = 1\nat_record = 2\nkind = \"coordinator_crash\"\nfor_s = 1\n")) ==
        "s.toml:17: give at_s or at_record: one of the two");
  CHECK(ErrorOf(FaultOf("at_s = 1\nkind = \"wild\"\nnode = 1\n")) ==
        "s.toml:16: how wild: factor, of the honest delta, is missing");
  CHECK(ErrorOf(FaultOf("at_s = 1\nkind = \"meteor\"\nnode = 1\n"))
            .find("s.toml:18: 'kind' is 'meteor', allowed are 'crash', 'restart'") == 0);
}

TEST_CASE("Scenario: checkers are all there unless some are named, figures are optional",
          "[sim][scenario]") {
  const std::string rest = std::string(kPair) + kNodes;
  const Scenario scenario = Parsed(
      rest + "[check]\ncheckers = [\"liveness\", \"plan_agreement\"]\n[expect]\nstep_s_max = 3\n");
  CHECK(scenario.checkers == std::vector<Checker>{Checker::kPlanAgreement, Checker::kLiveness});
  CHECK(scenario.expect.step_s_max == 3.0);
  CHECK_FALSE(scenario.expect.loss_ratio_max);
  CHECK(ErrorOf(rest + "[check]\ncheckers = [\"lively\"]\n")
            .find("s.toml:17: there is no checker 'lively', there are 'plan_agreement'") == 0);
  CHECK(ErrorOf(rest + "[expect]\nstep_ms_max = 3\n") ==
        "s.toml:17: unknown key 'step_ms_max' in [expect]; nearest is 'step_s_max'");
}

TEST_CASE("Scenario: emulate takes the demo's network and says what it cannot imitate",
          "[sim][emulate]") {
  const std::string text = "text = \"words.txt\"\n";
  const auto refusal = [&](const std::string& rest) {
    const auto scenario = ParseScenario(text + kHead + rest, "s.toml");
    INFO(scenario.status().message());
    REQUIRE(scenario.ok());
    const std::string why(CanEmulate(*scenario).message());
    const size_t at = why.find("emulate cannot");
    return at == std::string::npos ? why : why.substr(at);
  };
  const std::string rest = std::string(kFlows) + kNodes;
  const std::string inprocess = "in-process; `emulate --shaper packets` and `skerry-sim run` can";
  CHECK(refusal(rest) == "");
  CHECK(refusal(std::string(kPair) + kNodes)
            .find("emulate cannot imitate a rate that several nodes share") == 0);
  CHECK(refusal("[pair_default]\nloss = 0.01\n" + rest) ==
        "emulate cannot imitate loss (from 'us' to 'eu') " + inprocess);
  CHECK(refusal(rest + "[[fault]]\nat_s = 1\nkind = \"crash\"\nnode = 1\n") ==
        "emulate cannot inject faults ('crash'); `skerry-sim run` can");
  CHECK(
      refusal(rest + "count = 80\n") ==
      "emulate cannot run 82 nodes, more than 64 processes, on one machine; `skerry-sim run` can");
  CHECK(refusal(rest + "class = \"home\"\n") ==
        "emulate cannot give 'node3' another line than 'coordinator': every process has the same " +
            inprocess);
  CHECK(refusal(rest + "count = 2\nshared = true\n") ==
        "emulate cannot imitate several nodes behind one line ('group2') " + inprocess);
}

TEST_CASE("Scenario: packets carry what the in-process shaper cannot, but no faults",
          "[sim][emulate]") {
  const auto answer = [](const std::string& rest) {
    const auto scenario =
        ParseScenario("text = \"words.txt\"\n" + std::string(kHead) + rest, "s.toml");
    INFO(scenario.status().message());
    REQUIRE(scenario.ok());
    return std::string(CanEmulatePackets(*scenario).message());
  };
  const std::string rest = std::string(kFlows) + kNodes;
  CHECK(answer("[pair_default]\nloss = 0.01\njitter_ms = 2\n" + rest) == "");
  CHECK(answer(std::string(kPair) + kNodes) == "");
  CHECK(answer(rest + "class = \"home\"\n") == "");
  CHECK(answer(rest + "count = 2\nshared = true\n") == "");
  CHECK(answer(rest + "[[fault]]\nat_s = 1\nkind = \"crash\"\nnode = 1\n")
            .find("emulate cannot inject faults ('crash'); `skerry-sim run` can") !=
        std::string::npos);
  CHECK(answer(rest + "count = 80\n").find("more than 64 processes") != std::string::npos);
}

TEST_CASE("Scenario: the shaper's file says the same network", "[sim][emulate]") {
  const std::string text = "text = \"words.txt\"\n" + std::string(kHead) + kFlows + kNodes;
  const auto shape = WanShapeOf(ParseScenario(text, "s.toml").value());
  REQUIRE(shape.ok());
  CHECK(*shape->Between("us", "eu") == LinkShape{Duration::Millis(40), 12.5e6});
  CHECK(*ParseWanShape(FormatWanShape(*shape), "wan.toml") == *shape);
}

TEST_CASE("Scenario: measured links are judged by what one pair of nodes gets", "[sim][emulate]") {
  const auto parsed = [](const std::string& rest) {
    const auto scenario =
        ParseScenario("text = \"words.txt\"\n" + std::string(kHead) + rest, "s.toml");
    REQUIRE(scenario.ok());
    return *scenario;
  };
  const auto links = [&](const std::string& rest) { return ConfiguredLinks(parsed(rest)); };
  const auto flows = links(std::string(kFlows) + kNodes);
  const auto shape = WanShapeOf(parsed(std::string(kFlows) + kNodes));
  REQUIRE(shape.ok());
  REQUIRE(flows.size() == shape->regions.size() * shape->regions.size());
  for (const RegionLink& link : flows) CHECK(link.link == *shape->Between(link.from, link.to));
  CHECK(
      links("[pair_default]\nloss = 0.01\njitter_ms = 2\n" + std::string(kFlows) + kNodes).size() ==
      flows.size());
  // Nodes of different lines, or of one: no figure holds for all pairs of two regions.
  CHECK(links(std::string(kFlows) + kNodes + "class = \"home\"\n").empty());
  CHECK(links(std::string(kFlows) + kNodes + "count = 2\nshared = true\n").empty());
}

}  // namespace
}  // namespace skerry
