#include "pipeline/plan/route.h"

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
  for (uint32_t mask = 0; mask < 64; ++mask) {
    PipelinePlan plan = Plan();
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
