// Plans with cohorts: what is predicted is of the cohorts that the plan has, and they pay.
#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "common/status.h"
#include "pipeline/plan/plan_model.h"
#include "pipeline/plan/planner.h"
#include "pipeline/plan/replan.h"
#include "pipeline/plan/replan_changes.h"
#include "pipeline/plan/route.h"
#include "pipeline/plan/validate.h"

namespace skerry {
namespace {

constexpr double kMbit = 125e3;

// `rooms` of `size` nodes: 10 Gbit/s and 0.2 ms inside, 100 Mbit/s and 50 ms between.
PlannerInput InRooms(uint32_t rooms, uint32_t size) {
  PlannerInput input;
  RunConfig& config = input.config;
  config.cluster.groups = "measured";
  config.model.layers = 12;
  config.model.hidden = 512;
  config.model.heads = 8;
  config.model.kv_heads = 8;
  config.model.ffn = 1536;
  config.pipeline.stages = 3;
  config.pipeline.skip_ratio = 0;
  config.pipeline.sequences_per_microbatch = 1;
  config.pipeline.microbatches_per_step = 4 * static_cast<int32_t>(size);
  config.outer.inner_steps = 8;
  config.outer.overlap_steps = 1;
  config.outer.codec = DeltaCodec::kBf16;
  config.nodes_min = static_cast<int32_t>(rooms * size);
  for (uint32_t i = 0; i < rooms * size; ++i) {
    input.nodes.push_back(TestNodeId(i + 1));
    input.devices[TestNodeId(i + 1)] = {"gpu", "cuda", 400, int64_t{16} << 30};
    input.regions[TestNodeId(i + 1)] = "room" + std::to_string(i % rooms);
  }
  input.links = LinkMatrix(input.nodes);
  for (uint32_t i = 0; i < rooms * size; ++i) {
    for (uint32_t j = 0; j < rooms * size; ++j) {
      if (i == j) continue;
      const bool inside = i % rooms == j % rooms;
      input.links.Set(TestNodeId(i + 1), TestNodeId(j + 1), inside ? 0.0002 : 0.05,
                      (inside ? 10000 : 100) * kMbit);
    }
  }
  return input;
}

PlannedRun Planned(const PlannerInput& input) {
  auto run = MakePlan(input);
  CAPTURE(ErrorText(run.status()));
  REQUIRE(run.ok());
  REQUIRE(ValidatePlan(run->plan, Settled(input.config, run->plan)).ok());
  return *std::move(run);
}

int32_t SpeakersOf(const PipelinePlan& plan) {
  int32_t speakers = 0;
  for (int32_t stage = 0; stage < static_cast<int32_t>(plan.stages.size()); ++stage)
    speakers += static_cast<int32_t>(HearersOf(plan, stage).size());
  return speakers;
}

TEST_CASE("Cohort plans: a stage a room, where deltas would be waited for", "[plan][cohorts]") {
  PlannerInput input = InRooms(3, 4);
  input.config.outer.codec = DeltaCodec::kNone;
  const PlannedRun planned = Planned(input);
  CHECK(planned.speakers == 3);
  CHECK(SpeakersOf(planned.plan) == planned.speakers);
  CHECK(planned.ring_s > 0);
  CHECK(planned.outer.sent_bytes == 0);
  CHECK(planned.explanation.find("3 of 12 replicas speak") != std::string::npos);
  CHECK(planned.predicted_step_s == Approx(PredictedStepSeconds(input, planned.plan)));

  PlannerInput off = input;
  off.config.cluster.groups = "off";
  const PlannedRun each = Planned(off);
  CHECK(each.speakers == 12);
  CHECK(each.ring_s == 0);
  CHECK(each.explanation.find("speak") == std::string::npos);
  CHECK(planned.predicted_step_s < each.predicted_step_s);
  // The same nodes in the places of the plan without would speak more.
  PipelinePlan after = each.plan;
  SetCohorts({input.config.cluster, input.devices, input.regions, input.links}, &after);
  CHECK(SpeakersOf(after) > planned.speakers);
  CHECK(PredictedStepSeconds(input, after) > planned.predicted_step_s);
}

TEST_CASE("Cohort plans: the operator's groups by region are placed like measured ones",
          "[plan][cohorts]") {
  PlannerInput input = InRooms(3, 3);
  const PlannedRun measured = Planned(input);
  input.config.cluster.groups = "room0; room1; room2";
  const PlannedRun named = Planned(input);
  CHECK(measured.speakers == 3);
  CHECK(named.plan == measured.plan);
  input.config.cluster.groups = "room1";  // the others are each by itself
  const PlannedRun one = Planned(input);
  CHECK(one.speakers == SpeakersOf(one.plan));
  CHECK(one.speakers > 3);
}

TEST_CASE("Cohort plans: other cards and other bits are no cohort", "[plan][cohorts]") {
  PlannerInput input = InRooms(3, 4);
  for (uint32_t i = 0; i < 12; ++i)
    input.devices[TestNodeId(i + 1)].network = i / 3 % 2 == 0 ? "InfiniBand" : "Ethernet";
  const PlannedRun planned = Planned(input);
  CHECK(planned.speakers == 6);  // half a room is the most that is together
  for (const StageAssignment& stage : planned.plan.stages) {
    for (size_t a = 0; a < stage.replicas.size(); ++a) {
      for (size_t b = 0; b < a && !stage.cohorts.empty(); ++b) {
        if (stage.cohorts[a] != stage.cohorts[b]) continue;
        CHECK(input.devices[stage.replicas[a]].network == input.devices[stage.replicas[b]].network);
      }
    }
  }
}

TEST_CASE("Cohort plans: what speakers send is chosen for as many as speak", "[plan][cohorts]") {
  // Two speakers a stage instead of six: a richer codec, or a shorter δ, is hidden.
  PlannerInput input = InRooms(2, 6);
  input.config.pipeline.stages = 2;
  input.config.outer.overlap_steps = -1;
  input.config.outer.inner_steps = 128;
  const PlannedRun cohorts = Planned(input);
  PlannerInput off = input;
  off.config.cluster.groups = "off";
  off.config.outer.reduce = OuterReduce::kAll;
  const PlannedRun each = Planned(off);
  CHECK(cohorts.speakers <= 4);
  CHECK(cohorts.outer.sent_bytes < each.outer.sent_bytes);
  CHECK(cohorts.outer.overlap_steps < each.outer.overlap_steps);
}

TEST_CASE("Cohort plans: from four speakers on rounds are sharded, and cost what speakers send",
          "[plan][cohorts]") {
  const bool somebody_is_older = GENERATE(false, true);
  for (const uint32_t rooms : {3, 5}) {
    PlannerInput input = InRooms(rooms, 2);
    for (auto& [node, device] : input.devices)
      device.spreads = !somebody_is_older || node != input.nodes[1];
    input.config.pipeline.stages = 1;
    input.config.pipeline.microbatches_per_step = static_cast<int32_t>(2 * rooms);
    const PlannedRun automatic = Planned(input);
    PlannerInput all = input, sharded = input;
    all.config.outer.reduce = OuterReduce::kAll;
    sharded.config.outer.reduce = OuterReduce::kSharded;
    const PlannedRun whole = Planned(all), parts = Planned(sharded);
    CHECK(automatic.speakers == static_cast<int32_t>(rooms));
    const bool shards = rooms > 3 && !somebody_is_older;
    const PlannedRun& same = shards ? parts : whole;
    CHECK(automatic.outer.sent_bytes == same.outer.sent_bytes);
    CHECK(automatic.predicted_step_s == same.predicted_step_s);
    const auto model = ModelOf(input, automatic.plan);
    REQUIRE(model.ok());
    const OuterTraffic& outer = model->problem.outer;
    CHECK((outer.ToEach(0, rooms).sums > 0) == shards);
    // (N − 1) deltas, or twice (N − 1) / N of one.
    CHECK(static_cast<double>(parts.outer.sent_bytes) * rooms ==
          Approx(2.0 * static_cast<double>(whole.outer.sent_bytes)).epsilon(0.01));
    CHECK(parts.predicted_step_s < whole.predicted_step_s);
  }
}

TEST_CASE("Cohort plans: the dead do not count in what is predicted", "[plan][cohorts]") {
  const PlannerInput input = InRooms(3, 4);
  const PlannedRun planned = Planned(input);
  const std::vector<NodeId>& replicas = planned.plan.stages[1].replicas;
  const auto fewer = RepairPlan(planned.plan, {replicas[0], replicas[2]}, 2);
  REQUIRE(fewer.ok());
  const PipelinePlan living = LivingOnly(*fewer);
  CHECK(living.stages[1].cohorts.size() == 2);
  CHECK(SpeakersOf(living) == 3);
  const auto model = ModelOf(input, living);
  REQUIRE(model.ok());
  CHECK(Speakers(model->problem, model->placement) == 3);
  const auto parted = ModelOf(input, WithoutMember(planned.plan, replicas[1], 0, 0));
  REQUIRE(parted.ok());
  CHECK(Speakers(parted->problem, parted->placement) == 4);
}

TEST_CASE("Ring seconds: by the members' slowest link", "[plan][cohorts]") {
  const PlannerInput input = InRooms(3, 4);
  const PlannedRun planned = Planned(input);
  const std::vector<NodeId> members = CohortOf(planned.plan, planned.plan.stages[2].replicas[0]);
  REQUIRE(members.size() == 4);
  const double inside = RingSeconds(input.config, planned.plan, 2, members, input.links);
  CHECK(inside > 0);
  CHECK(inside <= planned.ring_s);
  LinkMatrix slow = input.links;
  slow.Set(members[1], members[2], 0.0002, 1000 * kMbit);
  const double slower = RingSeconds(input.config, planned.plan, 2, members, slow);
  CHECK(slower / inside == Approx(10).epsilon(0.1));
  CHECK(RingSeconds(input.config, planned.plan, 2, {members[0]}, slow) == 0);
}

}  // namespace
}  // namespace skerry
