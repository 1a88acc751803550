// Rounds that somebody is late for: frozen without him, while half of the stage is left and he
// hears of it.

#include "pipeline/plan/round_shape.h"
#include "pipeline/plan/route.h"
#include "tests/coordinator/served_run.h"

using namespace skerry;
using skerry::testing::Applied;
using skerry::testing::Held;
using skerry::testing::ServedRun;
using skerry::testing::SmallRun;

namespace {

// One stage 0 of two and one of `replicas`, or half of all each.
RunConfig Nodes(int32_t nodes, OuterReduce reduce = OuterReduce::kAll) {
  RunConfig config = SmallRun();
  config.steps = 16;
  config.nodes_min = nodes;
  config.outer.reduce = reduce;
  return config;
}

// Everybody holds everybody's delta but that of `late`; `late` holds the others'.
void HoldAllBut(ServedRun& run, int64_t round, const NodeId& late) {
  for (const NodeId& holder : run.Live(1)) {
    for (const NodeId& sender : run.Live(1)) {
      if (sender != late) run.From(holder, Held(1, round, sender));
    }
  }
}

RoundLate WaitsFor(int64_t round, std::vector<NodeId> deltas_of) {
  return {1, round, 30, std::move(deltas_of), {}};
}

std::vector<NodeId> NodesOf(const RoundCommit& commit) {
  std::vector<NodeId> nodes;
  for (const Participant& p : commit.participants) nodes.push_back(p.node);
  return nodes;
}

}  // namespace

TEST_CASE("A round that waits for one delta only is frozen without it", "[coordinator]") {
  ServedRun run(Nodes(6));
  run.ticket_uses = 6;
  run.Gather(6);
  const auto replicas = run.Live(1);
  REQUIRE(replicas.size() >= 3);
  const NodeId late = replicas[1];
  HoldAllBut(run, 0, late);
  REQUIRE(run.state().commits.empty());
  const int64_t before = run.state().plan->version;

  run.From(replicas[0], WaitsFor(0, {late}));

  const PipelinePlan& plan = *run.state().plan;
  CHECK(plan.version == before + 1);
  CHECK(plan.absent == std::vector<Absence>{{1, 0, late}});
  std::vector<NodeId> others = replicas;
  std::erase(others, late);
  REQUIRE(run.state().commits.contains({1, 0}));
  CHECK(NodesOf(run.state().commits.at({1, 0})) == others);
  CHECK(run.SentTo<RoundCommit>(late).size() == 1);
  CHECK(run.LastEvent("absent").at("node") == late.Short());
  CHECK(run.LastEvent("round").at("missing") ==
        nlohmann::json::parse(R"([[")" + late.Short() + R"(","late"]])"));
  CHECK(run.CountEvents("dead") == 0);
  CHECK(run.Fold() == run.state());
  // Its next message counts for two rounds.
  CHECK(RoundsCovered(plan, 1, 1, late, 1) == 2);
  CHECK(RoundsCovered(plan, 1, 1, others[0], 1) == 1);
  CHECK(RoundsCovered(plan, 1, 2, late, 1) == 1);
  CHECK(ParticipantsOf(plan, 1, 1).size() == replicas.size());
  CHECK(run.state().commits.at({1, 0}).covered.empty());
  HoldAllBut(run, 1, NodeId());
  const RoundCommit& next = run.state().commits.at({1, 1});
  REQUIRE(next.covered.size() == replicas.size());
  for (size_t i = 0; i < next.covered.size(); ++i) {
    CHECK(next.covered[i] == (next.participants[i].node == late ? 2 : 1));
  }
  CHECK(run.Fold() == run.state());
}

// Draw 7, seed 8: of two that were left one lied, and the honest one was put out for it.
TEST_CASE("Two that differ wait for the word of who was late", "[coordinator]") {
  ServedRun run(Nodes(5));
  run.ticket_uses = 5;
  run.Gather(5);
  const auto replicas = run.Live(1);
  REQUIRE(replicas.size() == 3);
  const NodeId late = replicas[1];
  HoldAllBut(run, 0, late);
  run.From(replicas[0], WaitsFor(0, {late}));
  REQUIRE(run.state().commits.contains({1, 0}));
  const auto says = [](const RoundApplied& honest, bool lies) {
    RoundApplied applied = honest;
    if (lies) applied.base_digest.bytes[0] ^= 1;
    return applied;
  };
  const RoundApplied honest = Applied(1, 0);
  const size_t liar = GENERATE(0, 2);
  run.From(replicas[0], says(honest, liar == 0));
  run.From(replicas[2], says(honest, liar == 2));
  CHECK(run.CountEvents("digest_mismatch") == 0);

  run.From(late, says(honest, false));
  REQUIRE(run.CountEvents("digest_mismatch") == 1);
  CHECK(run.LastEvent("digest_mismatch")["node"] == replicas[liar].Short());
}

TEST_CASE("Who is two rounds behind is waited for", "[coordinator]") {
  ServedRun run(Nodes(6));
  run.ticket_uses = 6;
  run.Gather(6);
  const auto replicas = run.Live(1);
  const NodeId late = replicas[1];
  for (int64_t round = 0; round < 2; ++round) {
    HoldAllBut(run, round, late);
    run.From(replicas[0], WaitsFor(round, {late}));
    for (const NodeId& node : replicas) {
      if (node != late) run.From(node, Applied(1, round));
    }
  }
  REQUIRE(run.state().commits.size() == 2);
  CHECK(run.CountEvents("dead") == 0);
  HoldAllBut(run, 2, late);
  run.From(replicas[0], WaitsFor(2, {late}));
  CHECK(run.CountEvents("dead") == 0);
  CHECK(run.state().commits.size() == 2);
  run.From(late, Applied(1, 0));
  run.From(replicas[0], WaitsFor(2, {late}));
  CHECK(run.state().commits.size() == 3);
}

TEST_CASE("Less than half of a stage does not go on without the others", "[coordinator]") {
  ServedRun run(Nodes(6));
  run.ticket_uses = 6;
  run.Gather(6);
  const auto replicas = run.Live(1);
  const size_t most = replicas.size() / 2;
  for (const NodeId& holder : replicas) run.From(holder, Held(1, 0, replicas[0]));
  for (int again = 0; again < 4; ++again) {
    run.From(replicas[0], WaitsFor(0, {replicas.begin() + 1, replicas.end()}));
    run.Pass(0.1);
  }
  CHECK(run.state().plan->absent.size() == most);
  CHECK(run.state().commits.empty());
  CHECK(run.CountEvents("dead") == 0);
}

// Storm, seed 1127: the round had no participant any more, and its stage stood still for ever.
TEST_CASE("Who is absent makes the round of which all others are gone", "[coordinator]") {
  ServedRun run(Nodes(6, GENERATE(OuterReduce::kAll, OuterReduce::kSharded)));
  run.ticket_uses = 6;
  run.Gather(6);
  const auto replicas = run.Live(1);
  REQUIRE(replicas.size() >= 3);
  const NodeId late = replicas[1];
  run.From(replicas[0], WaitsFor(0, {late}));
  REQUIRE(run.state().plan->absent.size() == 1);
  for (const NodeId& node : replicas) {
    if (node == late) continue;
    CHECK(run.state().plan->absent.size() == 1);
    run.From(node, Leave{"enough"});
  }

  CHECK(run.state().plan->absent.empty());
  CHECK(ParticipantsOf(*run.state().plan, 1, 0) == std::vector<NodeId>{late});
  CHECK(RoundsCovered(*run.state().plan, 1, 1, late, 1) == 1);
  CHECK(run.Fold() == run.state());
}

TEST_CASE("Of two who do not hear each other one starts over", "[coordinator]") {
  RunConfig config = Nodes(4);
  ServedRun run(config);
  run.Gather(4);
  const auto replicas = run.Live(1);
  REQUIRE(replicas.size() == 2);
  for (const NodeId& node : replicas) run.From(node, Held(1, 0, node));
  const auto both_wait = [&] {
    run.From(replicas[0], WaitsFor(0, {replicas[1]}));
    run.From(replicas[1], WaitsFor(0, {replicas[0]}));
  };
  both_wait();
  REQUIRE(run.state().plan->absent.size() == 1);
  const NodeId absent = run.state().plan->absent.front().node;
  const NodeId other = replicas[absent == replicas[0] ? 1 : 0];
  CHECK(run.CountEvents("dead") == 0);
  // The absent one does not get the other's delta either, so the round is not frozen yet.
  CHECK(run.state().commits.empty());
  for (int i = 0; i < 400 && run.state().commits.empty(); ++i) {
    for (int node = 0; node < 4; ++node) run.From(node, Heartbeat{});
    run.Pass(1);
    run.From(other, WaitsFor(0, {}));
  }
  CHECK(run.CountEvents("dead") == 1);
  REQUIRE(run.state().commits.contains({1, 0}));
  CHECK(NodesOf(run.state().commits.at({1, 0})) == std::vector<NodeId>{other});
}

TEST_CASE("A sharded round without a late one has another shape", "[coordinator]") {
  RunConfig config = Nodes(6, OuterReduce::kSharded);
  ServedRun run(config);
  run.ticket_uses = 6;
  run.Gather(6);
  const auto replicas = run.Live(1);
  const NodeId late = replicas.back();
  const uint64_t before = ShapeOf(*run.state().plan, 1, 0).id;
  run.From(replicas[0], WaitsFor(0, {late}));
  const RoundShape shape = ShapeOf(*run.state().plan, 1, 0);
  CHECK(shape.id != before);
  CHECK(std::find(shape.participants.begin(), shape.participants.end(), late) ==
        shape.participants.end());
  CHECK(ShapeOf(*run.state().plan, 1, 1).id == before);
  SumsHeld held{1, 0, shape.id, {}};
  for (const NodeId& node : shape.participants) held.sums.push_back({node, 8, Digest{node.bytes}});
  std::sort(held.sums.begin(), held.sums.end(),
            [](const Participant& a, const Participant& b) { return a.node < b.node; });
  for (const NodeId& holder : replicas) {
    CHECK(run.state().commits.empty());
    run.From(holder, held);  // the late one too: it lands the round as the others do
  }
  REQUIRE(run.state().commits.contains({1, 0}));
  CHECK(run.state().commits.at({1, 0}).participants == held.sums);
}

TEST_CASE("Who says that others are late has to wait for them himself", "[coordinator]") {
  RunConfig config = Nodes(6);
  config.outer.absences = GENERATE(true, false);
  ServedRun run(config);
  run.ticket_uses = 6;
  run.Gather(6);
  const auto replicas = run.Live(1);
  const int64_t version = run.state().plan->version;
  run.From(run.Live(0)[0], WaitsFor(0, {replicas[1]}));            // of another stage
  run.From(replicas[0], WaitsFor(7, {replicas[1]}));               // of a round far away
  run.From(replicas[0], WaitsFor(0, {replicas[0]}));               // of itself
  run.From(replicas[0], WaitsFor(0, {run.Live(0)[0]}));            // of who is not in it
  run.From(replicas[0], RoundLate{1, 0, 1e9, {replicas[1]}, {}});  // what cannot be
  if (!config.outer.absences) run.From(replicas[0], WaitsFor(0, {replicas[1]}));
  CHECK(run.state().plan->version == version);
  CHECK(run.CountEvents("absent") == 0);
}
