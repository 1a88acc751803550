// What a plan says of a step whose rounds are not hidden, beside the steps that are run.
#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/sharded_fleet.h"

using namespace skerry;
using skerry::testing::EightNodes;
using skerry::testing::EndOf;

namespace {

constexpr int32_t kMembers = 3;

int32_t SiteOf(const NodeId& id, int32_t sites) {
  for (int32_t i = 0; i < sites * kMembers; ++i) {
    if (VirtualRun::node(i) == id) return i / kMembers;
  }
  return -1;  // the coordinator's
}

// One stage of so many sites of three, each pair of nodes with a way of its own.
VirtualRunOptions Sites(int32_t sites, OuterReduce reduce) {
  VirtualRunOptions options = EightNodes();
  options.config.steps = 24;
  options.config.nodes_min = sites * kMembers;
  options.nodes.front().device.gflops = 0.5;
  options.nodes.assign(static_cast<size_t>(sites * kMembers), options.nodes.front());
  options.config.pipeline.stages = 1;
  options.config.pipeline.microbatches_per_step = sites * kMembers;
  options.config.outer.inner_steps = 4;
  options.config.outer.overlap_steps = 1;
  options.config.outer.reduce = reduce;
  options.config.cluster = {"measured", 400, 5};
  options.tests_lines = true;
  options.link = [sites](const NodeId& from, const NodeId& to) {
    const int32_t site = SiteOf(from, sites);
    const bool is_near = site >= 0 && site == SiteOf(to, sites);
    return SimLink{.one_way = Duration::Millis(is_near ? 1 : 20),
                   .bytes_per_s = is_near ? 1.25e8 : 1.25e6,
                   .jitter = {}};
  };
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
