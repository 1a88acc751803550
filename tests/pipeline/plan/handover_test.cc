#include "pipeline/plan/handover.h"

#include <catch2/catch.hpp>

#include "pipeline/plan/route.h"
#include "pipeline/plan/validate.h"

namespace skerry {
namespace {

RunConfig Config(int64_t overlap = 1) {
  RunConfig config;
  config.steps = 40;
  config.model.layers = 2;
  config.outer.inner_steps = 4;
  config.outer.overlap_steps = overlap;
  config.pipeline = {.stages = 2,
                     .skip_ratio = 0,
                     .swaps = 0,
                     .microbatches_per_step = 2,
                     .sequences_per_microbatch = 1,
                     .in_flight = 1};
  return config;
}

// Two stages of two replicas: nodes 1, 2 | 3, 4; node 4 is dead.
PipelinePlan Plan() {
  PipelinePlan plan;
  plan.version = 2;
  plan.microbatches_per_step = 2;
  plan.stages = {{0, 1, {TestNodeId(1), TestNodeId(2)}}, {1, 2, {TestNodeId(3), TestNodeId(4)}}};
  plan.paths = {{{0, 0}, {1, 0}}, {{0, 1}, {1, 1}}};
  plan.dead = {TestNodeId(4)};
  return plan;
}

PlannerInput FleetOf(const std::vector<NodeId>& nodes) {
  PlannerInput input;
  input.config = Config();
  input.nodes = nodes;
  for (const NodeId& node : nodes) input.devices[node] = {"cpu", "cpu", 10.0, int64_t{1} << 32};
  return input;
}

}  // namespace

TEST_CASE("Handover: a joiner's slot counts as dead before its first step, and works from it on",
          "[plan]") {
  const PipelinePlan named = WithJoiner(Plan(), {1, 1}, TestNodeId(4), 3);
  REQUIRE(ValidatePlan(named, Config()).ok());
  CHECK(named.version == 3);
  CHECK(named.dead.empty());
  CHECK(named.joining == std::vector<Joiner>{{TestNodeId(4), 3, 3, -1, -1}});
  CHECK(PathOf(named, 1000, 1) == Path{{0, 1}, {1, 0}});
  CHECK(LiveReplicas(named, 1) == std::vector{TestNodeId(3)});
  CHECK(Holders(named, 1) == std::vector{TestNodeId(3), TestNodeId(4)});

  const PipelinePlan fixed = WithFirstStep(named, TestNodeId(4), Config(), 5);
  REQUIRE(ValidatePlan(fixed, Config()).ok());
  REQUIRE(JoinerOf(fixed, TestNodeId(4))->from_step == 21);  // where round 4 lands
  CHECK(PathOf(fixed, 20, 1) == Path{{0, 1}, {1, 0}});
  CHECK(PathOf(fixed, 21, 1) == Path{{0, 1}, {1, 1}});
  CHECK(VisitsOf(fixed, 20, TestNodeId(4)).empty());
  CHECK(VisitsOf(fixed, 21, TestNodeId(4)) == std::vector<PlannedVisit>{{1, 1}});
  CHECK(LiveReplicas(fixed, 1).size() == 2);
  CHECK(ParticipantsOf(fixed, 1, 4) == std::vector{TestNodeId(3)});
  CHECK(ParticipantsOf(fixed, 1, 5).size() == 2);
}

TEST_CASE("Handover: a round that the joiner cannot train in is not its first", "[plan]") {
  const auto overlap = GENERATE(0, 1, 3, 4);
  const PipelinePlan named = WithJoiner(Plan(), {1, 1}, TestNodeId(4), 3);
  const PipelinePlan fixed = WithFirstStep(named, TestNodeId(4), Config(overlap), 5);
  CHECK(ValidatePlan(fixed, Config(overlap)).ok());
  const Joiner& joiner = fixed.joining.front();
  CHECK(joiner.from_step == 20 + overlap);
  CHECK(joiner.from_round == (overlap == 4 ? 6 : 5));
}

TEST_CASE(
    "Handover: a newcomer takes the place of the dead node, a returned one its own or another",
    "[plan]") {
  const PipelinePlan newcomer = WithJoiner(Plan(), {1, 1}, TestNodeId(9), 0);
  CHECK(newcomer.dead.empty());
  CHECK(NodeOf(newcomer, {1, 1}) == TestNodeId(9));
  CHECK_FALSE(SlotOf(newcomer, TestNodeId(4)));

  PipelinePlan two_dead = Plan();
  two_dead.dead = {TestNodeId(2), TestNodeId(4)};
  const PipelinePlan exchanged = WithJoiner(two_dead, {1, 1}, TestNodeId(2), 0);
  CHECK(NodeOf(exchanged, {1, 1}) == TestNodeId(2));
  CHECK(NodeOf(exchanged, {0, 1}) == TestNodeId(4));
  CHECK(exchanged.dead == std::vector{TestNodeId(4)});
  CHECK(ValidatePlan(exchanged, Config()).ok());
}

TEST_CASE("Handover: a joiner that dies joins no more", "[plan]") {
  const PipelinePlan named = WithJoiner(Plan(), {1, 1}, TestNodeId(4), 3);
  const auto repaired = RepairPlan(named, {TestNodeId(4)}, 9);
  REQUIRE(repaired.ok());
  CHECK(repaired->joining.empty());
  CHECK(repaired->dead == std::vector{TestNodeId(4)});
}

TEST_CASE("Handover: plans whose joiners make no sense are refused", "[plan]") {
  PipelinePlan plan = WithJoiner(Plan(), {1, 1}, TestNodeId(4), 3);
  Joiner& joiner = plan.joining.front();
  SECTION("dead and joining") {
    plan.dead = {TestNodeId(4)};
  }
  SECTION("of no slot") {
    joiner.node = TestNodeId(77);
  }
  SECTION("named by a later plan") {
    joiner.since = 4;
  }
  SECTION("a step before which no round lands") {
    joiner.from_step = 20;
    joiner.from_round = 5;
  }
  SECTION("a step that is not in its round") {
    joiner.from_step = 21;
    joiner.from_round = 4;
  }
  SECTION("a step after the last") {
    joiner.from_step = 41;
    joiner.from_round = 10;
  }
  CHECK(absl::IsInvalidArgument(ValidatePlan(plan, Config())));
}

TEST_CASE("Handover: who had the slot gets it, else the faster device, nobody without memory",
          "[plan]") {
  PlannerInput input = FleetOf(
      {TestNodeId(1), TestNodeId(2), TestNodeId(3), TestNodeId(4), TestNodeId(7), TestNodeId(8)});
  input.devices[TestNodeId(8)].gflops = 30;
  const std::vector<NodeId> newcomers = {TestNodeId(7), TestNodeId(8)};
  CHECK(ChooseHandover(input, Plan(), 1, newcomers) == Handover{{1, 1}, TestNodeId(8)});
  CHECK(ChooseHandover(input, Plan(), 1, {TestNodeId(4), TestNodeId(7), TestNodeId(8)}) ==
        Handover{{1, 1}, TestNodeId(4)});
  CHECK_FALSE(ChooseHandover(input, Plan(), 0, newcomers));  // nobody is dead there
  input.devices[TestNodeId(8)].memory_bytes = 1000;
  CHECK(ChooseHandover(input, Plan(), 1, newcomers) == Handover{{1, 1}, TestNodeId(7)});
}

TEST_CASE("Handover: a plan that spreads takes nobody whose program would lead its paths otherwise",
          "[plan]") {
  PlannerInput input =
      FleetOf({TestNodeId(1), TestNodeId(2), TestNodeId(3), TestNodeId(7), TestNodeId(8)});
  input.devices[TestNodeId(8)].gflops = 30;
  input.devices[TestNodeId(7)].spreads = true;
  const std::vector<NodeId> newcomers = {TestNodeId(7), TestNodeId(8)};
  PipelinePlan plan = Plan();
  CHECK(ChooseHandover(input, plan, 1, newcomers) == Handover{{1, 1}, TestNodeId(8)});
  plan.settings.spreads = true;
  CHECK(ChooseHandover(input, plan, 1, newcomers) == Handover{{1, 1}, TestNodeId(7)});
  CHECK_FALSE(ChooseHandover(input, plan, 1, {TestNodeId(8)}));
}

TEST_CASE("Handover: a more urgent stage goes before a standby's own slot", "[plan]") {
  PipelinePlan plan = Plan();
  plan.stages[0].replicas.push_back(TestNodeId(5));
  plan.stages[0].replicas.push_back(TestNodeId(6));
  plan.dead = {TestNodeId(4), TestNodeId(5)};  // three live in stage 0, one in stage 1
  PlannerInput input = FleetOf({TestNodeId(1), TestNodeId(2), TestNodeId(3), TestNodeId(5)});
  CHECK(UrgencyOf(plan, 1) < UrgencyOf(plan, 0));
  CHECK(ChooseHandover(input, plan, 1, {TestNodeId(5)}) == Handover{{1, 1}, TestNodeId(5)});
  CHECK(ChooseHandover(input, plan, 0, {TestNodeId(5)}) == Handover{{0, 2}, TestNodeId(5)});
  plan.dead = {TestNodeId(2), TestNodeId(4), TestNodeId(5)};  // two: without them the run ends
  CHECK(UrgencyOf(plan, 0) < UrgencyOf(plan, 1));
  CHECK_FALSE(ChooseHandover(input, plan, 1, {TestNodeId(5)}));
}

TEST_CASE("Handover: of standbys with measured links, the one that makes a step shorter",
          "[plan]") {
  const std::vector<NodeId> nodes = {TestNodeId(1), TestNodeId(2), TestNodeId(3),
                                     TestNodeId(4), TestNodeId(7), TestNodeId(8)};
  PlannerInput input = FleetOf(nodes);
  input.devices[TestNodeId(8)].gflops = 11;  // faster, and far away
  input.links = LinkMatrix(nodes);
  for (const NodeId& from : nodes) {
    for (const NodeId& to : nodes) {
      const bool far = from == TestNodeId(8) || to == TestNodeId(8);
      if (from != to) input.links.Set(from, to, far ? 2.0 : 0.01, far ? 1e4 : 1e8);
    }
  }
  CHECK(ChooseHandover(input, Plan(), 1, {TestNodeId(7), TestNodeId(8)}) ==
        Handover{{1, 1}, TestNodeId(7)});
}

}  // namespace skerry
