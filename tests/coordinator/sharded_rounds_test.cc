// Sharded rounds: frozen when every holder holds all sums of the present shape.

#include "pipeline/plan/round_shape.h"
#include "tests/coordinator/served_run.h"

using namespace skerry;
using skerry::testing::Held;
using skerry::testing::ServedRun;
using skerry::testing::SmallRun;

namespace {

RunConfig SixNodes() {
  RunConfig config = SmallRun();
  config.nodes_min = 6;
  config.pipeline.stages = 2;
  config.outer.reduce = OuterReduce::kSharded;
  return config;
}

uint64_t ShapeNow(const ServedRun& run, int64_t round = 0) {
  return ShapeOf(*run.state().plan, 1, round).id;
}

// What a holder says when it holds everybody's sums of the present shape of stage 1.
SumsHeld SumsOf(const ServedRun& run, int64_t round = 0) {
  SumsHeld held{1, round, ShapeNow(run, round), {}};
  for (const NodeId& node : run.Live(1)) {
    Digest digest;
    digest.bytes = node.bytes;
    held.sums.push_back({node, 8, digest});
  }
  return held;
}

void SayAll(ServedRun& run, int64_t round = 0) {
  const SumsHeld held = SumsOf(run, round);
  for (const NodeId& node : run.Live(1)) run.From(node, held);
}

}  // namespace

TEST_CASE("A sharded round is frozen when every holder holds all sums", "[coordinator]") {
  ServedRun run(SixNodes());
  run.ticket_uses = 6;
  run.Gather(6);
  const auto replicas = run.Live(1);
  REQUIRE(replicas.size() == 4);
  const SumsHeld held = SumsOf(run);
  for (const size_t i : {0, 1, 3}) run.From(replicas[i], held);
  CHECK(run.state().commits.empty());
  run.TakeSends();

  run.From(replicas[2], held);

  REQUIRE(run.state().commits.size() == 1);
  const RoundCommit& commit = run.state().commits.at({1, 0});
  CHECK(commit.participants == held.sums);
  CHECK(commit.shape == held.shape);
  CHECK(run.Fold().commits == run.state().commits);
  for (const NodeId& node : replicas) {
    CHECK(run.SentTo<RoundCommit>(node) == std::vector<RoundCommit>{commit});
  }
  run.TakeSends();
  run.From(replicas[0], held);  // once more: the frozen one again
  CHECK(run.SentTo<RoundCommit>(replicas[0]) == std::vector<RoundCommit>{commit});
}

TEST_CASE("A reducer that claims more tokens than a round has is put out", "[coordinator]") {
  ServedRun run(SixNodes());
  run.ticket_uses = 6;
  run.Gather(6);
  const auto replicas = run.Live(1);
  const bool by_itself = GENERATE(true, false);
  const SumsHeld honest = SumsOf(run);
  SumsHeld seen = honest;
  for (Participant& sum : seen.sums) {
    if (sum.node == replicas[3]) sum.tokens = int64_t{1} << 40;
  }
  for (const NodeId& holder : replicas) {
    run.From(holder, holder == replicas[3] && !by_itself ? honest : seen);
  }
  CHECK(run.CountEvents("dead") == 1);
  CHECK(run.Live(1).size() == 3);
  CHECK(run.state().commits.empty());

  SayAll(run);  // of the shape without it

  CHECK(run.state().commits.at({1, 0}).participants.size() == 3);
}

TEST_CASE("A reducer that dies before the commit leaves another shape, after it nothing changes",
          "[coordinator]") {
  ServedRun run(SixNodes());
  run.ticket_uses = 6;
  run.Gather(6);
  const auto replicas = run.Live(1);
  const SumsHeld before = SumsOf(run);
  run.From(replicas[0], before);
  run.From(replicas[1], before);
  run.From(replicas[3], Leave{"gone"});
  CHECK(run.state().commits.empty());
  const SumsHeld after = SumsOf(run);
  CHECK(after.shape != before.shape);
  run.From(replicas[0], after);
  run.From(replicas[2], after);
  run.From(replicas[1], before);  // it has not heard yet
  CHECK(run.state().commits.empty());

  run.From(replicas[1], after);

  REQUIRE(run.state().commits.size() == 1);
  CHECK(run.state().commits.at({1, 0}).participants.size() == 3);
  CHECK(run.state().commits.at({1, 0}).shape == after.shape);
  run.From(replicas[1], Leave{"gone too"});
  CHECK(run.state().commits.size() == 1);
}

TEST_CASE("A coordinator that returns asks nobody: what is said again freezes the round",
          "[coordinator]") {
  ServedRun run(SixNodes());
  run.ticket_uses = 6;
  run.Gather(6);
  const auto replicas = run.Live(1);
  const SumsHeld held = SumsOf(run);
  run.From(replicas[0], held);
  run.Restart();
  for (const size_t i : {1, 2, 3}) run.From(replicas[i], held);
  CHECK(run.state().commits.empty());
  run.From(replicas[0], held);
  CHECK(run.state().commits.size() == 1);
}

TEST_CASE("Who is contradicted about its sum, or sent pieces of no meaning, is put out",
          "[coordinator]") {
  ServedRun run(SixNodes());
  run.ticket_uses = 6;
  run.Gather(6);
  const auto replicas = run.Live(1);
  SumsHeld held = SumsOf(run);
  SECTION("another holds another sum of it") {
    for (const size_t i : {0, 1, 3}) run.From(replicas[i], held);
    held.sums[1].digest = Digest();
    run.From(replicas[2], held);
  }
  SECTION("a reducer cannot decode its pieces") {
    DeltaHeld no_message = Held(1, 0, replicas[1]);
    no_message.digest = Digest();
    run.From(replicas[2], no_message);
  }
  CHECK(run.state().evicted == std::set<NodeId>{replicas[1]});
  CHECK(run.state().commits.empty());
  SayAll(run);
  CHECK(run.state().commits.at({1, 0}).participants.size() == 3);
}

TEST_CASE("Reports of no meaning change nothing", "[coordinator]") {
  ServedRun run(SixNodes());
  run.ticket_uses = 6;
  run.Gather(6);
  const auto replicas = run.Live(1);
  const int64_t refused = run.actor->refused();
  run.From(replicas[0], Held(1, 0, replicas[1]));  // a delta held: sums count here
  SumsHeld other = SumsOf(run);
  other.stage = 0;
  run.From(replicas[0], other);
  SumsHeld far = SumsOf(run);
  far.round = 9;
  run.From(replicas[0], far);
  CHECK(run.actor->refused() == refused + 3);
  SayAll(run, 1);  // complete before the round that comes first
  CHECK(run.state().commits.empty());
  SayAll(run, 0);
  CHECK(run.state().commits.size() == 2);
}
