// Strategies side by side on the same seeds, and changes of a configuration by name.
#include "sim/compare.h"

#include <catch2/catch.hpp>
#include <set>

#include "sim/config_change.h"
#include "sim/scenario_run.h"
#include "tests/sim/two_cities.h"

namespace skerry {
namespace {

std::string ErrorOf(const absl::Status& status) {
  REQUIRE_FALSE(status.ok());
  return std::string(status.message());
}

void LastFirst(size_t jobs, const std::function<void(size_t job)>& run) {
  for (size_t job = jobs; job > 0; --job) run(job - 1);
}

Comparison Compared(const std::string& strategies, int64_t seeds, const Executor& executor) {
  const Scenario scenario = TwoCities();
  const auto chosen = ChooseStrategies(scenario.run, strategies, {});
  INFO(chosen.status().message());
  REQUIRE(chosen.ok());
  auto comparison = Compare(scenario, *chosen, {.first_seed = 3, .seeds = seeds}, executor);
  INFO(comparison.status().message());
  REQUIRE(comparison.ok());
  return *std::move(comparison);
}

const CompareFigure& Figure(const std::string& key) {
  for (const CompareFigure& figure : kCompareFigures)
    if (key == figure.key) return figure;
  FAIL(key);
  return kCompareFigures[0];
}

TEST_CASE("Config change: one key by its name in run.toml, held to its range", "[sim][compare]") {
  RunConfig config;
  REQUIRE(
      ApplyConfigChanges({"outer.codec=int4", "pipeline.skip_ratio = 0.33", "run.seed=9"}, config)
          .ok());
  CHECK(config.outer.codec == DeltaCodec::kInt4);
  CHECK(config.pipeline.skip_ratio == 0.33);
  CHECK(config.seed == 9);

  const RunConfig before = config;
  CHECK(ErrorOf(ApplyConfigChange("outer.codek=int4", config)).find("nearest is 'outer.codec'") !=
        std::string::npos);
  CHECK(ErrorOf(ApplyConfigChange("outer.codec=int5", config)).find("ternary") !=
        std::string::npos);
  CHECK_FALSE(ApplyConfigChange("pipeline.skip_ratio=0.6", config).ok());
  CHECK_FALSE(ApplyConfigChange("run.steps=1.5", config).ok());
  CHECK_FALSE(ApplyConfigChange("run.steps=", config).ok());
  CHECK_FALSE(ApplyConfigChange("model.tied_head=perhaps", config).ok());
  CHECK_FALSE(ApplyConfigChanges({"outer.overlap_steps=17"}, config).ok());  // more than τ
  CHECK(config == before);
}

TEST_CASE("Strategies: every built-in one fits every shape of run", "[sim][compare]") {
  RunConfig config;
  const int64_t inner_steps = GENERATE(1, 2, 16, 500);
  config.outer.inner_steps = inner_steps;
  config.outer.overlap_steps = 0;
  config.steps = 2 * inner_steps;
  const auto all = ChooseStrategies(config, "all", {});
  INFO(all.status().message());
  REQUIRE(all.ok());

  std::set<std::string> names;
  for (const Strategy& strategy : *all) names.insert(strategy.name);
  CHECK(names.size() == all->size());
  CHECK(all->front().name == "as_is");
  CHECK(ChooseStrategies(config, "codecs", {})->size() == 8);
}

TEST_CASE("Strategies: a name or key that nobody knows is told its nearest", "[sim][compare]") {
  const RunConfig config;
  CHECK(ErrorOf(ChooseStrategies(config, "skip51", {}).status()).find("nearest is 'skip50'") !=
        std::string::npos);
  CHECK(ErrorOf(ChooseStrategies(config, "", {"mine:pipeline.swap=1"}).status())
            .find("nearest is 'pipeline.swaps'") != std::string::npos);
  CHECK_FALSE(ChooseStrategies(config, "", {"mine"}).ok());
  CHECK_FALSE(ChooseStrategies(config, "", {}).ok());
  const auto mine =
      ChooseStrategies(config, "in_order", {"mine:pipeline.skip_ratio=0.33,outer.codec=int4"});
  REQUIRE(mine.ok());
  CHECK(mine->back().changes.size() == 2);
}

TEST_CASE("Compare: what is different differs, seed by seed, whatever the order of runs",
          "[sim][compare]") {
  const Comparison comparison = Compared("uncompressed,int4,synchronous", 2, OneAfterAnother);
  const Comparison again = Compared("uncompressed,int4,synchronous", 2, LastFirst);
  const StrategyCells &uncompressed = comparison.strategies[0], &int4 = comparison.strategies[1];

  for (size_t s = 0; s < 3; ++s) {
    for (size_t seed = 0; seed < 2; ++seed) {
      const CompareCell& cell = comparison.strategies[s].cells[seed];
      CHECK(cell.wrong == "");
      CHECK(cell.seed == 3 + seed);
      CHECK(cell.trace_hash == again.strategies[s].cells[seed].trace_hash);
    }
  }
  CHECK(int4.cells[0].trace_hash != int4.cells[1].trace_hash);
  CHECK(ChangeOf(int4, uncompressed, Figure("bytes_per_token")).high < -0.02);
  CHECK(comparison.strategies[2].cells[0].hidden_fraction < int4.cells[0].hidden_fraction);

  // One cell is what `skerry-sim run` does with that seed.
  Scenario alone = TwoCities();
  alone.run.seed += 2;
  REQUIRE(ApplyConfigChanges({"outer.codec=int4"}, alone.run).ok());
  CHECK((*MakeScenarioRun(alone, {.seed = 3}))->Run().trace_hash == int4.cells[0].trace_hash);
}

TEST_CASE("Compare: differences are paired, and what went wrong is left out", "[sim][compare]") {
  const auto cells = [](std::vector<double> steps) {
    StrategyCells strategy;
    for (const double step_s : steps) strategy.cells.emplace_back().step_s = step_s;
    return strategy;
  };
  const StrategyCells base = cells({1, 10, 100, 1});
  StrategyCells other = cells({2, 15, 110, 77});
  other.cells[3].wrong = "it did not finish";

  const Spread change = ChangeOf(other, base, Figure("step_s"));
  CHECK(change.median == Approx(0.5));
  CHECK(change.low == Approx(0.1));
  CHECK(change.high == Approx(1.0));
  CHECK(SpreadOf(other, Figure("step_s")).high == 110);
}

TEST_CASE("Compare: the page needs nothing else, and names are only text on it",
          "[sim][compare][html]") {
  Comparison comparison;
  comparison.scenario = "a < b";
  for (const char* name : {"first", "<script>"}) {
    StrategyCells strategy;
    strategy.strategy.name = name;
    for (const double step_s : {1.0, 1.5}) strategy.cells.emplace_back().step_s = step_s;
    comparison.strategies.push_back(strategy);
  }
  comparison.strategies[1].cells[1].wrong = "liveness: nothing for 60 s";
  const std::string html = CompareHtml(comparison);

  CHECK(html.find("a &lt; b") != std::string::npos);
  CHECK(html.find("&lt;script&gt;") != std::string::npos);
  CHECK(html.find("<script") == std::string::npos);
  CHECK(html.find("http") == std::string::npos);
  CHECK(html.find("liveness: nothing for 60 s") != std::string::npos);
  CHECK(html.find("nan") == std::string::npos);
  CHECK(html.find("loss, nat") == std::string::npos);  // nothing was computed
  CHECK(CompareTable(comparison).find("! <script>, seed 0: liveness") != std::string::npos);
}

}  // namespace
}  // namespace skerry
