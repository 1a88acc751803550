// What a liar can do with messages about lateness: nothing to anybody's microbatches but its own.

#include <catch2/catch.hpp>

#include "tests/pipeline/exec/crew.h"

using namespace skerry;
using namespace skerry::testing;

namespace {

// Nodes 0, 1 | 2, 3 | 4, 5; microbatch m starts at node m mod 2.
PipelinePlan Plan() {
  PipelinePlan plan;
  plan.version = 1;
  plan.microbatches_per_step = 2;
  for (int32_t s = 0; s < 3; ++s) {
    const auto first = static_cast<uint32_t>(2 * s);
    plan.stages.push_back({s, s + 1, {TestNodeId(first), TestNodeId(first + 1)}});
  }
  plan.paths = {{{0, 0}, {1, 0}, {2, 0}}, {{0, 1}, {1, 1}, {2, 1}}};
  return plan;
}

// Step 1 is open and hangs at node 4.
Crew Hanging() {
  Crew crew(Plan());
  crew.Begin(0);
  crew.At(4).stopped = true;
  crew.Begin(1);
  return crew;
}

}  // namespace

TEST_CASE("Late, hostile: a report counts from a node of the path, for its hop and the attempt",
          "[exec][late]") {
  Crew crew = Hanging();
  StageActor& home = crew.actor(0);
  const auto say = [&](uint32_t from, const HopLate& message) {
    const int64_t refused = home.refused();
    home.OnHopLate(crew.At(0), TestNodeId(from), message);
    return home.refused() > refused;
  };
  CHECK(say(3, {1, 0, 0, 1}));  // not on the path
  CHECK(say(2, {1, 0, 0, 2}));  // another's hop
  CHECK(say(2, {1, 0, 0, 0}));  // this node's own
  CHECK(say(2, {1, 0, 0, 3}));  // beyond the path
  CHECK(say(2, {1, 1, 0, 1}));  // another's microbatch
  CHECK(say(2, {7, 0, 0, 1}));  // no microbatch
  CHECK_FALSE(say(2, {1, 0, 0, 1}));
  CHECK_FALSE(say(2, {1, 0, 5, 1}));  // of another attempt: of no use, no offence
}

TEST_CASE("Late, hostile: a report makes nothing late that its stage-0 node does not wait for",
          "[exec][late]") {
  Crew crew = Hanging();
  for (int i = 0; i < 1000; ++i) {
    crew.actor(0).OnHopLate(crew.At(0), TestNodeId(2), {1, 0, 0, 1});
  }
  crew.Wait(3);
  CHECK(crew.detours.empty());
}

TEST_CASE("Late, hostile: nobody voids another's microbatches", "[exec][late]") {
  Crew crew = Hanging();
  const uint32_t mean = GENERATE(1, 3, 5, 2);
  const bool for_good = GENERATE(false, true);
  const int32_t attempt = GENERATE(0, 1);
  const int64_t refused = crew.actor(2).refused();

  if (for_good) {
    const VoidList list{TestNodeId(2), {{1, 0}}, 1};
    crew.actor(2).OnVoidList(crew.At(2), TestNodeId(mean), list, false);
  } else {
    crew.actor(2).OnVoid(crew.At(2), TestNodeId(mean), {1, 0, attempt, 1});
  }

  CHECK(crew.actor(2).refused() == refused + 1);
  CHECK_FALSE(crew.actor(2).WaitingFor().empty());
  crew.At(4).stopped = false;
  crew.Begin(1);
  CHECK(crew.IsOver());
  CHECK(crew.Counted(2, 1, 0) == 1);
}

TEST_CASE("Late, hostile: a void that no plan knows is refused", "[exec][late]") {
  Crew crew = Hanging();
  const auto key = GENERATE(VoidList::Microbatch{-1, 0}, VoidList::Microbatch{1, -1},
                            VoidList::Microbatch{1, 2}, VoidList::Microbatch{1'000'000, 0});
  const bool passed_on = GENERATE(false, true);
  const int64_t refused = crew.actor(2).refused();
  crew.actor(2).OnVoid(crew.At(2), TestNodeId(0), {key.step, key.microbatch, 0, 1});
  crew.actor(2).OnVoid(crew.At(2), TestNodeId(0), {1, 0, -1, 1});
  crew.actor(2).OnVoidList(crew.At(2), TestNodeId(0), {TestNodeId(2), {key}, 1}, passed_on);
  crew.actor(2).OnVoidList(crew.At(2), TestNodeId(0), {TestNodeId(3), {{1, 0}}, 1}, passed_on);
  CHECK(crew.actor(2).refused() == refused + 4);
}
