// Placements with cohorts: what their rings and rounds take, and that few speak where that pays.
#include "routing/room_placement.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "common/rng.h"
#include "routing/critical_path.h"
#include "tests/routing/fleets.h"

namespace skerry {
namespace {

constexpr double kInside_s = 0.0002;  // of a message; its bytes take half of that

// `rooms` of `size` nodes each; node n is in room n % rooms. Between rooms a message takes what
// `way_s` says of two rooms, and its bytes a tenth of that. Stages of equal size, straight columns.
template <typename Way>
PlacementProblem InRooms(int32_t rooms, int32_t size, int32_t stages, const Way& way_s) {
  PlacementProblem problem;
  const int32_t nodes = rooms * size, replicas = nodes / stages;
  Workload& work = problem.workload;
  for (int32_t slot = 0; slot < nodes; ++slot) work.stage_of_slot.push_back(slot / replicas);
  work.forward_flops.assign(static_cast<size_t>(stages), 0.05 * kSecond);
  work.loss_flops = 0.02 * kSecond;
  work.in_flight = 4;
  for (int32_t m = 0; m < 4 * replicas; ++m) {
    Workload::Microbatch& microbatch = work.microbatches.emplace_back();
    for (int32_t s = 0; s < stages; ++s) microbatch.slots.push_back(s * replicas + m % replicas);
  }
  problem.fleet = EvenFleet(nodes, kInside_s, kInside_s / 2);
  problem.near.pairs.assign(problem.fleet.latency_s.size(), 1);
  for (int32_t i = 0; i < nodes; ++i) {
    for (int32_t j = 0; j < nodes; ++j) {
      if (i % rooms == j % rooms) continue;
      const size_t pair = problem.fleet.Pair(i, j);
      problem.near.pairs[pair] = 0;
      problem.fleet.latency_s[pair] = way_s(i % rooms, j % rooms);
      problem.fleet.wire_s[pair] = way_s(i % rooms, j % rooms) / 10;
    }
  }
  problem.near.gradient_boundaries.assign(static_cast<size_t>(stages), 20);
  problem.outer.delta_boundaries.assign(static_cast<size_t>(stages), 1);
  problem.outer.inner_steps = 8;
  problem.outer.overlap_steps = 1;
  return problem;
}

// Two slots of one stage, each with one microbatch in each of three steps: 0.4 s of a node of 1.
Workload TwoSlots() {
  Workload work;
  work.stage_of_slot = {0, 0};
  work.forward_flops = {0.1 * kSecond};
  work.loss_flops = 0.1 * kSecond;
  work.in_flight = 2;
  work.steps = 3;
  for (int32_t step = 0; step < 3; ++step) {
    for (int32_t slot = 0; slot < 2; ++slot) work.microbatches.push_back({step, {slot}});
  }
  return work;
}

// The second three times as slow as the first.
Fleet FastAndSlow() {
  Fleet fleet = EvenFleet(2, 0, 0);
  fleet.gflops = {3, 1};
  return fleet;
}

double Sea(int32_t, int32_t) {
  return 0.03;
}

// Rooms 0 and 1, 2 and 3, … are of one continent each.
double Ocean(int32_t a, int32_t b) {
  return a / 2 == b / 2 ? 0.005 : 0.15;
}

Placement Shuffled(const PlacementProblem& problem, uint64_t seed) {
  Placement placement;
  for (int32_t i = 0; i < problem.fleet.size(); ++i) placement.push_back(i);
  Rng rng(seed, "shuffle");
  for (size_t i = placement.size(); i > 1; --i)
    std::swap(placement[i - 1], placement[rng.Below(i)]);
  return placement;
}

// Messages of microbatches whose ends are at least so far apart.
int64_t Crossing(const PlacementProblem& problem, const Placement& placement, double way_s) {
  int64_t crossing = 0;
  for (const Workload::Microbatch& microbatch : problem.workload.microbatches) {
    int32_t last = placement[static_cast<size_t>(microbatch.slots.back())];
    for (const int32_t slot : microbatch.slots) {
      const int32_t node = placement[static_cast<size_t>(slot)];
      crossing += problem.fleet.latency_s[problem.fleet.Pair(last, node)] >= way_s ? 1 : 0;
      last = node;
    }
  }
  return crossing;
}

TEST_CASE("Traffic of a stage: a ring of three, a speaker that passes on", "[routing][cohorts]") {
  // Stage 0: nodes 0, 2, 4 of one room and 1 of the other.
  PlacementProblem problem = InRooms(2, 4, 2, Sea);
  problem.outer.delta_boundaries = {10, 1};
  const Placement placement = {0, 2, 1, 4, 3, 5, 6, 7};
  const std::vector<int32_t> slots = {0, 1, 2, 3};

  CHECK(CohortsAmong(problem, placement, slots) ==
        std::vector<std::vector<int32_t>>{{0, 1, 3}, {2}});
  const StageTraffic traffic = TrafficOf(problem, placement, 0, slots);
  CHECK(traffic.speakers == 2);
  // Four steps of a third of 20 boundaries of 0.1 ms each, and 0.2 ms of way.
  CHECK(traffic.ring_s == Approx(4 * (20 * 0.0001 / 3 + 0.0002)));
  // Ten boundaries of 3 ms, the way, and ten to each of two members.
  CHECK(traffic.delta_s == Approx(10 * 0.003 + 0.03 + 2 * 10 * 0.0001));
  CHECK(RingSeconds(problem, placement) >= traffic.ring_s);
  CHECK(Speakers(problem, placement) == 4);

  problem.near = {};  // each for itself, to three others
  CHECK(TrafficOf(problem, placement, 0, slots).ring_s == 0);
  CHECK(TrafficOf(problem, placement, 0, slots).delta_s == Approx(30 * 0.003 + 0.03));
  CHECK(Speakers(problem, placement) == 8);
  problem.outer.sharded_deltas = 1.5;
  problem.outer.sharded_from = 5;
  CHECK(TrafficOf(problem, placement, 0, slots).delta_s == Approx(30 * 0.003 + 0.03));
  problem.outer.sharded_from = 4;  // a quarter of 15 to each, in two legs
  CHECK(TrafficOf(problem, placement, 0, slots).delta_s == Approx(3 * 15.0 / 4 * 0.003 + 2 * 0.03));
}

TEST_CASE("Evaluator: a cohort's next step opens when all have summed", "[routing][cohorts]") {
  Workload work = TwoSlots();
  const Fleet fleet = FastAndSlow();
  Evaluator evaluator(work, fleet);
  CHECK(evaluator.StepSeconds({0, 1}) == Approx(0.4));
  const StepRings rings{{0, 0}, {0.05}};
  CHECK(evaluator.StepSeconds({0, 1}, &rings) == Approx(0.45));
  const StepRings none{{-1, -1}, {}};
  CHECK(evaluator.StepSeconds({0, 1}, &none) == Approx(0.4));
  // The second has work in the middle step only; in the others the first alone does.
  work.microbatches = {{0, {0}}, {1, {0}}, {1, {1}}, {2, {0}}};
  Evaluator uneven(work, fleet);
  CHECK(uneven.StepSeconds({0, 1}, &rings) == Approx((0.4 + 2 * 0.4 / 3) / 3 + 0.05));
  // In the middle step nobody has any.
  work.microbatches = {{0, {0}}, {0, {1}}, {2, {0}}};
  Evaluator idle(work, fleet);
  CHECK(idle.StepSeconds({0, 1}, &rings) == Approx((0.4 + 0.4 / 3) / 3 + 0.05));
}

TEST_CASE("Traffic of a stage: two in a ring wait for what the last pass does not hide",
          "[routing][cohorts]") {
  PlacementProblem problem = InRooms(2, 4, 2, Sea);
  problem.near.gradient_boundaries = {2000, 20};
  const Placement placement = {0, 2, 1, 3, 4, 5, 6, 7};
  const std::vector<int32_t> slots = {0, 1, 2, 3};
  const auto ring_s = [&] { return TrafficOf(problem, placement, 0, slots).ring_s; };
  // Two steps of half of 2,000 boundaries of 0.1 ms, and 0.2 ms of way.
  const double way_s = 2 * kInside_s, whole_s = 0.2 + way_s;
  CHECK(ring_s() == Approx(whole_s));

  // From the middle of a pass of 0.1 s on it is the ring that is waited for.
  problem.near.parts.assign(2, {{0.5, 0.5}, {0.5, 0}});
  CHECK(ring_s() == Approx(whole_s + way_s - 0.05));
  CHECK(RingsOf(problem, placement).seconds[0] == ring_s());
  problem.near.parts.assign(2, {{0.75, 0.5}, {0.25, 0}});
  CHECK(ring_s() == Approx(whole_s + way_s - 0.05));
  // The first is summed before the second is there.
  problem.near.gradient_boundaries = {200, 20};
  CHECK(ring_s() == Approx(0.25 * 0.02 + way_s));
  // A member whose pass is shorter may be the one that ends last.
  problem.near.gradient_boundaries = {2000, 20};
  problem.fleet.gflops[2] *= 2;
  CHECK(ring_s() == Approx(whole_s + way_s - 0.025));
  problem.fleet.gflops[2] /= 4;
  CHECK(ring_s() == Approx(whole_s + way_s - 0.05));
  problem.fleet.repeats.assign(16, 1);  // layers computed again make it longer
  CHECK(ring_s() == Approx(whole_s + way_s - 0.075));

  problem.near.overlap = true;  // then all of it is behind the next step
  CHECK(ring_s() == Approx(whole_s));
  problem.near.overlap = false;  // three sum in one go
  CHECK(TrafficOf(problem, {0, 2, 1, 4, 3, 5, 6, 7}, 0, slots).ring_s ==
        Approx(4 * (2000 * 0.0001 / 3 + kInside_s)));
}

TEST_CASE("Evaluator: the next step opens when the optimizer's is done", "[routing][cohorts]") {
  Workload work = TwoSlots();
  work.step_flops = {0.3 * kSecond};
  const Fleet fleet = FastAndSlow();
  Evaluator evaluator(work, fleet);
  CHECK(evaluator.StepSeconds({0, 1}) == Approx(0.7));
  CHECK(evaluator.Evaluate({0, 1}).busy_s.back() == Approx(0.7));
  const auto records = evaluator.Trace({0, 1});
  CHECK(std::count_if(records.begin(), records.end(), [](const TaskRecord& record) {
          return record.kind == TaskRecord::Kind::kStep;
        }) == 6);
  const StepParts parts = PartsOf(work, fleet, {0, 1}, records);
  CHECK(parts.computing_s == Approx(0.7));
  CHECK(parts.waiting_s == Approx(0));
  const StepRings rings{{0, 0}, {0.05}};
  CHECK(evaluator.StepSeconds({0, 1}, &rings) == Approx(0.75));
  const StepRings hidden{{0, 0}, {0.05}, true};
  CHECK(evaluator.StepSeconds({0, 1}, &hidden) == Approx(0.7));
}

TEST_CASE("Evaluator: with overlap a cohort waits for the sum of the step before",
          "[routing][cohorts]") {
  Workload work = TwoSlots();
  const Fleet fleet = FastAndSlow();
  Evaluator evaluator(work, fleet);
  // Behind a step of the slower one, which itself never waits.
  const StepRings hidden{{0, 0}, {0.05}, true};
  CHECK(evaluator.StepSeconds({0, 1}, &hidden) == Approx(0.4));
  // From 0.4 to 0.9: its step 1 is over at 0.8, and step 2 begins 0.1 later.
  const StepRings longer{{0, 0}, {0.5}, true};
  CHECK(evaluator.StepSeconds({0, 1}, &longer) == Approx(1.3 / 3));
  // The second has work in the middle step only, and begins with it.
  work.microbatches = {{0, {0}}, {1, {0}}, {1, {1}}, {2, {0}}};
  Evaluator uneven(work, fleet);
  CHECK(uneven.StepSeconds({0, 1}, &hidden) == Approx(0.4 / 3));
  // In the middle step nobody has any: it is over when the sum of the first is there.
  work.microbatches = {{0, {0}}, {0, {1}}, {2, {0}}};
  Evaluator idle(work, fleet);
  CHECK(idle.StepSeconds({0, 1}, &hidden) == Approx((0.45 + 0.4 / 3) / 3));
}

TEST_CASE("Room placements: from one group of rooms to as many as rooms", "[routing][cohorts]") {
  const PlacementProblem problem = InRooms(4, 4, 2, Ocean);
  const Placement start = Shuffled(problem, 1);
  const std::vector<Placement> by_rooms = RoomPlacements(problem, start, 1, 4);

  std::multiset<int32_t> speakers;
  for (const Placement& placement : by_rooms) {
    CHECK(std::is_permutation(start.begin(), start.end(), placement.begin()));
    speakers.insert(Speakers(problem, placement));
  }
  CHECK(speakers == std::multiset<int32_t>{4, 6, 8});
  CHECK(Crossing(problem, by_rooms.front(), 0.15) == 0);  // of one group and of two the same
  CHECK(Crossing(problem, by_rooms.back(), 0.005) == 0);  // four: every pipeline in its room
  PlacementProblem apart = problem;
  apart.near = {};
  CHECK(RoomPlacements(apart, start, 1, 4).empty());
}

TEST_CASE("Placement: few speak where deltas are what a step waits for", "[routing][cohorts]") {
  // A delta takes 6 s to each other speaker: one stage a room, and nobody sends any.
  PlacementProblem problem = InRooms(3, 4, 3, Sea);
  problem.outer.delta_boundaries.assign(3, 2000);
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const PlacementResult found =
        Place(problem, Shuffled(problem, seed), {.seed = seed, .evaluations = 1000});
    CAPTURE(seed);
    CHECK(Speakers(problem, found.placement) == 3);
    CHECK(found.exposed_s == 0);
    CHECK(found.ring_s == Approx(6 * (20 * 0.0001 / 4 + 0.0002)));
    CHECK(found.total_s() == found.step_s);
  }
}

TEST_CASE("Placement: pipelines stay in rooms where deltas are hidden", "[routing][cohorts]") {
  const PlacementProblem problem = InRooms(3, 4, 2, Sea);
  const PlacementResult found =
      Place(problem, Shuffled(problem, 1), {.seed = 1, .evaluations = 1000});
  CHECK(Crossing(problem, found.placement, 0.03) == 0);
  CHECK(Speakers(problem, found.placement) == 6);
  CHECK(found.exposed_s == 0);
}

TEST_CASE("Placement: pipelines cross rooms and deltas oceans, where both are dear",
          "[routing][cohorts]") {
  PlacementProblem problem = InRooms(4, 4, 2, Ocean);
  problem.outer.delta_boundaries.assign(2, 100);  // 1.5 s over the ocean, a step 0.7 s
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const PlacementResult found =
        Place(problem, Shuffled(problem, seed), {.seed = seed, .evaluations = 1500});
    CAPTURE(seed);
    CHECK(Speakers(problem, found.placement) == 4);
    CHECK(Crossing(problem, found.placement, 0.15) == 0);
    CHECK(Crossing(problem, found.placement, 0.005) > 0);
  }
}

TEST_CASE("Placement: rooms that fit no stage still leave few speakers", "[routing][cohorts]") {
  // Five rooms of three, three stages of five replicas: 7 cohorts at least.
  PlacementProblem problem = InRooms(5, 3, 3, Sea);
  problem.outer.delta_boundaries.assign(3, 2000);
  const PlacementResult found =
      Place(problem, Shuffled(problem, 2), {.seed = 2, .evaluations = 3000});
  CHECK(Speakers(problem, found.placement) <= 7);
}

TEST_CASE("Rooms: an exchange of rooms makes no cohort more", "[routing][cohorts]") {
  const PlacementProblem problem = InRooms(3, 4, 3, Sea);
  Placement placement = RoomPlacements(problem, Shuffled(problem, 1), 1, 1).front();
  REQUIRE(Speakers(problem, placement) == 3);
  const Rooms rooms(problem, placement);
  REQUIRE(rooms.Any());
  Rng rng(1, "exchanges");
  int32_t exchanged = 0;
  for (int i = 0; i < 50; ++i) {
    const Placement before = placement;
    const bool is_other = rooms.Exchange(rng, placement);
    CHECK(is_other == (placement != before));
    CHECK(Speakers(problem, placement) == 3);
    exchanged += is_other ? 1 : 0;
  }
  CHECK(exchanged > 10);
}

}  // namespace
}  // namespace skerry
