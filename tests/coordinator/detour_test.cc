// What a stage-0 node says of a microbatch that it led around a late node.

#include "pipeline/plan/route.h"
#include "tests/coordinator/served_run.h"

using namespace skerry;
using skerry::testing::Node;
using skerry::testing::ServedRun;

namespace {

// Microbatch 0 of step 1: who leads it, and whom the plan leads it through next.
struct Led {
  explicit Led(ServedRun& run) {
    const Path path = PathOf(*run.state().plan, 1, 0);
    home = NodeOf(*run.state().plan, path[0]);
    around = NodeOf(*run.state().plan, path[1]);
    for (const NodeId& node : run.Live(0)) {
      if (node != home) other = node;
    }
  }
  NodeId home, around, other;
  Detour Told(double waited_s = 6) const { return {1, 0, around, waited_s, false}; }
};

}  // namespace

TEST_CASE("A detour is passed on to the node it led around, and people hear of it",
          "[coordinator]") {
  ServedRun run;
  run.Gather();
  const Led led(run);
  run.TakeSends();

  run.From(led.home, led.Told());

  CHECK(run.SentTo<VoidList>(led.around) ==
        std::vector{VoidList{led.around, {{1, 0}}, run.state().plan->version}});
  const nlohmann::json event = run.LastEvent("detour");
  CHECK(event["node"] == led.around.Short());
  CHECK(event["from"] == led.home.Short());
  CHECK(event["step"] == 1);
  CHECK(event["waited_s"] == 6);
  CHECK(event["skipped"] == false);
}

TEST_CASE("Many detours around one node are passed on, and one event every few seconds",
          "[coordinator]") {
  ServedRun run;
  run.Gather();
  const Led led(run);
  run.TakeSends();
  for (int i = 0; i < 10; ++i) run.From(led.home, led.Told());
  CHECK(run.CountEvents("detour") == 1);
  CHECK(run.SentTo<VoidList>(led.around).size() == 10);
  run.Pass(6);
  run.From(led.home, led.Told());
  CHECK(run.CountEvents("detour") == 2);
}

TEST_CASE("Who avoids a node it found late before makes no event", "[coordinator]") {
  ServedRun run;
  run.Gather();
  const Led led(run);
  run.TakeSends();
  run.From(led.home, led.Told(0));
  CHECK(run.SentTo<VoidList>(led.around).size() == 1);
  CHECK(run.CountEvents("detour") == 0);
}

TEST_CASE("A detour of another's microbatch, or around nobody's place, is refused",
          "[coordinator][security]") {
  ServedRun run;
  run.Gather();
  const Led led(run);
  const auto refuses = [&](const NodeId& from, const Detour& detour) {
    const int64_t refused = run.actor->refused();
    run.TakeSends();
    run.From(from, detour);
    return run.actor->refused() == refused + 1 && run.context.sends.empty();
  };
  CHECK(refuses(led.other, led.Told()));
  CHECK(refuses(led.around, led.Told()));
  CHECK(refuses(Node(77), led.Told()));
  CHECK(refuses(led.home, {1, 0, Node(77), 6, false}));
  CHECK(refuses(led.home, {1, 0, led.other, 6, false}));  // stage 0 is never left out
  CHECK(refuses(led.home, {-1, 0, led.around, 6, false}));
  CHECK(refuses(led.home, {run.config.steps, 0, led.around, 6, false}));
  CHECK(refuses(led.home, {1, -1, led.around, 6, false}));
  CHECK(refuses(led.home, {1, 2, led.around, 6, false}));
  CHECK(refuses(led.home, led.Told(-1)));
  CHECK(refuses(led.home, led.Told(NAN)));
  CHECK(refuses(led.home, led.Told(INFINITY)));
  CHECK_FALSE(refuses(led.home, led.Told()));
}
