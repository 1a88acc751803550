#include "sim/plan_comparison.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "coordinator/run_templates.h"
#include "sim/plan_report.h"
#include "sim/plan_topology.h"
#include "sim/scenario.h"

namespace skerry {
namespace {

PlanComparison Compare(const std::string& name) {
  const auto scenario = LoadScenario(std::string(SKERRY_SCENARIO_DIR) + "/" + name);
  REQUIRE(scenario.ok());
  ComparisonOptions options;
  options.strategies = {"in-order", "dt-fm", "swarm", "skippipe"};
  double now = 0;
  options.seconds = [&now] { return now += 0.001; };
  auto comparison = ComparePlans(*scenario, scenario->run, options);
  INFO(comparison.status().ToString());
  REQUIRE(comparison.ok());
  return *std::move(comparison);
}

TEST_CASE("A plan knows who shares an uplink, if the scenario's coordinator looks", "[sim][plan]") {
  auto scenario = LoadScenario(std::string(SKERRY_SCENARIO_DIR) + "/two_universities");
  REQUIRE(scenario.ok());
  for (const bool tests : {false, true}) {
    scenario->tests_lines = tests;
    const auto topology = TopologyOf(*scenario, scenario->run);
    REQUIRE(topology.ok());
    const LinkMatrix& links = topology->input.links;
    std::map<int32_t, int> sharing;
    for (int32_t node = 0; node < links.size(); ++node) ++sharing[links.LineOf(node)];
    // Two laboratories of six behind 1 Gbit/s; the machine rooms' uplinks are in nobody's way.
    const auto laboratories = std::count_if(sharing.begin(), sharing.end(), [&](const auto& line) {
      return line.first >= 0 && line.second == 6;
    });
    CHECK(laboratories == (tests ? 2 : 0));
    if (tests) CHECK(links.LineRate(links.LineOf(0)) == Approx(125e6));
  }
}

TEST_CASE("A plan knows what a node carries to several at once, where there are cohorts",
          "[sim][plan]") {
  auto scenario = LoadScenario(std::string(SKERRY_SCENARIO_DIR) + "/three_rooms");
  REQUIRE(scenario.ok());
  for (const auto* groups : {"measured", "off"}) {
    RunConfig run = scenario->run;
    run.cluster.groups = groups;
    const auto topology = TopologyOf(*scenario, run);
    REQUIRE(topology.ok());
    const LinkMatrix& links = topology->input.links;
    for (int32_t node = 0; node < links.size(); ++node) {
      REQUIRE(links.LineOf(node) >= 0);
      // Two flows of 100 Mbit/s, to each of two other rooms.
      CHECK(links.LineRate(links.LineOf(node)) == Approx(run.cluster.is_on() ? 25e6 : 0));
    }
  }
}

TEST_CASE("The plan shown is the coordinator's: the same time, taken apart without a rest",
          "[sim][plan]") {
  const PlanComparison comparison = Compare("three_regions");
  const auto planned = MakePlan(comparison.topology.input);
  REQUIRE(planned.ok());

  const ShownPlan& own = comparison.plans.front();
  CHECK(comparison.plan == planned->plan);
  CHECK(own.step_s() == Approx(planned->predicted_step_s).epsilon(1e-12));
  CHECK(comparison.lower_bound_s == planned->lower_bound_s);
  CHECK(own.bound_s <= own.evaluation.step_s);
  for (const ShownPlan& shown : comparison.plans) {
    INFO(shown.strategy);
    CHECK(shown.parts.total_s() == Approx(shown.evaluation.step_s).epsilon(1e-9));
    std::set<NodeId> nodes;
    for (int32_t slot = 0; slot < 8; ++slot) nodes.insert(shown.NodeOf(slot));
    CHECK(nodes.size() == 8);
  }
  CHECK(comparison.plans.size() + comparison.failed.size() == 5);
}

TEST_CASE("The JSON of a plan holds every node once and every strategy", "[sim][plan]") {
  const PlanComparison comparison = Compare("three_regions");
  const auto json = nlohmann::json::parse(PlanJson(comparison));

  std::set<int> nodes;
  for (const auto& stage : json["stages"]) {
    for (const auto& node : stage["nodes"]) nodes.insert(node["node"].get<int>());
  }
  CHECK(nodes.size() == 8);
  CHECK(json["plans"].size() == comparison.plans.size());
  CHECK(json["plans"][0]["strategy"] == "skerry");
  CHECK(json["gap"].get<double>() > 0);
  const RunConfig& run = comparison.topology.input.config;
  const double step_s = json["plans"][0]["step_s"].get<double>();
  const double tokens = json["tokens_per_step"].get<double>();
  CHECK(tokens == Approx(static_cast<double>(run.pipeline.microbatches_per_step) *
                         run.pipeline.sequences_per_microbatch * run.model.context));
  CHECK(json["tokens_per_day"].get<double>() == Approx(tokens * 86400 / step_s));
  CHECK(json["days"].get<double>() == Approx(static_cast<double>(run.steps) * step_s / 86400));
  CHECK(PlanText(comparison).find("what limits it") != std::string::npos);
}

TEST_CASE("Every template is planned for a described fleet, within its memory", "[sim][plan]") {
  const std::string name = GENERATE(from_range(TemplateNames()));
  // Its first stage needs 32 GiB with a single layer: more than aws33's cards have.
  const std::string fleet = name == "8b" ? "/two_universities" : "/aws33";
  const auto scenario = LoadScenario(SKERRY_SCENARIO_DIR + fleet);
  REQUIRE(scenario.ok());
  CAPTURE(name);
  const RunConfig run = *TemplateNamed(name, 32'000);
  ComparisonOptions options;
  options.seconds = [] { return 0.0; };

  const auto comparison = ComparePlans(*scenario, run, options);

  INFO(comparison.status().ToString());
  REQUIRE(comparison.ok());
  const auto json = nlohmann::json::parse(PlanJson(*comparison));
  for (const auto& stage : json["stages"]) {
    for (const auto& node : stage["nodes"]) CHECK(node["needs_bytes"] <= node["memory_bytes"]);
  }
  CHECK(json["tokens_per_step"] == run.pipeline.sequences_per_step * run.model.context);
  CHECK(json["tokens_per_day"].get<double>() > 1e6);
  const std::string text = TemplateText(run);
  for (const char* said : {"shape and rate: ", "learning rate ", "outer steps: every 16"}) {
    CHECK(text.find(said) != std::string::npos);
  }
}

}  // namespace
}  // namespace skerry
