#include "sim/skippipe_case.h"

#include <catch2/catch.hpp>
#include <string>

#include "routing/skippipe_evaluator.h"
#include "routing/skippipe_simulator.h"

namespace skerry {
namespace {

SkipPipeCase Read(const std::string& name) {
  auto result = ReadSkipPipeCase(std::string(SKERRY_CASES) + "/" + name + ".json");
  INFO(result.status().ToString());
  REQUIRE(result.ok());
  return *result;
}

const std::string kShipped = "gcp12_20n_6s_skip33_shipped";
const std::string k500M = "gcp12_20n_6s_skip33_500M";
const std::string kAws = "v1_aws11_18n_4s_skip25";

TEST_CASE("SkipPipe's expected times of its own schedules come out to the last digit",
          "[sim][skippipe]") {
  const SkipPipeCase from = Read(GENERATE(kShipped, k500M, kAws));
  REQUIRE(from.references.size() == 4);
  SkipPipeSimulator simulator(from.problem);

  for (const SkipPipeReference& reference : from.references) {
    INFO(from.name << " " << reference.method);
    CHECK(simulator.Run(reference.schedule).end_s == Approx(reference.expected_s).epsilon(1e-14));
  }
}

TEST_CASE("The published time of 300 s is of a schedule that lost microbatches",
          "[sim][skippipe]") {
  const SkipPipeCase from = Read(k500M);
  SkipPipeSimulator simulator(from.problem);

  CHECK(simulator.Run(from.Find("random")->schedule).lost > 0);
  for (const char* method : {"baseline", "ca", "nonca"}) {
    CHECK(simulator.Run(from.Find(method)->schedule).lost == 0);
  }
}

TEST_CASE("Without the artefacts of time steps most of SkipPipe's schedules take exactly as long",
          "[sim][skippipe]") {
  const SkipPipeCase from = Read(GENERATE(kShipped, k500M, kAws));
  SkipPipeEvaluator evaluator(from.problem);
  SkipPipeSimulator simulator(from.problem);

  int32_t equal = 0;
  for (const SkipPipeReference& reference : from.references) {
    INFO(from.name << " " << reference.method);
    if (simulator.Run(reference.schedule).lost > 0) continue;
    const double seconds = evaluator.IterationSeconds(Flatten(reference.schedule));
    CHECK(seconds == Approx(reference.expected_s).epsilon(0.031));
    equal += seconds == Approx(reference.expected_s).epsilon(1e-14) ? 1 : 0;
  }
  CHECK(equal >= (from.name == kShipped ? 4 : 1));
}

TEST_CASE("A case that is not one says what is wrong with it", "[sim][skippipe][error]") {
  const auto missing = ParseSkipPipeCase(R"({"input": {"partition_sizes": [1, 1]}})");
  CHECK(missing.status().ToString().find("path_length") != std::string::npos);

  const auto sizes = ParseSkipPipeCase(R"({"input": {"partition_sizes": [1, 2], "path_length": 2,
      "memory_per_node_microbatches": 1, "waves": 1, "fwd_time_s": [1, 1],
      "comm_cost_s": [[0, 1], [1, 0]]}})");
  CHECK(sizes.status().ToString().find("add up to 3") != std::string::npos);

  CHECK(absl::IsNotFound(ReadSkipPipeCase("/nowhere.json").status()));
}

}  // namespace
}  // namespace skerry
