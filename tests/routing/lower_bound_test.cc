#include "routing/lower_bound.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <numeric>

#include "common/rng.h"
#include "routing/assignment.h"
#include "tests/routing/fleets.h"

namespace skerry {
namespace {

// Two replicas of each of three stages, random speeds, links and paths.
struct Instance {
  Workload workload;
  Fleet fleet;
};
Instance Random(uint64_t seed) {
  Rng rng(seed, "instance");
  Instance instance;
  instance.workload.stage_of_slot = {0, 0, 1, 1, 2, 2};
  instance.workload.forward_flops = {kSecond, 0.8 * kSecond, 0.9 * kSecond};
  instance.workload.loss_flops = 0.3 * kSecond;
  if (seed % 2 == 0) instance.workload.step_flops = {0.7 * kSecond, 0.4 * kSecond, 0.5 * kSecond};
  instance.workload.in_flight = 1 + static_cast<int32_t>(rng.Below(3));
  instance.workload.steps = 2;
  for (int32_t m = 0; m < 8; ++m) {
    Workload::Microbatch microbatch{m / 4, {m % 2}};
    const auto replica = [&] { return static_cast<int32_t>(rng.Below(2)); };
    if (rng.Below(4) != 0) microbatch.slots.push_back(2 + replica());
    microbatch.slots.push_back(4 + replica());
    instance.workload.microbatches.push_back(microbatch);
  }
  instance.fleet = EvenFleet(6, 0, 0);
  for (double& gflops : instance.fleet.gflops) gflops = 0.5 + 2 * rng.Uniform();
  for (double& latency : instance.fleet.latency_s) latency = 3 * rng.Uniform();
  for (double& wire : instance.fleet.wire_s) wire = rng.Uniform();
  return instance;
}

TEST_CASE("Bounds: no placement of a small instance is faster than they say", "[routing]") {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    const Instance instance = Random(seed);
    Evaluator evaluator(instance.workload, instance.fleet);
    Placement placement(6);
    std::iota(placement.begin(), placement.end(), 0);
    const double any = AnyPlacementBound(instance.workload, instance.fleet);
    double best = std::numeric_limits<double>::infinity();
    double tightest = 0;
    do {
      const double step_s = evaluator.StepSeconds(placement);
      const double bound = PlacementBound(instance.workload, instance.fleet, placement);
      REQUIRE(bound <= step_s * (1 + 1e-12));
      best = std::min(best, step_s);
      tightest = std::max(tightest, bound / step_s);
    } while (std::next_permutation(placement.begin(), placement.end()));
    CAPTURE(seed);
    CHECK(any <= best);
    CHECK(any > 0.3 * best);  // and they say something
    CHECK(tightest > 0.7);
  }
}

TEST_CASE("Bounds: a single microbatch without queues is bounded by itself", "[routing]") {
  Workload workload;
  workload.stage_of_slot = {0, 1};
  workload.forward_flops = {kSecond, kSecond};
  workload.loss_flops = 0.5 * kSecond;
  workload.microbatches = {{0, {0, 1}}};
  const Fleet fleet = EvenFleet(2, 0.5, 0.25);

  CHECK(PlacementBound(workload, fleet, {0, 1}) == Approx(9.5));
  CHECK(AnyPlacementBound(workload, fleet) == Approx(9.5));
  workload.step_flops = {0.5 * kSecond, kSecond};
  CHECK(PlacementBound(workload, fleet, {0, 1}) == Approx(10));
  CHECK(AnyPlacementBound(workload, fleet) == Approx(10));
  CHECK(Evaluator(workload, fleet).StepSeconds({0, 1}) == Approx(10));
}

TEST_CASE("Assignment: agrees with trying every permutation", "[routing]") {
  Rng rng(3, "assignment");
  for (int round = 0; round < 20; ++round) {
    std::vector<double> cost(4 * 5);
    for (double& value : cost) value = rng.Uniform();
    std::vector<size_t> columns = {0, 1, 2, 3, 4};
    double least = std::numeric_limits<double>::infinity();
    do {
      double total = 0;
      for (size_t row = 0; row < 4; ++row) total += cost[row * 5 + columns[row]];
      least = std::min(least, total);
    } while (std::next_permutation(columns.begin(), columns.end()));
    CHECK(LeastAssignment(cost, 4, 5) == Approx(least));
  }
}

}  // namespace
}  // namespace skerry
