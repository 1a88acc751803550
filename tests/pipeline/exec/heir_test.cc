// Microbatches of a dead stage-0 node in the hands of its heir.

#include <catch2/catch.hpp>

#include "tests/pipeline/exec/crew.h"

using namespace skerry;
using namespace skerry::testing;

// Seed 191 of the swarm's third draw hung in its last step: node 4 had computed the gradient of
// microbatch 1 and waited for that of microbatch 0, when 1 came again from the heir, as attempt 0
// like the first time.
TEST_CASE("Heir: its microbatch is taken although the dead one's gradient waits for its turn",
          "[exec]") {
  PipelinePlan plan;
  plan.version = 1;
  plan.microbatches_per_step = 2;
  plan.stages = {{0, 1, {TestNodeId(0), TestNodeId(1)}},
                 {1, 2, {TestNodeId(2), TestNodeId(3)}},
                 {2, 3, {TestNodeId(4)}}};
  plan.paths = {{{0, 0}, {1, 0}, {2, 0}}, {{0, 1}, {1, 1}, {2, 0}}};
  Crew crew(plan);
  crew.At(0).stopped = true;
  crew.Begin(0);
  REQUIRE(crew.actor(4).StepOpen());

  crew.At(1).stopped = true;
  crew.At(0).stopped = false;
  plan.version = 2;
  plan.dead = {TestNodeId(1)};
  crew.Plan(plan);
  crew.Begin(0);

  CHECK(crew.IsOverForTheRest());
  for (const int32_t microbatch : {0, 1}) {
    CHECK(crew.Counted(0, 0, microbatch) == 1);
    CHECK(crew.Counted(4, 0, microbatch) == 1);
  }
  CHECK(crew.At(4).work.kept.empty());
}
