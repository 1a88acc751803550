// What a round takes, against times worked out by hand.
#include "routing/round_cost.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <vector>

#include "routing/placement.h"
#include "tests/routing/fleets.h"

namespace skerry {
namespace {

constexpr double kFar_s = 0.03, kNear_s = 0.0001;   // ways
constexpr double kFlow_s = 0.1, kInside_s = 0.001;  // of a payload

// One stage of so many rooms of three, in order; a flow between rooms takes kFlow_s.
PlacementProblem Rooms(int32_t rooms) {
  PlacementProblem problem;
  const int32_t nodes = 3 * rooms;
  problem.workload.stage_of_slot.assign(static_cast<size_t>(nodes), 0);
  problem.workload.forward_flops = {0};
  problem.workload.microbatches = {{0, {0}}};
  problem.fleet = EvenFleet(nodes, kFar_s, kFlow_s);
  for (int32_t a = 0; a < nodes; ++a) {
    for (int32_t b = 0; b < nodes; ++b) {
      const bool is_near = a / 3 == b / 3;
      problem.near.pairs.push_back(is_near);
      if (!is_near) continue;
      problem.fleet.latency_s[problem.fleet.Pair(a, b)] = kNear_s;
      problem.fleet.wire_s[problem.fleet.Pair(a, b)] = kInside_s;
    }
  }
  problem.near.gradient_boundaries = {0};
  problem.outer.delta_boundaries = {80};
  return problem;
}

// Of every node a payload's seconds on its own line.
void SetOwnLines(double line_s, PlacementProblem* problem) {
  problem->fleet.line_of.clear();
  for (int32_t node = 0; node < problem->fleet.size(); ++node)
    problem->fleet.line_of.push_back(node);
  problem->fleet.line_s.assign(static_cast<size_t>(problem->fleet.size()), line_s);
}

double RoundOfStage(const PlacementProblem& problem) {
  Placement placement;
  std::vector<int32_t> slots;
  for (int32_t node = 0; node < problem.fleet.size(); ++node) {
    placement.push_back(node);
    slots.push_back(node);
  }
  return TrafficOf(problem, placement, 0, slots).delta_s;
}

TEST_CASE("Round cost: a speaker's messages go at once, as fast as its line lets them",
          "[routing][cohorts]") {
  PlacementProblem problem = Rooms(8);
  const double passing_s = 7 * 80 * 2 * kInside_s;
  // Nobody knows whether its line is faster than one flow.
  CHECK(RoundOfStage(problem) == Approx(7 * 80 * kFlow_s + kFar_s + passing_s));
  SetOwnLines(kFlow_s / 7, &problem);  // it carried seven as one
  CHECK(RoundOfStage(problem) == Approx(80 * kFlow_s + kFar_s + passing_s));
  SetOwnLines(kFlow_s / 2, &problem);
  CHECK(RoundOfStage(problem) == Approx(7 * 80 * kFlow_s / 2 + kFar_s + passing_s));
  // What a message's ends do with it no line waits for.
  problem.fleet.handling_s = 0.002;
  CHECK(RoundOfStage(problem) ==
        Approx(7 * 80 * kFlow_s / 2 + 80 * 0.002 + kFar_s + passing_s + 80 * 0.002));
}

TEST_CASE("Round cost: a sharded round has two legs, and passes on sums only",
          "[routing][cohorts]") {
  PlacementProblem problem = Rooms(8);
  SetOwnLines(kFlow_s / 7, &problem);
  problem.outer.sharded_from = 4;
  problem.outer.sharded_deltas = 1.5;  // pieces, and half as much of sums
  const double legs_s = 80.0 / 8 * 1.5 * kFlow_s + 2 * kFar_s;
  CHECK(RoundOfStage(problem) == Approx(legs_s + 8 * 80.0 / 8 / 2 * 2 * kInside_s));
  // Of the ways in the slowest counts, too.
  for (int32_t from = 3; from < 24; ++from) {
    double& wire_s = problem.fleet.wire_s[problem.fleet.Pair(from, 0)];
    if (from != 9) wire_s = 2 * kFlow_s;
  }
  CHECK(RoundOfStage(problem) ==
        Approx(80.0 / 8 * 1.5 * 2 * kFlow_s + 2 * kFar_s + 8 * 80.0 / 8 / 2 * 2 * kInside_s));
}

TEST_CASE("Round cost: without cohorts every replica is sent to", "[routing]") {
  PlacementProblem problem = Rooms(2);
  problem.near = {};
  // Three far ones over a line of which nobody knows more; two near ones beside them.
  CHECK(RoundOfStage(problem) == Approx(80 * (3 * kFlow_s + 2 * kInside_s) + kFar_s));
  problem.outer.delta_boundaries = {0};
  CHECK(RoundOfStage(problem) == 0);
  problem.workload.stage_of_slot.resize(1);
  problem.outer.delta_boundaries = {80};
  CHECK(TrafficOf(problem, {0}, 0, {0}).delta_s == 0);
}

}  // namespace
}  // namespace skerry
