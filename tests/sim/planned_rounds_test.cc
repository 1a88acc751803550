// What a plan says of a step whose rounds are not hidden, beside the steps that are run.
#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/sites_of_three.h"

using namespace skerry;
using skerry::testing::EndOf;
using skerry::testing::SitesOfThree;

namespace {

VirtualRunOptions Sites(int32_t sites, OuterReduce reduce) {
  VirtualRunOptions options = SitesOfThree(sites);
  for (VirtualNode& node : options.nodes) node.device.gflops = 0.5;
  options.config.outer.overlap_steps = 1;
  options.config.outer.reduce = reduce;
  options.tests_lines = true;
  return options;
}

struct Told {
  double planned_s = 0;
  double mean_s = 0;  // of whole rounds, the first two and the last left out
};

Told Train(VirtualRunOptions options) {
  const auto inner_steps = static_cast<size_t>(options.config.outer.inner_steps);
  VirtualRun run(std::move(options));
  CHECK(EndOf(run, run.Run()) == "");
  std::vector<double> ends;
  for (const VirtualEvent& event : run.events()) {
    if (event.kind == "step") ends.push_back((event.at - Instant()).seconds());
  }
  const size_t first = 2 * inner_steps - 1, last = ends.size() - inner_steps - 1;
  REQUIRE(first < last);
  return {run.checkers().state().predicted_step_s,
          (ends[last] - ends[first]) / static_cast<double>(last - first)};
}

}  // namespace

TEST_CASE("A plan's step has the rounds that speakers run, whose messages go at once",
          "[sim][cohorts][plan]") {
  const OuterReduce reduce = GENERATE(OuterReduce::kAll, OuterReduce::kSharded);
  const int32_t sites = GENERATE(3, 8);
  const Told told = Train(Sites(sites, reduce));
  INFO(sites << " sites" << (reduce == OuterReduce::kAll ? ", all to all" : ", sharded")
             << ", planned " << told.planned_s << ", run " << told.mean_s);
  CHECK(told.planned_s / told.mean_s == Approx(1).epsilon(0.2));
}
