// Whole runs whose rounds are sharded, in virtual time: what they cost on the wire, and that no
// death at any moment of a round costs the round.
#include <catch2/catch.hpp>
#include <set>

#include "sim/swarm.h"
#include "sim/virtual_run.h"
#include "tests/sim/sharded_fleet.h"

using namespace skerry;
using skerry::testing::CountedRounds;
using skerry::testing::EightNodes;
using skerry::testing::EndOf;

TEST_CASE("Sharded rounds: a run with arithmetic trains, and all replicas' bases agree",
          "[sim][sharded]") {
  VirtualRunOptions options = EightNodes();
  options.math = VirtualMath::kTiny;
  options.config.outer.codec = GENERATE(DeltaCodec::kInt8, DeltaCodec::kTernary);
  VirtualRun run(std::move(options));
  const VirtualOutcome outcome = run.Run();
  CHECK(EndOf(run, outcome) == "");
  CHECK(outcome.rounds == 4);
  const RunState& state = run.checkers().state();
  for (const auto& [key, commit] : state.commits) {
    CHECK(commit.shape != 0);
    CHECK(commit.participants.size() == 4);
    std::set<Digest> digests;
    for (const auto& [node, applied] : state.applied.at(key)) digests.insert(applied.base_digest);
    CHECK(digests.size() == 1);
  }
}

TEST_CASE("Sharded rounds: whatever befalls a run of larger stages, its rules hold",
          "[sim][sharded]") {
  for (const uint64_t seed : {1, 11, 57, 402}) {
    const SwarmTry tried = TrySwarmSeed({seed, 8});
    CHECK((tried.finding ? tried.finding->wrong : "") == "");
  }
}

// Between any two protocol steps of a round: after every message of it that is delivered, one of
// its replicas dies for good, another one each time.
TEST_CASE(
    "Sharded rounds: whoever dies after any message of a round, the round is landed by all "
    "who live",
    "[sim][sharded]") {
  CountedRounds whole(EightNodes());
  whole.Run();
  REQUIRE(whole.moments.size() > 60);
  size_t tried = 0;
  for (size_t moment = 0; moment < whole.moments.size(); moment += 7) {
    for (const int32_t victim : {static_cast<int32_t>(moment % 8)}) {
      VirtualRun run(EightNodes());
      run.simulation().CrashAt(whole.moments[moment], VirtualRun::node(victim));
      const VirtualOutcome outcome = run.Run();
      INFO("moment " << moment << " of " << whole.moments.size() << ", node " << victim);
      CHECK(EndOf(run, outcome) == "");
      CHECK(outcome.rounds == 4);
      ++tried;
    }
  }
  CHECK(tried > 10);
}

TEST_CASE(
    "Sharded rounds: what a replica sends and receives of a round does not grow with their "
    "number",
    "[sim][sharded]") {
  double before = 0;
  for (const int32_t replicas : {4, 8, 16}) {
    VirtualRunOptions options = EightNodes();
    options.config.pipeline.stages = 1;
    options.config.pipeline.microbatches_per_step = replicas;
    options.config.nodes_min = replicas;
    options.nodes.assign(static_cast<size_t>(replicas), options.nodes.front());
    options.config.outer.codec = DeltaCodec::kInt8;
    CountedRounds counted(std::move(options));
    counted.Run();
    const double bits = counted.BitsPerParameter(replicas);
    INFO(replicas << " replicas: " << bits << " bits up and down");
    CHECK(bits < 2 * 8.2);
    CHECK(bits > before);
    before = bits;
  }
}
