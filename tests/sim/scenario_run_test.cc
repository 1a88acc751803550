// Scenarios on virtual time: the production coordinator and nodes, their network, faults and churn.

#include "sim/scenario_run.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/sim/two_cities.h"

using namespace skerry;

namespace {

Scenario Parsed(const std::string& more = "") {
  return TwoCities(more);
}

VirtualOutcome Ran(const Scenario& scenario, const ScenarioRunOptions& options = {}) {
  auto run = MakeScenarioRun(scenario, options);
  INFO(run.status().message());
  REQUIRE(run.ok());
  return (*run)->Run();
}

std::string FirstViolation(const VirtualOutcome& outcome) {
  return outcome.violations.empty()
             ? ""
             : outcome.violations.front().rule + ": " + outcome.violations.front().what;
}

}  // namespace

TEST_CASE("Scenario run: one seed gives one trace, and a whole run under every checker",
          "[sim][scenario]") {
  const VirtualOutcome outcome = Ran(Parsed());

  CHECK(outcome.finished);
  CHECK(outcome.steps == 24);
  CHECK(outcome.rounds == 3);
  CHECK(outcome.tokens == 24 * 8 * 2 * 256);
  CHECK(FirstViolation(outcome) == "");
  CHECK(Ran(Parsed()).trace_hash == outcome.trace_hash);
  CHECK(Ran(Parsed(), {.seed = 2}).trace_hash != outcome.trace_hash);
}

TEST_CASE("Scenario run: on a slower network the same steps take longer", "[sim][scenario]") {
  Scenario slow = Parsed();
  for (PathSpec& path : slow.network.paths) path.bytes_per_s /= 10;
  CHECK(Ran(slow).step_s > 2 * Ran(Parsed()).step_s);
}

TEST_CASE("Scenario run: with real mathematics the loss falls, whatever fails meanwhile",
          "[sim][scenario]") {
  const VirtualOutcome calm = Ran(Parsed(), {.real_math = true});
  const VirtualOutcome troubled = Ran(Parsed(R"(
[[fault]]
kind = "crash"
at_s = 22
node = 3
[[fault]]
kind = "coordinator_crash"
at_s = 24
for_s = 6
)"),
                                      {.real_math = true});

  for (const VirtualOutcome* outcome : {&calm, &troubled}) {
    CHECK(outcome->finished);
    CHECK(FirstViolation(*outcome) == "");
    CHECK(outcome->loss_last < 0.9 * outcome->loss_first);
  }
  CHECK(troubled.loss_last < 1.15 * calm.loss_last);
}

TEST_CASE("Scenario run: the coordinator may die at any record of its journal", "[sim][scenario]") {
  const int64_t record = GENERATE(1, 5, 20, 60, 66, 70, 90, 120);
  const VirtualOutcome outcome =
      Ran(Parsed("[[fault]]\nkind = \"coordinator_crash\"\nfor_s = 3\nat_record = " +
                 std::to_string(record) + "\n"));
  INFO("record " << record << ": " << outcome.ended);
  CHECK(outcome.finished);
  CHECK(FirstViolation(outcome) == "");
}

TEST_CASE("Scenario run: a node that lies about its delta is found out", "[sim][scenario]") {
  const Scenario lying = Parsed("[[fault]]\nkind = \"poisoned_delta\"\nat_s = 1\nnode = 2\n");
  auto run = MakeScenarioRun(lying, {});
  REQUIRE(run.ok());
  const VirtualOutcome outcome = (*run)->Run();

  CHECK(FirstViolation(outcome) == "");
  const bool noticed =
      std::any_of((*run)->events().begin(), (*run)->events().end(),
                  [](const VirtualEvent& event) { return event.kind == "digest_mismatch"; });
  CHECK(noticed);
}

TEST_CASE("Scenario run: who shares an uplink is found, if the coordinator is to look",
          "[sim][scenario]") {
  std::string text = kTwoCities;
  const auto replace = [&](const std::string& what, const std::string& with) {
    text.replace(text.find(what), what.size(), with);
  };
  replace("rate_mbps = 400", "unlimited = true\nflow_cap_mbps = 100");
  replace("count = 4", "count = 4\nshared = true\nup_mbps = 40\ndown_mbps = 1000");
  replace("[run]", "[coordinator]\ntests_lines = true\n[run]");
  const auto scenario = ParseScenario(text, "scenario.toml");
  INFO(scenario.status().message());
  REQUIRE(scenario.ok());
  // One reading through a jittery path is off by up to a quarter.
  std::vector<double> rates;
  for (uint64_t seed = 1; seed <= 9; ++seed) {
    ScenarioRunOptions options;
    options.seed = seed;
    auto run = MakeScenarioRun(*scenario, options);
    REQUIRE(run.ok());
    CHECK((*run)->Run().finished);
    std::vector<nlohmann::json> told;
    for (const VirtualEvent& event : (*run)->events()) {
      if (event.kind == "line") told.push_back(nlohmann::json::parse("{" + event.fields + "}"));
    }
    REQUIRE(told.size() == 2);
    CHECK(told[0]["sharing"].size() == 4);
    CHECK(told[1]["sharing"].empty());
    rates.push_back(told[0]["mbps"].get<double>());
    CHECK(rates.back() == Approx(40).epsilon(0.3));
  }
  std::sort(rates.begin(), rates.end());
  CHECK(rates[rates.size() / 2] == Approx(40).epsilon(0.15));
}

TEST_CASE("Scenario run: a figure that is missed is named with what was wanted",
          "[sim][scenario]") {
  Scenario scenario = Parsed("[expect]\nstep_s_max = 0.000001\n");
  const auto missed = MissedExpectations(scenario, Ran(scenario));
  REQUIRE(missed.size() == 1);
  CHECK(missed.front().find("step_s_max") != std::string::npos);
}
