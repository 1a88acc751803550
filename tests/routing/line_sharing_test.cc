// Messages that share lines, against times worked out by hand and against filling all anew.
#include "routing/line_sharing.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <map>
#include <vector>

#include "common/rng.h"
#include "routing/node_lines.h"
#include "tests/routing/fleets.h"

namespace skerry {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

using Ways = std::vector<std::pair<int32_t, int32_t>>;

// Sharing among nodes that fill the slots of their own number.
struct Shared {
  Shared(const Fleet& of, const Ways& ways)
      : fleet(of), lines(LinesOf(fleet)), sharing(fleet, lines, ways) {
    Placement placement;
    for (int32_t node = 0; node < fleet.size(); ++node) placement.push_back(node);
    sharing.Reset(placement);
  }
  void CheckLeaves(double at, uint32_t tag) {
    CHECK(sharing.NextEnd() == Approx(at));
    CHECK(sharing.Leave().tag == tag);
  }

  Fleet fleet;
  NodeLines lines;
  LineSharing sharing;
};

// Both ways.
void SetLink(Fleet& fleet, int32_t a, int32_t b, double wire_s) {
  fleet.wire_s[fleet.Pair(a, b)] = fleet.wire_s[fleet.Pair(b, a)] = wire_s;
}

TEST_CASE("LineSharing: two equal messages over one line end together", "[routing][lines]") {
  const Ways ways = GENERATE(Ways{{0, 1}, {0, 2}}, Ways{{1, 0}, {2, 0}});
  Shared shared(EvenFleet(3, 0, 1), ways);
  shared.sharing.Send(0, 1, 1, 11);
  shared.sharing.Send(0, 0, 1, 10);
  CHECK(shared.sharing.NextEnd() == 2);
  CHECK(shared.sharing.Leave().tag == 11);  // its way has led first
  CHECK(shared.sharing.NextEnd() == 2);
  CHECK(shared.sharing.Leave().tag == 10);
  CHECK(shared.sharing.NextEnd() == kNever);
}

TEST_CASE("LineSharing: who comes half way takes half of what is left", "[routing][lines]") {
  Shared shared(EvenFleet(3, 0, 1), {{0, 1}, {0, 2}});
  shared.sharing.Send(0, 0, 1, 0);
  shared.sharing.Send(0.5, 1, 1, 1);
  shared.CheckLeaves(1.5, 0);
  shared.CheckLeaves(2, 1);
}

TEST_CASE("LineSharing: on its way a message waits for the one before", "[routing][lines]") {
  Shared shared(EvenFleet(3, 0, 1), {{0, 1}, {0, 2}});
  shared.sharing.Send(0, 0, 1, 0);
  shared.sharing.Send(0, 0, 0.5, 1);
  shared.CheckLeaves(1, 0);
  shared.sharing.Send(1, 1, 1, 2);  // 1 has half of the line now
  shared.CheckLeaves(2, 1);
  shared.CheckLeaves(2.5, 2);
}

TEST_CASE("LineSharing: deltas have a sixteenth together beside what is urgent, and then all",
          "[routing][lines]") {
  const uint32_t deltas = GENERATE(1u, 2u, 3u);
  Shared shared(EvenFleet(5, 0, 1), {{0, 1}, {0, 2}, {0, 3}, {0, 4}});
  for (uint32_t i = 1; i <= deltas; ++i)
    shared.sharing.Send(0, static_cast<int32_t>(i), 1, i, true);
  shared.sharing.Send(0, 0, 1, 0);
  shared.CheckLeaves(17.0 / 16, 0);
  for (uint32_t i = 1; i <= deltas; ++i) shared.CheckLeaves(1 + deltas, i);
}

TEST_CASE("LineSharing: others take what a slow link leaves of a line", "[routing][lines]") {
  Fleet fleet = EvenFleet(3, 0, 1);
  SetLink(fleet, 0, 1, 4);
  Shared shared(fleet, {{0, 1}, {0, 2}});
  shared.sharing.Send(0, 0, 1, 0);
  shared.sharing.Send(0, 1, 1, 1);
  shared.CheckLeaves(4.0 / 3, 1);  // three quarters of the line
  shared.CheckLeaves(4, 0);
}

TEST_CASE("LineSharing: nodes behind one line share it, and each its own port",
          "[routing][lines]") {
  // 0 and 1 in one house, whose line is no faster than what one of them can send.
  Fleet fleet = EvenFleet(5, 0, 1);
  fleet.line_of = {0, 0, 1, 2, 3};
  fleet.line_s = {1, 0, 0, 0};
  Shared shared(fleet, {{0, 2}, {1, 3}, {0, 1}, {1, 0}});
  shared.sharing.Send(0, 0, 1, 0);
  shared.sharing.Send(0, 1, 1, 1);
  shared.CheckLeaves(2, 0);
  shared.CheckLeaves(2, 1);
  // What stays in the house does not cross the line; but both go through the port of 0.
  shared.sharing.Send(2, 3, 1, 3);
  shared.sharing.Send(2, 0, 1, 0);
  shared.CheckLeaves(3, 3);
  shared.CheckLeaves(3, 0);
  shared.sharing.Send(3, 2, 1, 2);
  shared.sharing.Send(3, 0, 1, 0);
  shared.CheckLeaves(5, 2);
  shared.CheckLeaves(5, 0);
}

TEST_CASE("LineSharing: no line is believed in that hardly any reading shows", "[routing][lines]") {
  // Windows, not lines: the farther, the slower, and the nearest is nobody's line.
  Fleet fleet = EvenFleet(10, 0, 1);
  for (int32_t a = 0; a < 10; ++a) {
    for (int32_t b = 0; b < a; ++b) {
      SetLink(fleet, a, b, 0.1 * (a - b));
      fleet.latency_s[fleet.Pair(a, b)] = fleet.latency_s[fleet.Pair(b, a)] = 0.01 * (a - b);
    }
  }
  Shared shared(fleet, {{0, 1}, {0, 2}});
  shared.sharing.Send(0, 0, 1, 0);
  shared.sharing.Send(0, 1, 1, 1);
  shared.CheckLeaves(0.1, 0);
  shared.CheckLeaves(0.2, 1);
}

TEST_CASE("LineSharing: far messages are not in the way of near ones", "[routing][lines]") {
  // A house of 0 and 1, from which all others are ten times slower.
  Fleet fleet = EvenFleet(4, 0.1, 1);
  SetLink(fleet, 0, 1, 0.1);
  fleet.latency_s[fleet.Pair(0, 1)] = fleet.latency_s[fleet.Pair(1, 0)] = 0.001;
  Shared shared(fleet, {{0, 2}, {0, 3}, {0, 1}});
  for (const int32_t way : {0, 1, 2}) shared.sharing.Send(0, way, 1, static_cast<uint32_t>(way));
  shared.CheckLeaves(0.1, 2);
  shared.CheckLeaves(2, 0);
  shared.CheckLeaves(2, 1);
}

// All rates from nothing: of nodes whose lines all take one second a payload.
std::map<size_t, double> FilledAnew(const std::vector<size_t>& under_way, const Ways& ways,
                                    const Fleet& fleet) {
  std::map<size_t, double> rates;
  std::map<int32_t, double> left;  // of lines: 2 · node, + 1 on the way in
  const auto lines_of = [&](size_t way) {
    return std::vector<int32_t>{2 * ways[way].first, 2 * ways[way].second + 1};
  };
  for (const size_t way : under_way)
    for (const int32_t line : lines_of(way)) left[line] = 1;
  while (rates.size() < under_way.size()) {
    double lowest = kNever;
    std::map<int32_t, int> crossing;
    for (const size_t way : under_way) {
      if (rates.contains(way)) continue;
      lowest = std::min(lowest, 1 / fleet.wire_s[fleet.Pair(ways[way].first, ways[way].second)]);
      for (const int32_t line : lines_of(way)) ++crossing[line];
    }
    for (const auto& [line, count] : crossing) lowest = std::min(lowest, left[line] / count);
    std::vector<size_t> bound;
    for (const size_t way : under_way) {
      if (rates.contains(way)) continue;
      bool is_bound = 1 / fleet.wire_s[fleet.Pair(ways[way].first, ways[way].second)] == lowest;
      for (const int32_t line : lines_of(way))
        is_bound = is_bound || left[line] / crossing[line] <= lowest * (1 + 1e-12);
      if (is_bound) bound.push_back(way);
    }
    for (const size_t way : bound) {
      rates[way] = lowest;
      for (const int32_t line : lines_of(way)) left[line] -= lowest;
    }
  }
  return rates;
}

TEST_CASE("LineSharing: a change leaves all as if they were shared anew", "[routing][lines]") {
  const auto seed = static_cast<uint64_t>(GENERATE(range(1, 21)));
  Rng rng(seed, "line sharing");
  Fleet fleet = EvenFleet(6, 0, 1);
  Ways ways;
  for (int32_t a = 0; a < 6; ++a) {
    for (int32_t b = 0; b < 6; ++b) {
      if (a == b) continue;
      ways.emplace_back(a, b);
      // Two links of each node in each direction are as fast as its lines.
      if ((b - a + 6) % 6 > 2) fleet.wire_s[fleet.Pair(a, b)] = 1 + 4 * rng.Uniform();
    }
  }
  Shared shared(fleet, ways);
  std::map<size_t, double> left;
  double now = 0;
  for (int i = 0; i < 60; ++i) {
    const size_t way = rng.Below(ways.size());
    const double next = shared.sharing.NextEnd();
    if (!left.contains(way) && rng.Below(3) > 0) {
      const double share = 0.1 + rng.Uniform();
      shared.sharing.Send(now, static_cast<int32_t>(way), share, 0);
      left[way] = share;
    } else if (next < kNever) {
      const auto gone = static_cast<size_t>(shared.sharing.Leave().way);
      std::vector<size_t> under_way;
      for (const auto& [other, share] : left) under_way.push_back(other);
      for (const auto& [other, rate] : FilledAnew(under_way, ways, fleet))
        left[other] -= rate * (next - now);
      CHECK(left[gone] == Approx(0).margin(1e-9));
      left.erase(gone);
      now = next;
    }
  }
}

TEST_CASE("Evaluator: sharing is the same as taking turns where nobody meets", "[routing][lines]") {
  Workload workload;
  workload.stage_of_slot = {0, 1, 2};
  workload.forward_flops = {kSecond, 2 * kSecond, kSecond};
  workload.loss_flops = kSecond;
  workload.microbatches = {{0, {0, 1, 2}}, {1, {0, 2, 1}}, {2, {0, 1, 2}}};
  workload.steps = 3;
  Fleet fleet = EvenFleet(3, 0.125, 0.75);
  fleet.handling_s = 0.1;
  fleet.wire_s[fleet.Pair(0, 1)] = 0.3;
  const Placement placement = {0, 1, 2};
  Evaluator in_turn(workload, fleet, Lines::kInTurn), shared(workload, fleet, Lines::kShared);
  CHECK(shared.StepSeconds(placement) == in_turn.StepSeconds(placement));
  CHECK(shared.StepSeconds(placement) == shared.StepSeconds(placement));
  CHECK(shared.Trace(placement).size() == in_turn.Trace(placement).size());
}

TEST_CASE("Evaluator: messages that leave together are late together", "[routing][lines]") {
  // Two microbatches of one origin, one to each of two others, which take a second; nothing else
  // takes any.
  Workload workload;
  workload.stage_of_slot = {0, 1, 1};
  workload.forward_flops = {0, kSecond};
  workload.microbatches = {{0, {0, 1}}, {0, {0, 2}}};
  workload.in_flight = 2;
  Fleet fleet = EvenFleet(3, 0, 1);
  const auto step_s = [&](Lines lines) {
    return Evaluator(workload, fleet, lines).StepSeconds({0, 1, 2});
  };
  // One after another: there at 1 and 2, back at 3 and 4; there again at 4 and 5, and two seconds
  // later the gradients begin their second.
  CHECK(step_s(Lines::kInTurn) == Approx(8));
  // Together: there at 2, back at 5, there again at 7, and at 9 two gradients begin their two.
  CHECK(step_s(Lines::kShared) == Approx(11));
}

}  // namespace
}  // namespace skerry
