// Sharded rounds: frozen when every holder holds all sums of the present shape.

#include <algorithm>

#include "pipeline/plan/cohorts.h"
#include "pipeline/plan/round_shape.h"
#include "pipeline/plan/route.h"
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

RunConfig SixInTwoRooms() {
  RunConfig config = SixNodes();
  config.cluster.groups = "east; west";
  return config;
}

// The stage that has more of them.
int32_t GatherSix(ServedRun& run) {
  run.ticket_uses = 6;
  run.Gather(6);
  return run.Live(0).size() > run.Live(1).size() ? 0 : 1;
}

// Its members say what they have made, which nobody else is sent.
TEST_CASE("With cohorts a sharded round waits until members have made what their speaker has",
          "[coordinator][cohorts]") {
  ServedRun run(SixInTwoRooms());
  const int32_t stage = GatherSix(run);
  const PipelinePlan plan = *run.state().plan;
  std::vector<NodeId> speakers = ParticipantsOf(plan, stage, 0);
  std::sort(speakers.begin(), speakers.end());
  REQUIRE(run.Live(stage).size() > speakers.size());
  SumsHeld held{stage, 0, ShapeOf(plan, stage, 0).id, {}};
  for (const NodeId& node : speakers) held.sums.push_back({node, 8, Held(stage, 0, node).digest});
  std::vector<NodeId> members;  // who speaks for nobody
  for (const NodeId& node : run.Live(stage)) {
    run.From(node, held);
    const NodeId speaker = CohortOf(plan, node).front();
    if (speaker != node) members.push_back(node);
    if (speaker == node) run.From(node, Held(stage, 0, node));
  }
  for (size_t i = 1; i < members.size(); ++i)
    run.From(members[i], Held(stage, 0, CohortOf(plan, members[i]).front()));
  CHECK(run.state().commits.empty());
  const NodeId last = members.front();
  DeltaHeld made = Held(stage, 0, CohortOf(plan, last).front());
  const bool is_same = GENERATE(true, false);
  if (!is_same) made.digest.bytes[0] ^= 1;

  run.From(last, made);

  REQUIRE(run.state().commits.size() == 1);
  const RoundCommit& commit = run.state().commits.at({stage, 0});
  REQUIRE(commit.messages.size() == speakers.size());
  for (size_t i = 0; i < speakers.size(); ++i) {
    CHECK(commit.participants[i].node == speakers[i]);
    CHECK(commit.messages[i] == Held(stage, 0, speakers[i]).digest);
  }
  CHECK(run.Fold().commits == run.state().commits);
  CHECK(run.CountEvents("cohort_parted") == (is_same ? 0 : 1));
  CHECK(CohortOf(*run.state().plan, last).size() == (is_same ? CohortOf(plan, last).size() : 1));
  CHECK(IsAbsent(*run.state().plan, stage, 0, last) == !is_same);
}

TEST_CASE("What somebody has made in the name of another cohort is refused",
          "[coordinator][cohorts]") {
  ServedRun run(SixInTwoRooms());
  const int32_t stage = GatherSix(run);
  const std::vector<NodeId> speakers = ParticipantsOf(*run.state().plan, stage, 0);
  REQUIRE(speakers.size() == 2);
  const int64_t refused = run.actor->refused();
  run.From(speakers[0], Held(stage, 0, speakers[1]));
  CHECK(run.actor->refused() == refused + 1);
}
