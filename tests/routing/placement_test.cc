#include "routing/placement.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <numeric>

#include "common/rng.h"
#include "routing/canonical_order.h"
#include "routing/coarse_placement.h"
#include "routing/even_placement.h"
#include "tests/routing/fleets.h"

namespace skerry {
namespace {

// 4 stages × 2 replicas on two islands of four nodes; nodes alternate between the islands.
PlacementProblem TwoIslands() {
  PlacementProblem problem;
  problem.workload.stage_of_slot = {0, 0, 1, 1, 2, 2, 3, 3};
  problem.workload.forward_flops.assign(4, 0.05 * kSecond);
  problem.workload.loss_flops = 0.02 * kSecond;
  problem.workload.in_flight = 2;
  for (int32_t m = 0; m < 8; ++m) {
    const int32_t column = m % 2;
    problem.workload.microbatches.push_back({0, {column, 2 + column, 4 + column, 6 + column}});
  }
  problem.fleet = EvenFleet(8, 0.001, 0.001);
  for (int32_t i = 0; i < 8; ++i) {
    for (int32_t j = 0; j < 8; ++j) {
      if (i % 2 != j % 2) problem.fleet.latency_s[problem.fleet.Pair(i, j)] = 0.5;
    }
  }
  problem.outer.delta_boundaries.assign(4, 1.0);
  return problem;
}

Placement Identity(size_t n) {
  Placement placement(n);
  std::iota(placement.begin(), placement.end(), 0);
  return placement;
}

Placement Shuffled(size_t n, uint64_t seed) {
  Placement placement = Identity(n);
  Rng rng(seed, "shuffle");
  for (size_t i = n; i > 1; --i) std::swap(placement[i - 1], placement[rng.Below(i)]);
  return placement;
}

TEST_CASE("Placement: straight paths end up inside islands", "[routing]") {
  const PlacementProblem problem = TwoIslands();
  Evaluator evaluator(problem.workload, problem.fleet);
  const Placement start = Shuffled(8, 1);

  const PlacementResult found = Place(problem, start, {.seed = 1, .evaluations = 3000});

  // The identity keeps every path on one island: nothing can be faster by more than the outer
  // traffic.
  CHECK(found.step_s == Approx(evaluator.StepSeconds(Identity(8))));
  CHECK(found.step_s < evaluator.StepSeconds(start) / 2);
  CHECK(found.step_s == evaluator.StepSeconds(found.placement));
  CHECK(std::is_permutation(start.begin(), start.end(), found.placement.begin()));
}

TEST_CASE("Even placement: one slow node does not meet another in a column", "[routing]") {
  // Two nodes are far from everybody, by 0.2 s; columns are alike. Their sum is least when both are
  // in one column, where each saves the other a long way, and a step waits for that column.
  PlacementProblem problem = TwoIslands();
  problem.fleet = EvenFleet(8, 0.001, 0.001);
  for (const int32_t far : {0, 1}) {
    for (int32_t j = 0; j < 8; ++j) {
      if (j == far) continue;
      problem.fleet.latency_s[problem.fleet.Pair(far, j)] = 0.2;
      problem.fleet.latency_s[problem.fleet.Pair(j, far)] = 0.2;
    }
  }
  const auto column_of = [](const Placement& placement, int32_t node) {
    return (std::find(placement.begin(), placement.end(), node) - placement.begin()) % 2;
  };
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const Placement coarse = CoarsePlacement(problem, Identity(8), seed, 16000);
    CHECK(column_of(coarse, 0) == column_of(coarse, 1));
    const Placement even = EvenPlacement(problem, Identity(8), seed, 16000);
    CHECK(column_of(even, 0) != column_of(even, 1));
    CHECK(EvenPlacement(problem, Identity(8), seed, 16000) == even);
  }
}

TEST_CASE("Placement: never worse than its start, the same every time", "[routing]") {
  PlacementProblem problem = TwoIslands();
  Rng rng(5, "links");
  for (double& latency : problem.fleet.latency_s) latency = rng.Uniform();
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const Placement start = Shuffled(8, seed);
    const PlacementOptions options{.seed = seed, .evaluations = 50};
    const PlacementResult found = Place(problem, start, options);
    const PlacementResult only_start = Place(problem, start, {.seed = seed, .evaluations = 1});
    CHECK(only_start.placement == start);
    CHECK(found.total_s() <= only_start.total_s());
    CHECK(found.evaluations <= options.evaluations);
    CHECK(Place(problem, start, options).placement == found.placement);
  }
}

TEST_CASE("Placement: a badly connected node gets a late, lightly used slot", "[routing]") {
  PlacementProblem problem = TwoIslands();
  problem.fleet = EvenFleet(8, 0.01, 0.001);
  for (int32_t j = 0; j < 8; ++j) {
    problem.fleet.latency_s[problem.fleet.Pair(0, j)] = 0.6;
    problem.fleet.latency_s[problem.fleet.Pair(j, 0)] = 0.6;
  }
  // Stage 3 is visited by half of the microbatches only.
  for (size_t m = 0; m < 8; m += 2) {
    auto& slots = problem.workload.microbatches[m / 2 * 2 + (m / 2) % 2].slots;
    slots.pop_back();
  }
  const PlacementResult found = Place(problem, Identity(8), {.seed = 2, .evaluations = 3000});

  const auto slot = std::find(found.placement.begin(), found.placement.end(), 0);
  CHECK(slot - found.placement.begin() >= 6);
}

TEST_CASE("Placement: memory limits are never broken", "[routing]") {
  PlacementProblem problem = TwoIslands();
  problem.fits.assign(4 * 8, 1);
  for (const size_t node : {2, 3, 4, 5, 6}) problem.fits[node] = 0;  // for stage 0
  Placement start = Identity(8);

  const PlacementResult found = Place(problem, start, {.seed = 3, .evaluations = 2000});

  CHECK(Fits(problem, found.placement));
  CHECK(Fits(problem, EvenPlacement(problem, start, 3, 16000)));
  std::reverse(start.begin(), start.end());
  CHECK_FALSE(Fits(problem, start));
}

TEST_CASE("Placement: outer traffic counts where overlap does not hide it", "[routing]") {
  PlacementProblem problem = TwoIslands();
  problem.outer = {.delta_boundaries = {0, 0, 0, 1000}, .inner_steps = 4, .overlap_steps = 0};
  // Stage 3: one other replica, 1000 payloads of 1 ms, 0.5 s of latency between the islands.
  CHECK(ExposedSeconds(problem, Identity(8), 0.4) == Approx(1.5 / 4));
  problem.outer.overlap_steps = 2;
  CHECK(ExposedSeconds(problem, Identity(8), 0.4) == Approx((1.5 - 0.8) / 4));
  CHECK(ExposedSeconds(problem, Identity(8), 0.9) == 0);
}

// A fleet of `nodes` and a table of paths over three stages, drawn from a seed.
PlacementProblem Drawn(int32_t nodes, uint64_t seed) {
  PlacementProblem problem;
  Rng rng(seed, "drawn placement");
  for (int32_t slot = 0; slot < nodes; ++slot) {
    problem.workload.stage_of_slot.push_back(slot * 3 / nodes);
  }
  std::vector<std::vector<int32_t>> slots_of(3);
  for (int32_t slot = 0; slot < nodes; ++slot) {
    slots_of[static_cast<size_t>(slot * 3 / nodes)].push_back(slot);
  }
  problem.workload.forward_flops.assign(3, 0.05 * kSecond);
  problem.workload.loss_flops = 0.02 * kSecond;
  problem.workload.in_flight = 2;
  for (size_t m = 0; m < 6; ++m) {
    std::vector<int32_t> way;
    for (size_t stage = 0; stage < 3; ++stage) {
      if (stage == 1 + m % 4) continue;  // some skip a stage
      way.push_back(slots_of[stage][m % slots_of[stage].size()]);
    }
    problem.workload.microbatches.push_back({0, way});
  }
  problem.fleet = EvenFleet(nodes, 0, 0);
  for (double& gflops : problem.fleet.gflops) gflops = 0.5 + 1.5 * rng.Uniform();
  for (double& latency : problem.fleet.latency_s) latency = 0.001 + 0.1 * rng.Uniform();
  for (double& wire : problem.fleet.wire_s) wire = 0.001 + 0.05 * rng.Uniform();
  problem.outer.delta_boundaries.assign(3, 1.0);
  return problem;
}

// What Place minimises: seconds, and a tenth of them for distance, where that is the start's.
double CostOf(const PlacementResult& result, double usual) {
  return result.total_s() * (1 + 0.1 * result.distance / usual);
}

// Up to seven nodes all are tried.
TEST_CASE("Placement: the best of all up to seven nodes, within 1 % of it with eight",
          "[routing]") {
  for (uint64_t seed = 1; seed <= 24; ++seed) {
    const auto nodes = static_cast<int32_t>(seed % 12 == 0 ? 8 : 5 + seed % 3);
    const PlacementProblem problem = Drawn(nodes, seed);
    const Placement start = Identity(static_cast<size_t>(nodes));
    const double usual = Place(problem, start, {.evaluations = 1}).distance;
    double best = std::numeric_limits<double>::infinity();
    double fastest = best;
    Placement every = start;
    do {
      const PlacementResult scored = Place(problem, every, {.evaluations = 1});
      best = std::min(best, CostOf(scored, usual));
      fastest = std::min(fastest, scored.total_s());
    } while (std::next_permutation(every.begin(), every.end()));

    const PlacementResult found = Place(problem, start, {.seed = 1, .evaluations = 12000});

    CAPTURE(seed, nodes, found.total_s() / fastest);
    CHECK(CostOf(found, usual) <= (nodes < 8 ? 1 + 1e-9 : 1.01) * best);
    CHECK(found.total_s() <= 1.05 * fastest);  // nearness may cost as much
    CHECK(found.total_s() >= fastest);
  }
}

TEST_CASE("Canonical order: relabelling permutes it and nothing else", "[routing]") {
  constexpr size_t kNodes = 7;
  Rng rng(9, "order");
  std::vector<uint64_t> nodes(kNodes, 4);  // alike but for their links
  std::vector<uint64_t> pairs(kNodes * kNodes);
  for (uint64_t& pair : pairs) pair = rng.Below(3);
  const auto order = CanonicalOrder(nodes, pairs);

  const Placement relabel = Shuffled(kNodes, 4);  // new name of each
  std::vector<uint64_t> moved(kNodes * kNodes);
  for (size_t i = 0; i < kNodes; ++i) {
    for (size_t j = 0; j < kNodes; ++j) {
      moved[static_cast<size_t>(relabel[i]) * kNodes + static_cast<size_t>(relabel[j])] =
          pairs[i * kNodes + j];
    }
  }
  const auto after = CanonicalOrder(nodes, moved);
  for (size_t k = 0; k < kNodes; ++k) CHECK(after[k] == relabel[static_cast<size_t>(order[k])]);
}

}  // namespace
}  // namespace skerry
