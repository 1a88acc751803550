// The cheap ones of the shipped scenarios, run whole on virtual time: their [expect] figures and
// every checker hold. `skerry-sim run` checks the others in the same way.
#include <catch2/catch.hpp>
#include <string>

#include "sim/scenario_run.h"

namespace skerry {
namespace {

TEST_CASE("Shipped scenarios: the cheap ones reach the figures they promise", "[sim][shipped]") {
  const std::string name = GENERATE("three_regions", "gcp12", "two_universities");
  INFO(name);
  const auto scenario = LoadScenario(std::string(SKERRY_SCENARIO_DIR) + "/" + name);
  REQUIRE(scenario.ok());
  REQUIRE(scenario->expect != Expectations());
  auto run = MakeScenarioRun(*scenario, {.seed = 1, .keep_events = false});
  REQUIRE(run.ok());
  const VirtualOutcome outcome = (*run)->Run();

  CHECK(outcome.finished);
  for (const std::string& missed : MissedExpectations(*scenario, outcome)) FAIL_CHECK(missed);
  for (const Violation& v : outcome.violations) FAIL_CHECK(v.rule + ": " + v.what);

  // The figures are tight enough to notice a run that is ten times slower.
  VirtualOutcome slow = outcome;
  slow.step_s *= 10;
  slow.tokens_per_s /= 10;
  CHECK(MissedExpectations(*scenario, slow).size() >= 2);
}

// Of the same fleets with nothing befalling them: what a plan cannot know is no error of it.
TEST_CASE("Shipped scenarios: a step takes about as long as its plan said", "[sim][shipped]") {
  const auto [name, steps] = GENERATE(table<std::string, int>({{"three_regions", 48},
                                                               {"two_clusters", 48},
                                                               {"three_rooms", 16},
                                                               {"gcp12", 16},
                                                               {"spot_fleet", 32},
                                                               {"two_universities", 64},
                                                               {"dtfm_2", 16},
                                                               {"aws33", 32}}));
  INFO(name);
  auto scenario = LoadScenario(std::string(SKERRY_SCENARIO_DIR) + "/" + name);
  REQUIRE(scenario.ok());
  scenario->faults.clear();
  scenario->churn.clear();
  scenario->run.steps = steps;
  auto run = MakeScenarioRun(*scenario, {.seed = 1, .keep_events = false});
  REQUIRE(run.ok());
  const VirtualOutcome outcome = (*run)->Run();

  CHECK(outcome.finished);
  // Two in each cohort: what the last pass hides of their sums is a twelfth of a step.
  const double margin = std::string(name) == "two_clusters" ? 0.04 : 0.2;
  CHECK((*run)->checkers().state().predicted_step_s / outcome.step_s == Approx(1).margin(margin));
}

}  // namespace
}  // namespace skerry
