// Deltas that share lines with microbatches, against times worked out by hand.
#include "routing/held_up.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <limits>

#include "routing/placement.h"
#include "tests/routing/fleets.h"

namespace skerry {
namespace {

// Two pipelines of two stages, {0, 2} and {1, 3}, in which nothing takes time but messages, one
// second each: four to and fro are a step.
PlacementProblem TwoPipelines() {
  PlacementProblem problem;
  problem.workload.stage_of_slot = {0, 0, 1, 1};
  problem.workload.forward_flops = {0, 0};
  problem.workload.steps = 2;
  problem.workload.microbatches = {{0, {0, 2}}, {0, {1, 3}}, {1, {0, 2}}, {1, {1, 3}}};
  problem.fleet = EvenFleet(4, 0, 1);
  problem.outer.delta_boundaries = {0, 3};
  problem.outer.inner_steps = 4;
  problem.outer.overlap_steps = 2;
  return problem;
}

const Placement kInOrder = {0, 1, 2, 3};

TEST_CASE("HeldUp: a round's messages take their part of the lines", "[routing][lines]") {
  PlacementProblem problem = TwoPipelines();
  const auto step_s = [&](const RoundMessages& round) {
    return Evaluator(problem.workload, problem.fleet, Lines::kShared, &round).StepSeconds(kInOrder);
  };
  CHECK(step_s({}) == 4);
  // What comes to 3 from 1, at 4 s, shares the line in with a delta from 2.
  CHECK(step_s({{{2, 3, 3}}, 1}) > 4.4);
  problem.workload.microbatches = {{0, {0, 2}}, {1, {0, 2}}};
  CHECK(step_s({}) == 4);
  // Now only 2 has other messages, to which its delta gives way: of the first step the gradient,
  // which is there at 4 1/16 instead of 4, of the second both.
  CHECK(step_s({{{2, 3, 3}}, 1}) == 4 + 1.5 / 16);
  CHECK(step_s({{{2, 3, 1}}, 1}) == 4 + 0.5 / 16);  // there at 5
  CHECK(step_s({{{2, 3, 3}}, 3}) == 4);             // never sent
}

TEST_CASE("HeldUp: what a round holds up is shared out among its steps", "[routing][lines]") {
  PlacementProblem problem = TwoPipelines();
  // Both ways at once: as above, and what comes to 2 or 3 shares the line in with a delta, whose
  // sender has nothing else meanwhile: two messages take 2 s each instead of 1.
  CHECK(HeldUpSeconds(problem, kInOrder, 4) == (2 + 3.0 / 16) / 4);
  problem.outer.fragments = 3;  // three rounds, each of which holds up one second
  CHECK(HeldUpSeconds(problem, kInOrder, 4) == 0.75);
  problem.outer.fragments = 1;
  problem.outer.inner_steps = 16;
  CHECK(HeldUpSeconds(problem, kInOrder, 4) == (2 + 3.0 / 16) / 16);
  problem.outer.overlap_steps = 0;  // all wait for all of it, which is counted elsewhere
  CHECK(HeldUpSeconds(problem, kInOrder, 4) == 0);
}

TEST_CASE("HeldUp: nobody is held up where a link, not a line, is full", "[routing][lines]") {
  PlacementProblem problem = TwoPipelines();
  // Every node has a line of eight times that, over which it reaches two of the others.
  for (int32_t a = 0; a < 4; ++a) {
    for (int32_t b = 0; b < 4; ++b)
      if ((a + b) % 2 == 1) problem.fleet.wire_s[problem.fleet.Pair(a, b)] = 0.125;
  }
  CHECK(Evaluator(problem.workload, problem.fleet, Lines::kShared).StepSeconds(kInOrder) == 4);
  problem.outer.delta_boundaries = {0, 100};
  CHECK(HeldUpSeconds(problem, kInOrder, 4) == 0);
}

TEST_CASE("HeldUp: only speakers have messages, to those of other cohorts", "[routing][lines]") {
  PlacementProblem problem = TwoPipelines();
  const auto messages = [&] { return RoundOf(problem, kInOrder).messages; };
  REQUIRE(messages().size() == 2);  // stage 0 has no deltas
  CHECK(messages()[0].from == 2);
  CHECK(messages()[0].to == 3);
  CHECK(messages()[0].share == 3);
  CHECK(messages()[1].from == 3);
  problem.near.gradient_boundaries = {0, 0};
  problem.near.pairs.assign(16, 0);
  CHECK(messages().size() == 2);
  problem.near.pairs.assign(16, 1);
  CHECK(messages().empty());
  problem.near = {};
  problem.fleet.wire_s[problem.fleet.Pair(2, 3)] = std::numeric_limits<double>::infinity();
  CHECK(messages().size() == 1);  // over a link that works
}

TEST_CASE("HeldUp: one replica a stage is held up by nobody, and too many are not looked at",
          "[routing][lines]") {
  PlacementProblem problem;
  Placement placement;
  problem.workload.forward_flops = {0};
  problem.workload.microbatches = {{0, {0}}};
  problem.outer.delta_boundaries = {1};
  problem.outer.overlap_steps = 1;
  const auto messages = [&](int32_t replicas) {
    problem.fleet = EvenFleet(replicas, 0, 1);
    problem.workload.stage_of_slot.assign(static_cast<size_t>(replicas), 0);
    for (int32_t node = static_cast<int32_t>(placement.size()); node < replicas; ++node)
      placement.push_back(node);
    return RoundOf(problem, placement).messages.size();
  };
  CHECK(messages(1) == 0);
  CHECK(HeldUpSeconds(problem, placement, 1) == 0);
  CHECK(messages(63) == 63 * 62);
  CHECK(messages(64) == 0);
}

}  // namespace
}  // namespace skerry
