// Whole runs in which reducers change, with arithmetic: what they had left over goes to who sums
// the pieces now (docs/PROTOCOL.md, "A sharded round", h). That none of it is lost on either side
// the observed stages check (sim/conservation.h), in every run here.
#include <catch2/catch.hpp>
#include <variant>

#include "node/node_actor.h"
#include "sim/virtual_run.h"
#include "tests/sim/sharded_fleet.h"

using namespace skerry;
using skerry::testing::EightNodes;
using skerry::testing::EndOf;

namespace {

VirtualRunOptions Fleet() {
  VirtualRunOptions options = EightNodes();
  options.config.steps = 24;
  options.config.node_silent_s = 4;
  options.config.outer.codec = DeltaCodec::kTernary;
  options.config.outer.residual = ResidualPlace::kWeights;
  options.config.outer.robust = OuterRobust::kNone;  // with a robust mode nothing is handed on
  options.math = VirtualMath::kTiny;
  return options;
}

// Of a run: the moments at which reducers said that they hold what others handed on. In sharded
// rounds replicas say so of nothing else, but of what they refuse.
struct Seen {
  std::string wrong;
  int64_t rounds = 0;
  std::vector<Instant> taken_over;
};

Seen Watch(VirtualRun& run) {
  Seen seen;
  run.WatchMessages([&](Instant at, const Message& message) {
    const auto* held = std::get_if<DeltaHeld>(&message);
    if (held != nullptr && !held->digest.IsZero()) seen.taken_over.push_back(at);
  });
  const VirtualOutcome outcome = run.Run();
  seen.wrong = EndOf(run, outcome);
  seen.rounds = outcome.rounds;
  return seen;
}

Instant HalfOf(const VirtualRunOptions& options) {
  VirtualRun run(options);
  const VirtualOutcome outcome = run.Run();
  REQUIRE(EndOf(run, outcome) == "");
  return Instant() + Duration::Seconds(outcome.virtual_s - outcome.training_s / 2);
}

// The last replica of stage 1 does not reach the first for six seconds: it is absent for a while.
VirtualRunOptions WithAbsence(VirtualRunOptions options, VirtualRun*& running, Instant from) {
  options.link = [&running, from, link = options.link](const NodeId& a, const NodeId& b) {
    SimLink way = link(a, b);
    const Instant now = running->simulation().now();
    if (now < from || now >= from + Duration::Seconds(6) || !running->checkers().state().plan) {
      return way;
    }
    const auto& nodes = running->checkers().state().plan->stages[1].replicas;
    if (a == nodes.back() && b == nodes.front()) way.loss = 1;
    return way;
  };
  return options;
}

}  // namespace

TEST_CASE("Left-overs: who stood in for an absent reducer hands on what it has left over",
          "[sim][sharded]") {
  VirtualRunOptions options = Fleet();
  options.config.outer.mode =
      GENERATE(OuterMode::kOverlap, OuterMode::kStreaming, OuterMode::kSynchronous);
  options.config.outer.fragments = 2;
  VirtualRun* running = nullptr;
  const Instant half = HalfOf(options);
  VirtualRun run(WithAbsence(options, running, half));
  running = &run;
  const Seen seen = Watch(run);
  CHECK(seen.wrong == "");
  CHECK(seen.rounds == (options.config.outer.mode == OuterMode::kStreaming ? 25 : 12));
  CHECK(!seen.taken_over.empty());
}

TEST_CASE("Left-overs: who leaves hands on what it has left over first, and is gone at once",
          "[sim][sharded]") {
  const VirtualRunOptions options = Fleet();
  const Instant half = HalfOf(options);
  const double later_s = GENERATE(0.0, 0.07, 0.13, 0.29, 0.41);
  const Instant at = half + Duration::Seconds(later_s);
  VirtualRun run(options);
  run.simulation().At(at, [](Simulation& simulation) {
    simulation.Signal(VirtualRun::node(2), [](Actor& actor, Context& context) {
      static_cast<NodeActor&>(actor).Leave(context, "Ctrl-C");
    });
  });
  const Seen seen = Watch(run);
  CHECK(seen.wrong == "");
  CHECK(seen.rounds == 12);
  REQUIRE(!seen.taken_over.empty());
  CHECK(seen.taken_over.front() - at < Duration::Seconds(2));
  const auto stopped = run.simulation().stopped(VirtualRun::node(2));
  REQUIRE(stopped.has_value());
  CHECK(stopped->exit_code == 0);
}

TEST_CASE("Left-overs: whoever dies while they are handed on, the run goes on and its laws hold",
          "[sim][sharded]") {
  const VirtualRunOptions options = Fleet();
  const Instant half = HalfOf(options);
  VirtualRun* running = nullptr;
  Seen whole;
  {
    VirtualRun run(WithAbsence(options, running, half));
    running = &run;
    whole = Watch(run);
  }
  REQUIRE(whole.wrong == "");
  REQUIRE(!whole.taken_over.empty());
  for (size_t i = 0; i < 4; ++i) {
    const Instant at = whole.taken_over[i * whole.taken_over.size() / 4];
    VirtualRun run(WithAbsence(options, running, half));
    running = &run;
    const NodeId victim = VirtualRun::node(static_cast<int32_t>(3 * i % 8));
    run.simulation().CrashAt(at - Duration::Millis(i % 2 == 0 ? 0 : 30), victim);
    INFO("moment " << i);
    CHECK(Watch(run).wrong == "");
  }
}

// Law 16 of docs/OUTER_STEPS.md: laws 4 and 5 and the common base are checked in the run itself.
TEST_CASE("Law 16: any two killed at once between two steps of the protocol, the laws hold",
          "[sim][sharded]") {
  const VirtualRunOptions options = Fleet();
  const Instant half = HalfOf(options);
  Rng rng(11, "victims");
  for (int i = 0; i < 5; ++i) {
    const auto first = static_cast<int32_t>(rng.Below(8));
    const auto second = static_cast<int32_t>((first + 1 + rng.Below(7)) % 8);
    VirtualRun run(options);
    const Instant at = half + Duration::Millis(17 + 61 * i);
    for (const int32_t victim : {first, second})
      run.simulation().CrashAt(at, VirtualRun::node(victim));
    INFO("at " << (at - Instant()).seconds() << " s, " << first << " and " << second);
    CHECK(Watch(run).wrong == "");
  }
}
