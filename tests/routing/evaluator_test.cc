#include "routing/evaluator.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "routing/node_lines.h"
#include "tests/routing/fleets.h"

namespace skerry {
namespace {

// Stage 0 on slot 0, stage 1 on slot 1: forward 1 s each, backward 2 s, loss 0.5 s.
Workload TwoStages(int32_t microbatches, int32_t in_flight) {
  Workload workload;
  workload.stage_of_slot = {0, 1};
  workload.forward_flops = {kSecond, kSecond};
  workload.loss_flops = 0.5 * kSecond;
  workload.in_flight = in_flight;
  for (int32_t m = 0; m < microbatches; ++m) workload.microbatches.push_back({0, {0, 1}});
  return workload;
}

TEST_CASE("Evaluator: a lone node computes one microbatch after the other", "[routing]") {
  Workload workload;
  workload.stage_of_slot = {0};
  workload.forward_flops = {kSecond};
  workload.loss_flops = 0.5 * kSecond;
  workload.microbatches = {{0, {0}}, {0, {0}}};
  const Fleet fleet = EvenFleet(1, 0, 0);

  const Evaluation evaluation = Evaluator(workload, fleet).Evaluate({0});

  CHECK(evaluation.step_s == Approx(2 * (1 + 0.5 + 2)));
  CHECK(evaluation.busy_s == std::vector{7.0});
  CHECK(evaluation.waiting_s[0] == Approx(0));
}

TEST_CASE("Evaluator: a single microbatch pays every hop of its tour", "[routing]") {
  const Workload workload = TwoStages(1, 1);
  const Fleet fleet = EvenFleet(2, 0.5, 0.25);

  // 1 + ¾ + 1 + ¾ + ½ + ¾ + 2 + ¾ + 2
  CHECK(Evaluator(workload, fleet).StepSeconds({0, 1}) == Approx(9.5));
}

TEST_CASE("Evaluator: what a node's memory does not hold is computed twice", "[routing]") {
  const Workload workload = TwoStages(1, 1);
  Fleet fleet = EvenFleet(2, 0.5, 0.25);
  // Node 1 in stage 1 repeats three quarters of its forward pass; in stage 0 it would nothing.
  fleet.repeats = {0, 0, 0, 0.75};

  CHECK(Evaluator(workload, fleet).StepSeconds({0, 1}) == Approx(9.5 + 0.75));
  CHECK(Evaluator(workload, fleet).StepSeconds({1, 0}) == Approx(9.5));
}

TEST_CASE("Evaluator: the in-flight window decides how much latency is hidden", "[routing]") {
  const Fleet fleet = EvenFleet(2, 0.5, 0.25);

  CHECK(Evaluator(TwoStages(2, 1), fleet).StepSeconds({0, 1}) == Approx(19.0));
  // By hand: loss at 3.5 and 4.5, backward on node 1 from 4.75 and 6.75, home at 7.5 and 9.5.
  CHECK(Evaluator(TwoStages(2, 2), fleet).StepSeconds({0, 1}) == Approx(11.5));
}

TEST_CASE("Evaluator: messages to different receivers share the sender's uplink", "[routing]") {
  Workload workload;
  workload.stage_of_slot = {0, 1, 1};
  workload.forward_flops = {0, 0};
  workload.in_flight = 2;
  workload.microbatches = {{0, {0, 1}}, {0, {0, 2}}};
  const Fleet fleet = EvenFleet(3, 0, 1);

  CHECK(Evaluator(workload, fleet).StepSeconds({0, 1, 2}) == Approx(5.0));  // 4 on two uplinks
}

TEST_CASE("Evaluator: slow links of a fast line carry side by side", "[routing]") {
  Workload workload;
  workload.stage_of_slot = {0, 1, 1};
  workload.forward_flops = {0, 0};
  workload.in_flight = 2;
  workload.microbatches = {{0, {0, 1}}, {0, {0, 2}}};
  Fleet fleet = EvenFleet(4, 0, 1);
  // Node 3 holds nothing; its links show that node 0's line carries four times as much.
  fleet.wire_s[fleet.Pair(0, 3)] = fleet.wire_s[fleet.Pair(3, 0)] = 0.25;

  CHECK(Evaluator(workload, fleet).StepSeconds({0, 1, 2}) == Approx(4.25));
}

TEST_CASE("Evaluator: messages on one link follow each other at its own rate", "[routing]") {
  Workload workload = TwoStages(2, 2);
  workload.forward_flops = {0, 0};
  workload.loss_flops = 0;
  Fleet fleet = EvenFleet(3, 0, 1);
  fleet.wire_s[fleet.Pair(0, 2)] = fleet.wire_s[fleet.Pair(2, 0)] = 0.25;

  CHECK(Evaluator(workload, fleet).StepSeconds({0, 1}) == Approx(5.0));
}

TEST_CASE("Evaluator: messages of different senders share the receiver's downlink", "[routing]") {
  Workload workload;
  workload.stage_of_slot = {0, 0, 1};
  workload.forward_flops = {0, 0};
  workload.microbatches = {{0, {0, 2}}, {0, {1, 2}}};
  Fleet fleet = EvenFleet(3, 0, 1);
  fleet.wire_s[fleet.Pair(2, 0)] = fleet.wire_s[fleet.Pair(2, 1)] = 0;

  CHECK(Evaluator(workload, fleet).StepSeconds({0, 1, 2}) == Approx(4.0));  // 4 in one downlink
}

TEST_CASE("Evaluator: what the ends do with a message delays it and keeps no line", "[routing]") {
  Workload workload = TwoStages(2, 2);
  workload.forward_flops = {0, 0};
  workload.loss_flops = 0;
  Fleet fleet = EvenFleet(2, 0, 1);
  fleet.handling_s = 0.25;

  // Four messages of a tour, the second tour a second behind.
  CHECK(Evaluator(workload, fleet).StepSeconds({0, 1}) == Approx(5 + 4 * 0.25));
  // Of what is compressed there is less to handle.
  fleet.share.assign(4, 0.5);
  CHECK(Evaluator(workload, fleet).StepSeconds({0, 1}) == Approx(0.5 * (5 + 4 * 0.25)));
}

TEST_CASE("LinesOf: what a house carries inside says nothing of its line", "[routing]") {
  Fleet fleet = EvenFleet(4, 0.05, 1);
  for (const auto& [from, to] : {std::pair{0, 1}, {1, 0}}) {
    fleet.latency_s[fleet.Pair(from, to)] = 0.0005;
    fleet.wire_s[fleet.Pair(from, to)] = 0.01;
  }
  fleet.wire_s[fleet.Pair(0, 3)] = 0.5;

  const NodeLines lines = LinesOf(fleet);

  CHECK(lines.up_s[fleet.Pair(0, 1)] == 0.01);
  CHECK(lines.up_s[fleet.Pair(0, 2)] == 0.5);  // the better of its two far links
  CHECK(lines.up_s[fleet.Pair(1, 2)] == 1);
  CHECK(lines.down_s[fleet.Pair(0, 2)] == 1);
  CHECK(lines.down_s[fleet.Pair(0, 3)] == 0.5);
  for (size_t pair = 0; pair < fleet.wire_s.size(); ++pair) {
    CHECK(lines.up_s[pair] <= fleet.wire_s[pair]);
    CHECK(lines.down_s[pair] <= fleet.wire_s[pair]);
  }
}

TEST_CASE("Evaluator: a waiting backward goes before a forward that came earlier", "[routing]") {
  // Microbatch 0 (of slot 0) visits slot 2; microbatch 1 (of slot 1) visits slot 2 by a slower
  // link.
  Workload workload;
  workload.stage_of_slot = {0, 0, 1};
  workload.forward_flops = {0, 4 * kSecond};
  workload.in_flight = 2;
  workload.microbatches = {{0, {0, 2}}, {0, {1, 2}}, {0, {0, 2}}};
  Fleet fleet = EvenFleet(3, 0, 0);
  fleet.latency_s[fleet.Pair(1, 2)] = 1;

  // Slot 2: forward of 0 until 4; its backward is there again at 4, before the forwards of 1 and 2:
  // until 12; then forward 1 until 16 (home by a link without delay, its gradient takes 1 s: 17),
  // forward 2 until 20, backward 1 (first by number) until 28, backward 2 until 36.
  CHECK(Evaluator(workload, fleet).StepSeconds({0, 1, 2}) == Approx(36.0));
  const Evaluation evaluation = Evaluator(workload, fleet).Evaluate({0, 1, 2});
  CHECK(evaluation.critical_slot == 2);
  CHECK(evaluation.busy_s[2] == Approx(36.0));
}

TEST_CASE("Evaluator: a node's next step waits for all its visits of this one", "[routing]") {
  Workload workload = TwoStages(1, 4);
  workload.microbatches.push_back({1, {0, 1}});
  workload.steps = 2;
  const Fleet fleet = EvenFleet(2, 0.5, 0.25);

  CHECK(Evaluator(workload, fleet).StepSeconds({0, 1}) == Approx(9.5));
}

TEST_CASE("Evaluator: a fast node shortens its own tasks only", "[routing]") {
  const Workload workload = TwoStages(1, 1);
  Fleet fleet = EvenFleet(2, 0.5, 0.25);
  fleet.gflops[1] = 2;

  CHECK(Evaluator(workload, fleet).StepSeconds({0, 1}) == Approx(9.5 - 1.5));
  CHECK(Evaluator(workload, fleet).StepSeconds({1, 0}) == Approx(9.5 - 1.75));
}

TEST_CASE("Evaluator: what takes longer than a limit is given up early, nothing else",
          "[routing]") {
  const Workload workload = TwoStages(8, 2);
  const Fleet fleet = EvenFleet(2, 0.5, 0.25);
  Evaluator evaluator(workload, fleet);
  const double step_s = evaluator.StepSeconds({0, 1});
  const int64_t whole = evaluator.tasks();
  CHECK(whole == 8 * (2 + 2 + 1));  // forward, backward, loss

  const auto limited = [&](double limit_s) {
    return evaluator.StepSeconds({0, 1}, nullptr, limit_s);
  };
  CHECK(limited(step_s) == step_s);
  CHECK(limited(2 * step_s) == step_s);
  CHECK(std::isinf(limited(0.999 * step_s)));
  const int64_t before = evaluator.tasks();
  CHECK(std::isinf(limited(0.8 * step_s)));
  CHECK(evaluator.tasks() - before < whole / 2);
  CHECK(evaluator.StepSeconds({0, 1}) == step_s);
}

TEST_CASE("Evaluator: a missing link matters only where a path uses it", "[routing]") {
  const Workload workload = TwoStages(1, 1);
  Fleet fleet = EvenFleet(3, 0.5, 0.25);
  fleet.latency_s[fleet.Pair(1, 0)] = std::numeric_limits<double>::infinity();
  Evaluator evaluator(workload, fleet);

  CHECK(evaluator.StepSeconds({0, 1}) == std::numeric_limits<double>::infinity());
  CHECK(evaluator.StepSeconds({0, 2}) == Approx(9.5));
}

}  // namespace
}  // namespace skerry
