#include "pipeline/plan/slow_links.h"

#include <catch2/catch.hpp>

namespace skerry {
namespace {

// Three stages of one node each; two microbatches a step, one in flight. A task forward takes 1 s,
// a payload `near_s` but on 1 -> 2, where it takes `far_s`.
struct Line {
  Workload workload;
  Fleet fleet;
  Placement placement = {0, 1, 2};

  Line(double near_s, double far_s) {
    workload.stage_of_slot = {0, 1, 2};
    workload.forward_flops = {1e9, 1e9, 1e9};
    workload.steps = 2;
    workload.microbatches = {{0, {0, 1, 2}}, {0, {0, 1, 2}}, {1, {0, 1, 2}}, {1, {0, 1, 2}}};
    fleet.gflops = {1, 1, 1};
    fleet.latency_s.assign(9, 0.01);
    fleet.wire_s.assign(9, near_s);
    fleet.wire_s[fleet.Pair(1, 2)] = far_s;
  }
  double StepWith(const std::vector<SlotLink>& links, double share) const {
    const Fleet shrunk = WithSlowLinks(fleet, placement, links, share);
    return Evaluator(workload, shrunk).StepSeconds(placement);
  }
};

TEST_CASE("Slow links: only the link that limits is named, and only its direction", "[plan]") {
  const Line line(0.001, 5);
  const auto links = ChooseSlowLinks(line.workload, line.fleet, line.placement, 0.5);
  CHECK(links == std::vector<SlotLink>{{1, 2}});
  // Two microbatches a step pass it once, one after the other.
  CHECK(line.StepWith({}, 0.5) - line.StepWith(links, 0.5) == Approx(5.0));
}

TEST_CASE("Slow links: none where computing limits, and none for a run without a codec", "[plan]") {
  const Line quick(0.001, 0.002);
  CHECK(ChooseSlowLinks(quick.workload, quick.fleet, quick.placement, 0.25).empty());
  const Line slow(5, 5);
  CHECK(ChooseSlowLinks(slow.workload, slow.fleet, slow.placement, 1).empty());
  CHECK(SlowLinkShare(RunConfig()) == 1);
}

TEST_CASE("Slow links: ways that are equally slow are found together", "[plan]") {
  // Two lanes that do not meet: shortening one alone gains nothing.
  Workload workload;
  workload.stage_of_slot = {0, 0, 1, 1};
  workload.forward_flops = {1e9, 1e9};
  workload.steps = 2;
  workload.microbatches = {{0, {0, 2}}, {0, {1, 3}}, {1, {0, 2}}, {1, {1, 3}}};
  Fleet fleet;
  fleet.gflops.assign(4, 1);
  fleet.latency_s.assign(16, 0.01);
  fleet.wire_s.assign(16, 0.001);
  fleet.wire_s[fleet.Pair(0, 2)] = 4;
  fleet.wire_s[fleet.Pair(1, 3)] = 4;
  const auto links = ChooseSlowLinks(workload, fleet, {0, 1, 2, 3}, 0.5);
  CHECK(links == std::vector<SlotLink>{{0, 2}, {1, 3}});
}

TEST_CASE("Slow links: shares are those of the codecs", "[plan]") {
  RunConfig config;
  config.pipeline.slow_link_codec = DeltaCodec::kBf16;
  CHECK(SlowLinkShare(config) == 0.5);
  config.pipeline.slow_link_codec = DeltaCodec::kInt8;
  CHECK(SlowLinkShare(config) == Approx(0.251).margin(0.001));
}

}  // namespace
}  // namespace skerry
