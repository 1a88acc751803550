// Microbatches led around who is late. Nodes 0, 1 hold stage 0, 2, 3 stage 1, 4, 5 stage 2; node 6
// alone holds stage 3.

#include <catch2/catch.hpp>

#include "pipeline/plan/route.h"
#include "tests/pipeline/exec/crew.h"

using namespace skerry;
using namespace skerry::testing;

namespace {

// Every microbatch of a step takes all four stages; m starts at node m mod 2 and visits replica
// m mod 2 of the others.
PipelinePlan Plan(int32_t microbatches = 2) {
  PipelinePlan plan;
  plan.version = 1;
  plan.microbatches_per_step = microbatches;
  for (int32_t s = 0; s < 3; ++s) {
    const auto first = static_cast<uint32_t>(2 * s);
    plan.stages.push_back({s, s + 1, {TestNodeId(first), TestNodeId(first + 1)}});
  }
  plan.stages.push_back({3, 4, {TestNodeId(6)}});
  plan.paths = {{{0, 0}, {1, 0}, {2, 0}, {3, 0}}, {{0, 1}, {1, 1}, {2, 1}, {3, 0}}};
  return plan;
}

// One that has answered once, so that its history is known.
Crew Running(const PipelinePlan& plan = Plan(), bool detours = true) {
  Crew crew(plan, detours);
  crew.Begin(0);
  REQUIRE(crew.IsOver());
  return crew;
}

std::vector<NodeId> Around(const Crew& crew) {
  std::vector<NodeId> around;
  for (const auto& [home, detour] : crew.detours) around.push_back(detour.around);
  return around;
}

}  // namespace

TEST_CASE("Late: when all is well nobody says a word of it", "[exec][late]") {
  Crew crew(Plan(6));
  for (int64_t step = 0; step < 20; ++step) {
    crew.Begin(step);
    crew.Wait(1);
    REQUIRE(crew.IsOver());
  }
  CHECK(crew.detours.empty());
  for (const Crew::Sent& sent : crew.seen) {
    CHECK(!std::holds_alternative<HopLate>(sent.message));
    CHECK(!std::holds_alternative<MicrobatchVoid>(sent.message));
  }
}

TEST_CASE("Late: a node that hangs is found and led around, its stand-in counts", "[exec][late]") {
  Crew crew = Running();
  const uint32_t hung = GENERATE(2, 4);  // after the stage-0 node, and in the middle
  crew.At(hung).stopped = true;

  crew.Begin(1);
  crew.Wait(4);
  CHECK(crew.detours.empty());  // not before the floor
  REQUIRE(crew.WaitUntilOver(2) >= 0);

  REQUIRE(crew.detours.size() == 1);
  const auto& [home, detour] = crew.detours.front();
  CHECK(home == TestNodeId(0));
  CHECK(detour == Detour{1, 0, TestNodeId(hung), detour.waited_s, false, 1});
  CHECK(detour.waited_s > Crew::kFloor);
  CHECK(crew.Counted(hung + 1, 1, 0) == 1);
  CHECK(crew.Counted(hung, 1, 0) == 0);
  CHECK(crew.Counted(0, 1, 0) == 1);
}

TEST_CASE("Late: a first step is waited for as long as four of the plan's", "[exec][late]") {
  PipelinePlan plan = Plan();
  plan.settings.step_s = 30;
  Crew crew(plan);
  crew.At(2).stopped = true;
  crew.Begin(0);
  crew.Wait(4 * 30);
  CHECK(crew.detours.empty());
  REQUIRE(crew.WaitUntilOver(8) >= 0);
  CHECK(Around(crew) == std::vector<NodeId>{TestNodeId(2)});
}

// Seed 57 of the sixth draw: gradients that waited for their turn behind a late microbatch taught
// their node that such waits are usual, and the next late one was waited for four times as long.
TEST_CASE("Late: what is held up behind a late microbatch does not teach patience",
          "[exec][late]") {
  PipelinePlan plan;
  plan.version = 1;
  plan.microbatches_per_step = 2;
  plan.stages = {{0, 1, {TestNodeId(0)}}, {1, 2, {TestNodeId(2), TestNodeId(3), TestNodeId(4)}}};
  plan.paths = {{{0, 0}, {1, 0}}, {{0, 0}, {1, 1}}, {{0, 0}, {1, 2}}};
  Crew crew(plan, true, 1);
  crew.Begin(0);
  REQUIRE(crew.IsOver());

  const auto hangs = [&](uint32_t node, bool stopped) { crew.At(node).stopped = stopped; };
  const NodeId first = NodeOf(plan, PathOf(plan, 1, 0)[1]);
  for (uint32_t node = 2; node <= 4; ++node) hangs(node, TestNodeId(node) == first);
  crew.Begin(1);
  REQUIRE(crew.WaitUntilOver(6) >= 0);

  for (uint32_t node = 2; node <= 4; ++node) hangs(node, true);
  crew.Begin(2);
  CHECK(crew.WaitUntilOver(40) >= 0);
}

TEST_CASE("Late: a stage that nobody else holds is left out", "[exec][late]") {
  Crew crew = Running();
  crew.At(6).stopped = true;
  crew.Begin(1);
  REQUIRE(crew.WaitUntilOver(6) >= 0);
  REQUIRE(crew.detours.size() == 2);  // of either stage-0 node
  for (const auto& [home, detour] : crew.detours) {
    CHECK(detour.around == TestNodeId(6));
    CHECK(detour.skipped);
  }
  for (const uint32_t node : {0u, 2u, 4u}) CHECK(crew.Counted(node, 1, 0) == 1);
}

// Seed 4 of soak, leg 3: the only replica of the last stage waited for a joiner, and the last 46
// steps of a run that skips nothing were trained without that stage.
TEST_CASE("Late: a stage that nobody else holds is waited for where none may be left out",
          "[exec][late]") {
  Crew crew(Plan(), true, 0, false);
  crew.Begin(0);
  REQUIRE(crew.IsOver());
  crew.At(6).stopped = true;
  crew.Begin(1);
  CHECK(crew.WaitUntilOver(30) == -1);
  crew.At(6).stopped = false;
  crew.Begin(1);
  REQUIRE(crew.WaitUntilOver(6) >= 0);
  for (const int32_t m : {0, 1}) CHECK(crew.Counted(6, 1, m) == 1);
  for (const auto& [home, detour] : crew.detours) CHECK_FALSE(detour.skipped);
}

TEST_CASE("Late: the link to a stage that nobody else holds is led around by the node before it",
          "[exec][late]") {
  Crew crew(Plan(), true, 0, false);
  crew.Begin(0);
  REQUIRE(crew.IsOver());
  crew.BreakBoth(4, 6);
  crew.Begin(1);
  CHECK(crew.WaitUntilOver(40) >= 0);
  CHECK(crew.Counted(6, 1, 0) == 1);
  CHECK(Around(crew) == std::vector{TestNodeId(4)});
}

TEST_CASE("Late: a broken link costs the node behind it the microbatch, whichever link it is",
          "[exec][late]") {
  // Of the path 0, 2, 4, 6 and back to 0.
  const auto [a, b] = GENERATE(Crew::Link{0, 2}, Crew::Link{2, 4}, Crew::Link{4, 6},
                               Crew::Link{6, 0}, Crew::Link{0, 4});
  const bool forward = GENERATE(true, false), backward = GENERATE(true, false);
  Crew crew = Running();
  if (forward) crew.Break(a, b);
  if (backward) crew.Break(b, a);
  crew.Begin(1);
  INFO(a << " to " << b << (forward ? ", there" : "") << (backward ? ", back" : ""));
  CHECK(crew.WaitUntilOver(30) >= 0);
  CHECK(crew.IsOver());
  CHECK(crew.Counted(0, 1, 0) == 1);
  for (int64_t step = 2; step < 8; ++step) {
    crew.Begin(step);
    CHECK(crew.WaitUntilOver(60) >= 0);
  }
  CHECK(crew.IsOver());
  // Node 1's microbatches are none of it, but for the node that both go through.
  for (const auto& [home, detour] : crew.detours) CHECK(home == TestNodeId(0));
}

TEST_CASE("Late: without detours a broken link holds everybody up for ever", "[exec][late]") {
  Crew crew = Running(Plan(), false);
  crew.BreakBoth(2, 4);
  crew.Begin(1);
  CHECK(crew.WaitUntilOver(1000) == -1);
  CHECK(crew.seen.size() > 0);
  CHECK(crew.detours.empty());
}

TEST_CASE("Late: who was led around does not wait, nor work, for it when it comes back",
          "[exec][late]") {
  Crew crew = Running();
  crew.At(4).stopped = true;  // its activation is with it
  crew.Begin(1);
  REQUIRE(crew.WaitUntilOver(6) >= 0);

  crew.At(4).stopped = false;
  crew.Begin(1);

  CHECK(crew.IsOver());
  CHECK(crew.Counted(4, 1, 0) == 0);
  CHECK(crew.At(4).work.kept.empty());
  for (const uint32_t node : {0u, 2u, 5u, 6u}) {
    CHECK(crew.Counted(node, 1, 0) == 1);
    CHECK(crew.At(node).work.kept.empty());
  }
}

TEST_CASE("Late: what the old attempt still brings is refused, and leaves nothing behind",
          "[exec][late]") {
  Crew crew = Running();
  crew.Break(2, 4);
  crew.Begin(1);
  REQUIRE(crew.WaitUntilOver(6) >= 0);
  const int64_t refused = crew.actor(4).refused();

  crew.broken.clear();  // the activation of attempt 0 comes after all
  crew.Settle();

  CHECK(crew.actor(4).refused() == refused + 1);
  CHECK(crew.At(4).work.kept.empty());
  CHECK(crew.Counted(4, 1, 0) == 0);
  crew.Begin(2);
  CHECK(crew.IsOver());
}

TEST_CASE("Late: an old attempt that is already past the culprit ends where it is",
          "[exec][late]") {
  Crew crew = Running();
  crew.Break(4, 2);  // there, but not back: stages 2 and 3 have counted attempt 0
  crew.Begin(1);
  REQUIRE(crew.WaitUntilOver(6) >= 0);
  CHECK(crew.Counted(4, 1, 0) == 1);  // both may: each counts it once
  CHECK(crew.Counted(5, 1, 0) == 1);
  CHECK(crew.Counted(6, 1, 0) == 1);
  CHECK(crew.Counted(2, 1, 0) == 1);
  crew.broken.clear();
  crew.Settle();
  for (uint32_t node = 0; node < 7; ++node) CHECK(crew.At(node).work.kept.empty());
}

TEST_CASE("Late: later microbatches avoid it at once, then one tries it, then all are back",
          "[exec][late]") {
  Crew crew = Running();
  crew.At(4).stopped = true;
  crew.Begin(1);
  REQUIRE(crew.WaitUntilOver(6) >= 0);
  crew.detours.clear();

  crew.Begin(2);
  CHECK(crew.IsOverForTheRest());
  CHECK(crew.detours ==
        std::vector{std::pair{TestNodeId(0), Detour{2, 0, TestNodeId(4), 0, false, 1}}});
  crew.At(4).stopped = false;
  crew.Begin(1);
  crew.Begin(2);
  CHECK(crew.IsOver());

  crew.Wait(5);  // a floor
  crew.detours.clear();
  crew.Begin(3);
  crew.Begin(4);
  CHECK(crew.IsOver());
  CHECK(crew.detours.empty());
  CHECK(crew.Counted(4, 3, 0) == 1);
  CHECK(crew.Counted(4, 4, 0) == 1);
}

TEST_CASE("Late: who is slow again when it is tried is avoided for longer", "[exec][late]") {
  Crew crew = Running(Plan(4));
  crew.BreakBoth(2, 4);
  std::vector<int64_t> steps_that_waited;
  for (int64_t step = 1; step < 100; ++step) {
    crew.Begin(step);
    const int waited = crew.WaitUntilOver(60);
    REQUIRE(waited >= 0);
    if (waited > 1) steps_that_waited.push_back(step);
    crew.Wait(1);
  }
  // Found once, then tried after 4 s, 8 s, 16 s, 32 s, 64 s.
  CHECK(steps_that_waited.size() >= 4);
  CHECK(steps_that_waited.size() <= 6);
  for (const NodeId& around : Around(crew)) CHECK(around == TestNodeId(4));
}

TEST_CASE("Late: a death that the plan knows ends the detour", "[exec][late]") {
  Crew crew = Running();
  crew.At(4).stopped = true;
  crew.Begin(1);
  REQUIRE(crew.WaitUntilOver(6) >= 0);
  PipelinePlan plan = Plan();
  plan.version = 2;
  plan.dead = {TestNodeId(4)};
  crew.Plan(plan);
  crew.detours.clear();
  crew.Begin(2);
  CHECK(crew.IsOverForTheRest());
  CHECK(crew.detours.empty());
  CHECK(crew.Counted(5, 2, 0) == 1);
}

TEST_CASE("Late: a stand-in that dies under a led microbatch is replaced in turn", "[exec][late]") {
  Crew crew = Running();
  crew.At(4).stopped = true;
  crew.Begin(1);
  crew.Wait(3);
  crew.At(5).stopped = true;  // the stand-in to be; node 1's microbatch has passed it
  crew.Wait(4);
  CHECK(Around(crew) == std::vector{TestNodeId(4)});
  CHECK_FALSE(crew.IsOverForTheRest());

  PipelinePlan plan = Plan();
  plan.version = 2;
  plan.dead = {TestNodeId(5)};
  crew.Plan(plan);

  CHECK(crew.IsOverForTheRest());
  for (const uint32_t node : {0u, 2u, 6u}) CHECK(crew.Counted(node, 1, 0) == 1);
}

TEST_CASE("Late: a stage-0 node that stood still itself blames nobody", "[exec][late]") {
  Crew crew = Running();
  crew.BreakBoth(2, 4);
  crew.Begin(1);
  crew.Wait(2);
  crew.At(0).stopped = true;
  crew.Wait(30);
  crew.At(0).stopped = false;
  crew.Wait(1);
  CHECK(crew.detours.empty());
  crew.Wait(2);
  CHECK(Around(crew) == std::vector{TestNodeId(4)});
}

TEST_CASE("Late: who waits for one after the other is what they have in common", "[exec][late]") {
  Crew crew = Running();
  for (const uint32_t node : {3u, 4u, 5u, 6u}) crew.Break(2, node);  // only node 0 hears of it
  crew.Begin(1);
  CHECK(crew.WaitUntilOver(60) >= 0);
  CHECK(Around(crew) == std::vector{TestNodeId(4), TestNodeId(2)});
  CHECK(crew.Counted(3, 1, 0) == 1);
}
