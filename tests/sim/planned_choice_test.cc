// Runs that leave to the planner what it can choose: τ, δ, codec, links that are compressed.

#include <catch2/catch.hpp>
#include <set>

#include "sim/scenario_run.h"
#include "tests/sim/two_cities.h"

using namespace skerry;

namespace {

struct Ran {
  VirtualOutcome outcome;
  PipelinePlan plan;
};

Ran RunOf(const Scenario& scenario, bool real_math) {
  auto run = MakeScenarioRun(scenario, {.real_math = real_math});
  INFO(run.status().message());
  REQUIRE(run.ok());
  Ran ran;
  ran.outcome = (*run)->Run();
  REQUIRE((*run)->checkers().state().plan);
  ran.plan = *(*run)->checkers().state().plan;
  return ran;
}

Scenario AllOnAuto() {
  Scenario scenario = TwoCities();
  scenario.run.steps = 96;
  scenario.run.outer.inner_steps = 0;
  scenario.run.outer.overlap_steps = -1;
  scenario.run.outer.tier = OuterTier::kAuto;
  return scenario;
}

// Bytes limit it: a payload takes 0.4 s between the cities, a pass some hundredths.
Scenario NarrowCities(DeltaCodec codec) {
  Scenario scenario = TwoCities();
  for (PathSpec& path : scenario.network.paths) path.bytes_per_s /= 20;
  scenario.run.pipeline.slow_link_codec = codec;
  return scenario;
}

std::string FirstViolation(const VirtualOutcome& outcome) {
  return outcome.violations.empty()
             ? ""
             : outcome.violations.front().rule + ": " + outcome.violations.front().what;
}

}  // namespace

TEST_CASE("Everything on auto: the planner chooses, and the run trains with that",
          "[sim][scenario]") {
  const bool real_math = GENERATE(false, true);
  const Ran ran = RunOf(AllOnAuto(), real_math);
  CHECK(ran.plan.settings.inner_steps == 8);
  CHECK(ran.plan.settings.overlap_steps >= 1);
  CHECK(ran.plan.settings.overlap_steps <= 2);
  CHECK(ran.plan.settings.has_codec);
  CHECK(ran.outcome.finished);
  CHECK(ran.outcome.rounds == 12);
  CHECK(FirstViolation(ran.outcome) == "");
  CHECK(ran.outcome.hidden_fraction > 0.9);  // nothing hides the last round
  if (real_math) CHECK(ran.outcome.loss_last < 0.9 * ran.outcome.loss_first);
}

TEST_CASE("Everything on auto: the coordinator comes back to the same choice", "[sim][scenario]") {
  Scenario scenario = AllOnAuto();
  const Ran calm = RunOf(scenario, true);
  Fault crash;
  crash.kind = FaultKind::kCoordinatorCrash;
  crash.at_record = 70;  // after the plan
  crash.lasts = Duration::Seconds(3);
  scenario.faults.push_back(crash);
  const Ran troubled = RunOf(scenario, true);
  CHECK(troubled.outcome.finished);
  CHECK(FirstViolation(troubled.outcome) == "");
  CHECK(troubled.plan.settings == calm.plan.settings);
}

TEST_CASE("Slow links: compressed payloads make steps shorter and cost hardly any loss",
          "[sim][scenario]") {
  const DeltaCodec codec = GENERATE(DeltaCodec::kBf16, DeltaCodec::kInt8);
  const Ran plain = RunOf(NarrowCities(DeltaCodec::kNone), true);
  const Ran compressed = RunOf(NarrowCities(codec), true);
  CHECK(plain.plan.slow_links.empty());
  CHECK_FALSE(compressed.plan.slow_links.empty());
  CHECK(compressed.outcome.finished);
  CHECK(FirstViolation(compressed.outcome) == "");
  CHECK(compressed.outcome.step_s < 0.9 * plain.outcome.step_s);
  CHECK(compressed.outcome.bytes_sent < plain.outcome.bytes_sent);
  CHECK(compressed.outcome.loss_last < 0.9 * compressed.outcome.loss_first);
  CHECK(compressed.outcome.loss_last != plain.outcome.loss_last);  // it was really used
  CHECK(compressed.outcome.loss_last == Approx(plain.outcome.loss_last).epsilon(0.02));
}

TEST_CASE("Slow links: a node of one may die", "[sim][scenario]") {
  Scenario scenario = NarrowCities(DeltaCodec::kInt8);
  const Ran calm = RunOf(scenario, true);
  REQUIRE_FALSE(calm.plan.slow_links.empty());
  Fault crash;
  crash.kind = FaultKind::kCrash;
  crash.at = Instant() + Duration::Seconds(calm.outcome.virtual_s / 2);
  // Node i of the run is number i + 1 of the scenario.
  for (int32_t i = 0; i < 8; ++i) {
    if (VirtualRun::node(i) != calm.plan.slow_links.front().to) continue;
    crash.where = {FaultEnd::Kind::kNode, i + 1};
  }
  scenario.faults.push_back(crash);
  const Ran troubled = RunOf(scenario, true);
  CHECK(troubled.outcome.finished);
  CHECK(FirstViolation(troubled.outcome) == "");
  CHECK(troubled.outcome.loss_last == Approx(calm.outcome.loss_last).epsilon(0.15));
}
