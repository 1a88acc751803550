#include "pipeline/plan/cohorts.h"

#include <catch2/catch.hpp>
#include <set>

#include "pipeline/plan/route.h"

using namespace skerry;

namespace {

// Stage 0 of four, stage 1 of three: nodes 0 to 3 and 10 to 12.
PipelinePlan Plan() {
  PipelinePlan plan;
  plan.version = 1;
  plan.stages.resize(2);
  for (uint32_t i = 0; i < 4; ++i) plan.stages[0].replicas.push_back(TestNodeId(i));
  for (uint32_t i = 10; i < 13; ++i) plan.stages[1].replicas.push_back(TestNodeId(i));
  return plan;
}

// All near each other, but for the nodes of `far`, which are near nobody.
CohortInput Input(const PipelinePlan& plan, const std::set<uint32_t>& far = {}) {
  CohortInput input;
  input.cluster = {"measured", 1000, 2};
  std::set<NodeId> nodes, apart;
  for (const uint32_t i : far) apart.insert(TestNodeId(i));
  for (const StageAssignment& stage : plan.stages)
    nodes.insert(stage.replicas.begin(), stage.replicas.end());
  input.links = LinkMatrix({nodes.begin(), nodes.end()});
  for (const NodeId& a : nodes) {
    input.devices[a] = {"cpu", "avx2, 1 thread", 10, 0};
    input.regions[a] = apart.contains(a) ? "far" : "lab";
    for (const NodeId& b : nodes) {
      const bool is_far = apart.contains(a) || apart.contains(b);
      if (a != b) input.links.Set(a, b, is_far ? 0.05 : 0.0005, is_far ? 1e6 : 1.25e9);
    }
  }
  return input;
}

std::vector<NodeId> Nodes(std::initializer_list<uint32_t> numbers) {
  std::vector<NodeId> nodes;
  for (const uint32_t i : numbers) nodes.push_back(TestNodeId(i));
  return nodes;
}

}  // namespace

TEST_CASE("Cohorts: near replicas of a stage are one, far ones each by itself", "[plan][cohorts]") {
  PipelinePlan plan = Plan();
  SetCohorts(Input(plan, {1, 11}), &plan);
  CHECK(plan.stages[0].cohorts == std::vector<int32_t>{0, 1, 0, 0});
  CHECK(plan.stages[1].cohorts == std::vector<int32_t>{0, 1, 0});
  CHECK(CohortOf(plan, TestNodeId(3)) == Nodes({0, 2, 3}));
  CHECK(CohortOf(plan, TestNodeId(1)) == Nodes({1}));
  CHECK(ParticipantsOf(plan, 0, 5) == Nodes({0, 1}));
  CHECK(CheckCohorts(plan).ok());
}

TEST_CASE("Cohorts: none where all are alone, or where they are off", "[plan][cohorts]") {
  PipelinePlan plan = Plan();
  SetCohorts(Input(plan, {0, 1, 2, 3, 10, 11, 12}), &plan);
  CHECK(plan == Plan());
  CohortInput off = Input(plan);
  off.cluster.groups = "off";
  SetCohorts(off, &plan);
  CHECK(plan == Plan());
  CHECK(ParticipantsOf(plan, 0, 5) == plan.stages[0].replicas);
}

TEST_CASE("Cohorts: why two are apart is said", "[plan][cohorts]") {
  const PipelinePlan plan = Plan();
  CohortInput input = Input(plan, {1});
  const NodeId a = TestNodeId(0), b = TestNodeId(2);
  CHECK(WhyApart(input, a, b).empty());
  CHECK(WhyApart(input, a, TestNodeId(1)).find("Mbit/s") != std::string::npos);
  input.links.Set(a, b, 0.004, 1.25e9);
  CHECK(WhyApart(input, a, b).find("round trip of 4.00 ms") != std::string::npos);
  input.links.Set(a, b, 0.0005, 1e7);
  CHECK(WhyApart(input, b, a).find("80 Mbit/s") != std::string::npos);
  input.devices[b].network = "InfiniBand";
  CHECK(WhyApart(input, a, b).find("80 Mbit/s") != std::string::npos);  // of one it is not known
  input.devices[a].network = "Ethernet";
  CHECK(WhyApart(input, a, b).find("network cards") != std::string::npos);
  input.devices[b].numeric_profile = "avx512, 1 thread";
  CHECK(WhyApart(input, a, b).find("other bits") != std::string::npos);
  CHECK(!WhyApart(input, a, TestNodeId(77)).empty());
}

TEST_CASE("Cohorts: the operator's groups count instead of links", "[plan][cohorts]") {
  PipelinePlan plan = Plan();
  CohortInput input = Input(plan, {1, 3});
  input.cluster.groups =
      "far; " + TestNodeId(0).Hex().substr(0, 64) + " " + TestNodeId(2).Hex().substr(0, 64);
  SetCohorts(input, &plan);
  CHECK(plan.stages[0].cohorts == std::vector<int32_t>{0, 1, 0, 1});
  CHECK(plan.stages[1].cohorts.empty());
}

TEST_CASE("Cohorts: the next living member speaks when one dies", "[plan][cohorts]") {
  PipelinePlan plan = Plan();
  SetCohorts(Input(plan), &plan);
  const uint64_t before = FormationOf(plan, 0, CohortOf(plan, TestNodeId(1)));
  plan.dead = {TestNodeId(0)};
  CHECK(CohortOf(plan, TestNodeId(2)) == Nodes({1, 2, 3}));
  CHECK(CohortOf(plan, TestNodeId(0)).empty());
  CHECK(ParticipantsOf(plan, 0, 5) == Nodes({1}));
  CHECK(FormationOf(plan, 0, CohortOf(plan, TestNodeId(1))) != before);
  plan.absent = {{0, 5, TestNodeId(1)}};  // the whole cohort, not the next of it
  CHECK(ParticipantsOf(plan, 0, 5).empty());
  CHECK(ParticipantsOf(plan, 0, 6) == Nodes({1}));
}

TEST_CASE("Cohorts: who leaves is alone, and absent from what it said with the others",
          "[plan][cohorts]") {
  PipelinePlan plan = Plan();
  SetCohorts(Input(plan), &plan);
  const PipelinePlan next = WithoutMember(plan, TestNodeId(0), 4, 6);
  CHECK(next.version == 2);
  CHECK(CohortOf(next, TestNodeId(0)) == Nodes({0}));
  CHECK(CohortOf(next, TestNodeId(3)) == Nodes({1, 2, 3}));
  CHECK(ParticipantsOf(next, 0, 4) == Nodes({1}));
  CHECK(ParticipantsOf(next, 0, 6) == Nodes({0, 1}));
  CHECK(HearersOf(next, 0) == Nodes({0, 1}));
  const PipelinePlan later = WithoutMember(next, TestNodeId(1), 5, 7);
  CHECK(CohortOf(later, TestNodeId(1)) == Nodes({1}));
  CHECK(CohortOf(later, TestNodeId(0)) == Nodes({0}));
}

TEST_CASE("Cohorts: who fills a slot is alone in it", "[plan][cohorts]") {
  PipelinePlan before = Plan();
  SetCohorts(Input(before), &before);
  PipelinePlan after = before;
  ++after.version;
  after.stages[0].replicas[1] = TestNodeId(50);
  PartMoved(before, &after);
  CHECK(CohortOf(after, TestNodeId(50)) == Nodes({50}));
  CHECK(CohortOf(after, TestNodeId(0)) == Nodes({0, 2, 3}));
  PipelinePlan back = before;  // the same node, with nothing
  ++back.version;
  back.joining = {{TestNodeId(2), back.version, 3, -1, -1}};
  PartMoved(before, &back);
  CHECK(CohortOf(back, TestNodeId(2)) == Nodes({2}));
}

TEST_CASE("CheckCohorts: a number for each slot, from 0", "[plan][cohorts]") {
  PipelinePlan plan = Plan();
  plan.stages[1].cohorts = {0, 0};
  CHECK(!CheckCohorts(plan).ok());
  plan.stages[1].cohorts = {0, -1, 0};
  CHECK(!CheckCohorts(plan).ok());
}
