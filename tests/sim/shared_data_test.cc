// Training data that nodes give each other, so that a coordinator with a slow line need not give it
// to each (docs/PROTOCOL.md, 5; docs/decisions/0066-shards-of-peers.md).
#include <catch2/catch.hpp>

#include "sim/virtual_run.h"
#include "tests/sim/sharded_fleet.h"

using namespace skerry;
using skerry::testing::EightNodes;
using skerry::testing::EndOf;

namespace {

constexpr int32_t kShards = 16;
constexpr int64_t kShardBytes = 3 << 19;

// Stage 0 has four of eight nodes; a coordinator's line is a tenth of a node's.
VirtualRunOptions FewLines() {
  VirtualRunOptions options = EightNodes();
  options.shards = kShards;
  options.shard_bytes = kShardBytes;
  options.link = [](const NodeId& from, const NodeId&) {
    const bool is_coordinator = from == VirtualRun::coordinator();
    return SimLink{
        .one_way = Duration::Millis(20), .bytes_per_s = is_coordinator ? 1e6 : 1e7, .jitter = {}};
  };
  return options;
}

constexpr int64_t kAll = kShards * kShardBytes;

// How many bytes of data went out, by whom.
struct Counted {
  explicit Counted(VirtualRun* run) {
    run->WatchSends([this](const NodeId& from, const Message& message) {
      const auto* chunk = std::get_if<ObjectChunk>(&message);
      if (chunk == nullptr || !chunk->object.starts_with("shard/")) return;
      (from == VirtualRun::coordinator() ? coordinator : nodes) += SizeOf(chunk->values);
    });
  }
  int64_t coordinator = 0, nodes = 0;
};

}  // namespace

TEST_CASE("Shared data: the coordinator gives hardly more than one data set, four get it",
          "[sim][data]") {
  VirtualRun run(FewLines());
  const Counted counted(&run);

  const VirtualOutcome outcome = run.Run();

  CHECK(EndOf(run, outcome) == "");
  CHECK(counted.coordinator >= kAll);
  CHECK(2 * counted.coordinator < 3 * kAll);
  CHECK(counted.nodes + counted.coordinator >= 4 * kAll);
  CHECK(10 * (counted.nodes + counted.coordinator) < 42 * kAll);
}

TEST_CASE("Shared data: with nodes that die and a coordinator that restarts all have it in the end",
          "[sim][data]") {
  VirtualRunOptions options = FewLines();
  options.seed = GENERATE(1, 2, 3);
  VirtualRun run(options);
  const Counted counted(&run);
  run.simulation().At(Instant() + Duration::Seconds(14), [&](Simulation& simulation) {
    const auto& plan = run.checkers().state().plan;
    if (plan) simulation.CrashAt(simulation.now(), plan->stages[0].replicas[1]);
  });
  run.simulation().CrashAt(Instant() + Duration::Seconds(20), VirtualRun::coordinator());
  run.simulation().StartAt(Instant() + Duration::Seconds(23), VirtualRun::coordinator());

  const VirtualOutcome outcome = run.Run();

  CHECK(EndOf(run, outcome) == "");
  CHECK(counted.nodes > kAll);
}
