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
    CHECK(simulator.IterationSeconds(reference.schedule) ==
          Approx(reference.expected_s).epsilon(1e-14));
  }
}

TEST_CASE("Without the artefacts of time steps SkipPipe's schedules take the same to within 0.7 %",
          "[sim][skippipe]") {
  const SkipPipeCase from = Read(GENERATE(kShipped, k500M, kAws));
  SkipPipeEvaluator evaluator(from.problem);

  for (const SkipPipeReference& reference : from.references) {
    INFO(from.name << " " << reference.method);
    CHECK(evaluator.IterationSeconds(Flatten(reference.schedule)) ==
          Approx(reference.expected_s).epsilon(0.007));
  }
}

}  // namespace
}  // namespace skerry
