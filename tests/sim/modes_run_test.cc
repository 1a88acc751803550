// Whole runs in every mode of outer rounds, with real arithmetic, in virtual time: they finish, all
// replicas' bases agree, nothing a replica has learnt is lost or counted twice, and a replica that
// dies is replaced.
#include <catch2/catch.hpp>
#include <set>

#include "common/round_clock.h"
#include "sim/virtual_run.h"
#include "tests/sim/sharded_fleet.h"

using namespace skerry;
using skerry::testing::EightNodes;
using skerry::testing::EndOf;

namespace {

// Two stages of two replicas with arithmetic.
VirtualRunOptions FourNodes(OuterMode mode) {
  VirtualRunOptions options = EightNodes();
  options.math = VirtualMath::kTiny;
  options.nodes.resize(4);
  options.config.nodes_min = 4;
  options.config.steps = 12;
  options.config.outer.mode = mode;
  options.config.outer.inner_steps = mode == OuterMode::kDataParallel ? 1 : 4;
  options.config.outer.overlap_steps = mode == OuterMode::kDataParallel ? 0 : 2;
  options.config.outer.fragments = 3;
  return options;
}

void CheckAllAgree(const RunState& state) {
  for (const auto& [key, commit] : state.commits) {
    INFO("stage " << key.first << " round " << key.second);
    std::set<Digest> digests;
    for (const auto& [node, applied] : state.applied.at(key)) digests.insert(applied.base_digest);
    CHECK(digests.size() == 1);
  }
}

}  // namespace

TEST_CASE("Modes: a run of every mode trains, lands all its rounds, and all bases agree",
          "[sim][modes]") {
  const auto mode = GENERATE(OuterMode::kOverlap, OuterMode::kSynchronous, OuterMode::kCo2,
                             OuterMode::kStreaming, OuterMode::kDataParallel);
  const VirtualRunOptions options = FourNodes(mode);
  VirtualRun run(options);
  const VirtualOutcome outcome = run.Run();
  INFO("mode " << static_cast<int>(mode));
  CHECK(EndOf(run, outcome) == "");
  CHECK(outcome.rounds == RoundClock(options.config).rounds());
  CHECK(run.stages_exported() == 2);
  CheckAllAgree(run.checkers().state());
}

TEST_CASE("Modes: streaming with several rounds in flight, for any overlap and number of fragments",
          "[sim][modes]") {
  VirtualRunOptions options = FourNodes(OuterMode::kStreaming);
  options.config.outer.overlap_steps = GENERATE(0, 1, 3, 4);
  options.config.outer.fragments = GENERATE(1, 2, 4);
  VirtualRun run(options);
  const VirtualOutcome outcome = run.Run();
  INFO("δ " << options.config.outer.overlap_steps << " P " << options.config.outer.fragments);
  CHECK(EndOf(run, outcome) == "");
  CHECK(outcome.rounds == RoundClock(options.config).rounds());
  CheckAllAgree(run.checkers().state());
}

TEST_CASE("Modes: streaming in sharded rounds", "[sim][modes][sharded]") {
  VirtualRunOptions options = EightNodes();
  options.math = VirtualMath::kTiny;
  options.config.outer.mode = OuterMode::kStreaming;
  options.config.outer.inner_steps = 4;
  options.config.outer.overlap_steps = GENERATE(1, 4);
  options.config.outer.fragments = 4;
  options.config.outer.codec = DeltaCodec::kTernary;
  VirtualRun run(options);
  const VirtualOutcome outcome = run.Run();
  CHECK(EndOf(run, outcome) == "");
  CHECK(outcome.rounds == RoundClock(options.config).rounds());
  CheckAllAgree(run.checkers().state());
}

TEST_CASE("Modes: a replica that dies in the middle is replaced, and its heir's bases agree",
          "[sim][modes]") {
  VirtualRunOptions options = FourNodes(GENERATE(OuterMode::kCo2, OuterMode::kStreaming));
  options.config.steps = 48;
  options.nodes.push_back(options.nodes.front());
  options.nodes.back().joins = Instant() + Duration::Seconds(4);
  VirtualRun run(options);
  run.simulation().CrashAt(Instant() + Duration::Seconds(GENERATE(12.0, 14.3)),
                           VirtualRun::node(GENERATE(1, 3)));
  const VirtualOutcome outcome = run.Run();
  CHECK(EndOf(run, outcome) == "");
  CHECK(outcome.rounds == RoundClock(options.config).rounds());
  CheckAllAgree(run.checkers().state());
  CHECK(run.checkers().handovers() == 1);
}
