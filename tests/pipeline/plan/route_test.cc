#include "pipeline/plan/route.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

namespace skerry {
namespace {

// Three stages of two replicas: nodes 0, 1 | 2, 3 | 4, 5. Four paths, two microbatches a step.
PipelinePlan Plan() {
  PipelinePlan plan;
  plan.version = 1;
  plan.microbatches_per_step = 2;
  for (int32_t s = 0; s < 3; ++s) {
    const auto first = static_cast<uint32_t>(2 * s);
    plan.stages.push_back({s, s + 1, {TestNodeId(first), TestNodeId(first + 1)}});
  }
  plan.paths = {
      {{0, 0}, {1, 0}, {2, 1}}, {{0, 1}, {1, 1}}, {{0, 0}, {2, 0}, {1, 1}}, {{0, 1}, {2, 1}}};
  return plan;
}

TEST_CASE("Route: the table is walked around and around", "[plan]") {
  const PipelinePlan plan = Plan();
  CHECK(PathOf(plan, 0, 0) == plan.paths[0]);
  CHECK(PathOf(plan, 1, 1) == plan.paths[3]);
  CHECK(PathOf(plan, 1'000'000'001, 0) == plan.paths[2]);
}

TEST_CASE("Route: a node's visits are the paths that include it, with its hop", "[plan]") {
  const PipelinePlan plan = Plan();
  CHECK(VisitsOf(plan, 0, TestNodeId(0)) == std::vector<PlannedVisit>{{0, 0}});
  CHECK(VisitsOf(plan, 0, TestNodeId(5)) == std::vector<PlannedVisit>{{0, 2}});
  CHECK(VisitsOf(plan, 1, TestNodeId(3)) == std::vector<PlannedVisit>{{0, 2}});
  CHECK(VisitsOf(plan, 1, TestNodeId(2)).empty());
  CHECK(VisitsOf(plan, 0, TestNodeId(99)).empty());
}

TEST_CASE("Route: slots, nodes and the living", "[plan]") {
  PipelinePlan plan = Plan();
  CHECK(SlotOf(plan, TestNodeId(3)) == Slot{1, 1});
  CHECK(NodeOf(plan, {2, 0}) == TestNodeId(4));
  CHECK_FALSE(SlotOf(plan, TestNodeId(6)));
  plan.dead = {TestNodeId(2)};
  CHECK(LiveReplicas(plan, 1) == std::vector{TestNodeId(3)});
  CHECK(SlotOf(plan, TestNodeId(2)) == Slot{1, 0});
  CHECK(IsDead(plan, TestNodeId(2)));
}

TEST_CASE("Route: a dead replica's visits go to the next live one", "[plan]") {
  PipelinePlan plan = Plan();
  plan.dead = {TestNodeId(5)};  // slot 2/1
  CHECK(PathOf(plan, 0, 0) == Path{{0, 0}, {1, 0}, {2, 0}});
  CHECK(PathOf(plan, 1, 1) == Path{{0, 1}, {2, 0}});
  CHECK(VisitsOf(plan, 1, TestNodeId(4)) == std::vector<PlannedVisit>{{0, 1}, {1, 1}});
  CHECK(VisitsOf(plan, 1, TestNodeId(5)).empty());
}

TEST_CASE("Route: a stage without living replicas is left out, hops close up", "[plan]") {
  PipelinePlan plan = Plan();
  plan.dead = {TestNodeId(4), TestNodeId(5)};
  CHECK(PathOf(plan, 0, 0) == Path{{0, 0}, {1, 0}});
  CHECK(PathOf(plan, 1, 0) == Path{{0, 0}, {1, 1}});
  CHECK(VisitsOf(plan, 1, TestNodeId(3)) == std::vector<PlannedVisit>{{0, 1}});
  CHECK(PathOf(plan, 1, 1) == Path{{0, 1}});
}

TEST_CASE("Route: a dead origin's microbatches start at the next live stage-0 node", "[plan]") {
  PipelinePlan plan = Plan();
  plan.dead = {TestNodeId(1)};
  CHECK(PathOf(plan, 0, 1) == Path{{0, 0}, {1, 1}});
  CHECK(VisitsOf(plan, 0, TestNodeId(0)) == std::vector<PlannedVisit>{{0, 0}, {1, 0}});
  plan.dead = {TestNodeId(0), TestNodeId(1)};
  CHECK(PathOf(plan, 0, 0).empty());
  CHECK(VisitsOf(plan, 0, TestNodeId(2)).empty());
}

TEST_CASE("Route: whoever is dead, visits and paths agree and the living stay on their paths",
          "[plan]") {
  const bool spreads = GENERATE(false, true);
  for (uint32_t mask = 0; mask < 64; ++mask) {
    PipelinePlan plan = Plan();
    plan.settings.spreads = spreads;
    for (uint32_t node = 0; node < 6; ++node) {
      if ((mask >> node & 1) != 0) plan.dead.push_back(TestNodeId(node));
    }
    for (int64_t step = 0; step < 2; ++step) {
      std::set<std::pair<int32_t, NodeId>> visits;
      for (uint32_t node = 0; node < 6; ++node) {
        for (const PlannedVisit& visit : VisitsOf(plan, step, TestNodeId(node))) {
          const Path path = PathOf(plan, step, visit.microbatch);
          REQUIRE(NodeOf(plan, path[static_cast<size_t>(visit.hop)]) == TestNodeId(node));
          visits.insert({visit.microbatch, TestNodeId(node)});
        }
      }
      size_t hops = 0;
      for (int32_t m = 0; m < 2; ++m) {
        const Path path = PathOf(plan, step, m);
        hops += path.size();
        if (path.empty()) continue;
        for (const Slot& slot : plan.paths[static_cast<size_t>(step * 2 + m)]) {
          const NodeId& node = NodeOf(plan, slot);
          REQUIRE((IsDead(plan, node) || visits.contains({m, node})));
        }
      }
      REQUIRE(hops == visits.size());
    }
  }
}

// One stage after another, of so many replicas, each path through the same replica of all.
PipelinePlan Columns(int32_t stages, int32_t replicas, bool spreads) {
  PipelinePlan plan;
  plan.version = 1;
  plan.microbatches_per_step = 8 * replicas;
  plan.settings.spreads = spreads;
  for (int32_t s = 0; s < stages; ++s) {
    plan.stages.push_back({s, s + 1, {}});
    for (int32_t r = 0; r < replicas; ++r) {
      plan.stages.back().replicas.push_back(TestNodeId(static_cast<uint32_t>(100 * s + r)));
    }
  }
  for (int32_t m = 0; m < 6 * plan.microbatches_per_step; ++m) {
    Path& path = plan.paths.emplace_back();
    for (int32_t s = 0; s < stages; ++s) path.push_back({s, m % replicas});
  }
  return plan;
}

// Of stage 0 of a step, the most visits over the mean of the living.
double Unevenness(const PipelinePlan& plan, int64_t step) {
  size_t most = 0;
  const std::vector<NodeId> live = LiveReplicas(plan, 0);
  for (const NodeId& node : live) most = std::max(most, VisitsOf(plan, step, node).size());
  return static_cast<double>(most * live.size()) / plan.microbatches_per_step;
}

TEST_CASE("Route: a plan that spreads shares the visits of the dead out over all who live",
          "[plan]") {
  PipelinePlan plan = Columns(2, 7, true);
  for (const uint32_t gone : {1, 2, 3, 4}) plan.dead.push_back(TestNodeId(gone));
  for (int64_t step = 0; step < 6; ++step) CHECK(Unevenness(plan, step) <= 1.15);
  plan.settings.spreads = false;
  CHECK(Unevenness(plan, 0) > 2);  // all to slot 5
}

TEST_CASE("Route: who stands in does so until it dies, and the dead who come back take theirs",
          "[plan]") {
  PipelinePlan plan = Columns(2, 7, true);
  const auto paths = [&] {
    std::vector<Path> all;
    for (size_t i = 0; i < plan.paths.size(); ++i) all.push_back(PatchedPath(plan, i, 0));
    return all;
  };
  const std::vector<Path> whole = paths();
  std::vector<Path> before = whole;
  for (const uint32_t gone : {3, 103, 0, 6, 4, 100}) {
    plan.dead.push_back(TestNodeId(gone));
    std::sort(plan.dead.begin(), plan.dead.end());
    const std::vector<Path> now = paths();
    for (size_t i = 0; i < now.size(); ++i) {
      for (size_t hop = 0; hop < now[i].size(); ++hop) {
        REQUIRE((now[i][hop] == before[i][hop] || IsDead(plan, NodeOf(plan, before[i][hop]))));
      }
    }
    before = now;
  }
  plan.dead.clear();
  CHECK(paths() == whole);
}

TEST_CASE("Route: a plan that spreads leads around the late in the order in which it asks",
          "[plan]") {
  PipelinePlan plan = Columns(2, 5, true);
  plan.dead = {TestNodeId(102)};
  for (int32_t m = 0; m < plan.microbatches_per_step; ++m) {
    const NodeId second = NodeOf(plan, PathOf(plan, 0, m)[1]);
    const LedPath led = PathAround(plan, 0, m, false, [&](const NodeId& node) {
      return node == second ? Shun::kRather : Shun::kNo;
    });
    CHECK(led.passed == std::vector{second});
    plan.dead = {TestNodeId(102), second};
    std::sort(plan.dead.begin(), plan.dead.end());
    CHECK(led.path == PathOf(plan, 0, m));
    plan.dead = {TestNodeId(102)};
  }
}

TEST_CASE("Route: around a late node the path takes the next replica, or leaves the stage out",
          "[plan]") {
  PipelinePlan plan = Plan();
  const auto around = [&](std::set<NodeId> late) {
    return PathAround(plan, 0, 0, true, [late](const NodeId& node) {
      return late.contains(node) ? Shun::kRather : Shun::kNo;
    });
  };
  CHECK(around({}).path == PathOf(plan, 0, 0));
  CHECK(around({}).passed.empty());
  CHECK(around({TestNodeId(2)}).path == Path{{0, 0}, {1, 1}, {2, 1}});
  CHECK(around({TestNodeId(2)}).passed == std::vector{TestNodeId(2)});
  CHECK(around({TestNodeId(2), TestNodeId(3)}).path == Path{{0, 0}, {2, 1}});
  CHECK(around({TestNodeId(2), TestNodeId(3)}).passed == std::vector{TestNodeId(2), TestNodeId(3)});
  CHECK(around({TestNodeId(0)}).path == PathOf(plan, 0, 0));  // who leads it, leads it
  CHECK(around({TestNodeId(4)}).passed.empty());              // not on the path anyway

  plan.dead = {TestNodeId(2)};
  CHECK(around({TestNodeId(3)}).path == Path{{0, 0}, {2, 1}});
  CHECK(around({TestNodeId(3)}).passed == std::vector{TestNodeId(3)});
}

TEST_CASE("Route: where no stage may be left out a late node is better than none", "[plan]") {
  const PipelinePlan plan = Plan();
  using Map = std::map<NodeId, Shun>;
  const auto around = [&](const Map& shunned) {
    return PathAround(plan, 0, 0, false, [&](const NodeId& node) {
      const auto it = shunned.find(node);
      return it == shunned.end() ? Shun::kNo : it->second;
    });
  };
  const NodeId first = TestNodeId(2), second = TestNodeId(3);  // of stage 1
  CHECK(around({{first, Shun::kRather}}).path == Path{{0, 0}, {1, 1}, {2, 1}});
  CHECK(around({{first, Shun::kRather}}).passed == std::vector{first});
  const Map both = {{first, Shun::kRather}, {second, Shun::kRather}};
  CHECK(around(both).path == PathOf(plan, 0, 0));
  CHECK(around(both).passed.empty());
  const Map one_never = {{first, Shun::kNever}, {second, Shun::kRather}};
  CHECK(around(one_never).path == Path{{0, 0}, {1, 1}, {2, 1}});
  CHECK(around(one_never).passed == std::vector{first});
  const Map never = {{first, Shun::kNever}, {second, Shun::kNever}};
  CHECK(around(never).path == Path{{0, 0}, {2, 1}});
}

}  // namespace
}  // namespace skerry
