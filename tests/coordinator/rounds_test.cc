// Losses and outer rounds: each microbatch credited once, one set for a round, equal digests.

#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "coordinator/listings.h"
#include "tests/coordinator/served_run.h"

using namespace skerry;
using skerry::testing::Applied;
using skerry::testing::Held;
using skerry::testing::Node;
using skerry::testing::ServedRun;
using skerry::testing::SmallRun;

namespace {

// Every replica reports every replica's delta, as `alter` leaves the report.
using Alter = std::function<void(const NodeId& holder, DeltaHeld* held)>;
void HoldAll(ServedRun& run, int32_t stage, int64_t round, const Alter& alter = nullptr) {
  const auto replicas = run.Live(stage);
  for (const NodeId& holder : replicas) {
    for (const NodeId& sender : replicas) {
      DeltaHeld held = Held(stage, round, sender);
      if (alter) alter(holder, &held);
      run.From(holder, held);
    }
  }
}

// Nobody else is, and round 0 of stage 1 is frozen without it.
void CheckOnlyPutOut(ServedRun& run, const NodeId& node, size_t left) {
  CHECK(run.CountEvents("dead") == 1);
  const RoundCommit& commit = run.state().commits.at({1, 0});
  CHECK(commit.participants.size() == left);
  for (const Participant& p : commit.participants) CHECK(p.node != node);
}

RunConfig SixNodes() {
  RunConfig config = SmallRun();
  config.nodes_min = 6;
  config.outer.reduce = OuterReduce::kAll;
  return config;
}

}  // namespace

TEST_CASE("A step is told when every microbatch is reported: their mean over tokens",
          "[coordinator]") {
  ServedRun run;
  run.Gather();
  const auto stage_0 = run.Live(0);

  run.From(stage_0[1], StepReport{0, {{1, 30, 2.0f}}});
  CHECK(run.CountEvents("step") == 0);
  run.From(stage_0[0], StepReport{0, {{0, 10, 6.0f}}});

  CHECK(run.LastEvent("step") ==
        nlohmann::json({{"step", 0}, {"loss", 3.0}, {"tokens", 40}, {"microbatches", 2}}));
  CHECK(run.state().tokens == 40);
}

TEST_CASE("A microbatch is credited once, whoever reports it how often", "[coordinator]") {
  ServedRun run;
  run.Gather();
  const auto stage_0 = run.Live(0);
  const StepReport report{0, {{0, 10, 6.0f}, {1, 10, 2.0f}}};
  run.From(stage_0[0], report);
  const RunState before = run.state();
  const size_t records = run.journal.size();

  run.From(stage_0[0], report);
  run.From(stage_0[0], StepReport{0, {{1, 99, 0.5f}}});

  CHECK(run.state() == before);
  CHECK(run.journal.size() == records);
  CHECK(run.CountEvents("step") == 1);
}

TEST_CASE("A round is frozen when every live replica holds every live replica's delta",
          "[coordinator]") {
  ServedRun run;
  run.Gather();
  const auto replicas = run.Live(1);
  run.From(replicas[0], Held(1, 0, replicas[0]));
  run.From(replicas[1], Held(1, 0, replicas[1]));
  run.From(replicas[0], Held(1, 0, replicas[1]));
  CHECK(run.state().commits.empty());
  run.TakeSends();

  run.From(replicas[1], Held(1, 0, replicas[0]));

  REQUIRE(run.state().commits.size() == 1);
  const RoundCommit& commit = run.state().commits.at({1, 0});
  REQUIRE(commit.participants.size() == 2);
  CHECK(commit.participants[0].node == replicas[0]);
  CHECK(run.Fold().commits == run.state().commits);
  for (const NodeId& node : replicas) {
    CHECK(run.SentTo<RoundCommit>(node) == std::vector<RoundCommit>{commit});
  }
  CHECK(run.LastEvent("round")["participants"].size() == 2);
  CHECK_FALSE(run.LastEvent("round").contains("missing"));
}

TEST_CASE("There is one set for a round, ever: late reports get the frozen one again",
          "[coordinator]") {
  ServedRun run;
  run.Gather();
  const auto replicas = run.Live(1);
  HoldAll(run, 1, 0);
  const RoundCommit commit = run.state().commits.at({1, 0});
  if (GENERATE(false, true)) run.Restart();
  for (const NodeId& node : replicas) {
    Hello hello = ServedRun::HelloOf(0);
    hello.plan_version = 1;
    run.From(node, hello);
  }
  run.TakeSends();

  DeltaHeld other = Held(1, 0, replicas[0]);
  other.digest.bytes[5] ^= 1;
  run.From(replicas[0], other);
  HoldAll(run, 1, 0);

  CHECK(run.state().commits.size() == 1);
  CHECK(run.state().commits.at({1, 0}) == commit);
  for (const auto& sent : run.SentTo<RoundCommit>(replicas[0])) CHECK(sent == commit);
  CHECK(run.SentTo<RoundCommit>(replicas[0]).size() == 3);
}

TEST_CASE("Rounds of a stage are frozen in order, also when a later one is complete first",
          "[coordinator]") {
  ServedRun run;
  run.Gather();
  HoldAll(run, 0, 1);
  CHECK(run.state().commits.empty());
  HoldAll(run, 0, 0);
  CHECK(run.state().RoundsCommitted(0) == 2);
  CHECK(run.state().RoundsCommitted(1) == 0);
}

TEST_CASE("A sender that told two replicas different things is put out", "[coordinator]") {
  ServedRun run(SixNodes());
  run.ticket_uses = 6;
  run.Gather(6);
  const auto replicas = run.Live(1);
  REQUIRE(replicas.size() >= 2);
  HoldAll(run, 1, 0, [&](const NodeId& holder, DeltaHeld* held) {
    if (held->sender == replicas[0] && holder == replicas[1]) held->digest.bytes[9] ^= 1;
  });
  CheckOnlyPutOut(run, replicas[0], replicas.size() - 1);
}

TEST_CASE("Whose delta cannot be decoded is put out by the first word of it", "[coordinator]") {
  ServedRun run(SixNodes());
  run.ticket_uses = 6;
  run.Gather(6);
  const auto replicas = run.Live(1);
  REQUIRE(replicas.size() >= 2);
  run.From(replicas[0], Held(1, 0, replicas[0]));

  DeltaHeld refused = Held(1, 0, replicas[0]);
  refused.digest = {};
  run.From(replicas[1], refused);  // nobody else has said anything of this round yet

  CHECK(run.state().evicted == std::set<NodeId>{replicas[0]});
}

TEST_CASE("Who claims more tokens than a round has, which weigh its delta, is put out",
          "[coordinator]") {
  ServedRun run(SixNodes());
  run.ticket_uses = 6;
  run.Gather(6);
  const auto replicas = run.Live(1);
  REQUIRE(replicas.size() >= 2);
  const bool by_itself = GENERATE(true, false);
  HoldAll(run, 1, 0, [&](const NodeId& holder, DeltaHeld* held) {
    const bool knows = by_itself || holder != held->sender;
    if (held->sender == replicas[0] && knows) held->tokens = int64_t{1} << 40;
  });
  CheckOnlyPutOut(run, replicas[0], replicas.size() - 1);
}

TEST_CASE("Equal digests after a round are journalled, a repeated report changes nothing",
          "[coordinator]") {
  ServedRun run;
  run.Gather();
  HoldAll(run, 0, 0);
  for (const NodeId& node : run.Live(0)) run.From(node, Applied(0, 0));
  const size_t records = run.journal.size();
  for (const NodeId& node : run.Live(0)) run.From(node, Applied(0, 0));

  CHECK(run.journal.size() == records);
  CHECK(run.state().applied.at({0, 0}).size() == 2);
  CHECK(run.CountEvents("applied") == 2);
  CHECK(run.CountEvents("digest_mismatch") == 0);
}

TEST_CASE("Who was screened is told once for a round, counted, and only of its participants",
          "[coordinator]") {
  RunConfig config = SixNodes();
  config.outer.robust = OuterRobust::kScreen;
  ServedRun run(config);
  run.ticket_uses = 6;
  run.Gather(6);
  HoldAll(run, 1, 0);
  HoldAll(run, 1, 1);
  const auto replicas = run.Live(1);
  REQUIRE(replicas.size() >= 3);
  const auto applied = [&](int64_t round, std::vector<NodeId> screened) {
    RoundApplied message = Applied(1, round);
    message.screened = std::move(screened);
    return message;
  };

  // A stranger to the round, somebody twice: what cannot be is dropped, what is left counts.
  const NodeId stranger = run.Live(0).front();
  run.From(replicas[0], applied(0, {stranger, replicas[2], replicas[2]}));
  run.From(replicas[1], applied(0, {replicas[2]}));
  CHECK(run.CountEvents("screened") == 1);
  CHECK(run.LastEvent("screened") == nlohmann::json({{"stage", 1},
                                                     {"round", 0},
                                                     {"node", replicas[2].Short()},
                                                     {"by", replicas[0].Short()}}));
  run.From(replicas[1], applied(1, {replicas[2]}));
  CHECK(run.CountEvents("screened") == 2);
  CHECK(run.state().rounds_screened == std::map<NodeId, int64_t>{{replicas[2], 2}});

  run.Restart();
  run.From(replicas[2], applied(0, {replicas[2]}));
  CHECK(run.CountEvents("screened") == 0);  // of the new process
  CHECK(run.Fold().rounds_screened == run.state().rounds_screened);
  const auto nodes = NodesJson(run.Fold(), run.config, nullptr);
  for (const auto& node : nodes) {
    CHECK(node["rounds_screened"] == (node["id"] == replicas[2].Hex() ? 2 : 0));
  }
}

TEST_CASE("Who is left out by most others three rounds in a row is put out, with the reason",
          "[coordinator]") {
  RunConfig config = SixNodes();
  config.pipeline.stages = 1;
  config.outer.robust = OuterRobust::kScreen;
  ServedRun run(config);
  run.ticket_uses = 6;
  run.Gather(6);
  const auto replicas = run.Live(0);
  REQUIRE(replicas.size() == 6);
  const NodeId& wild = replicas[5];
  // `by`: how many of the five others say so.
  const auto round = [&](int64_t number, size_t by) {
    HoldAll(run, 0, number);
    for (size_t i = 0; i < replicas.size(); ++i) {
      RoundApplied message = Applied(0, number);
      if (i < by) message.screened = {wild};
      run.From(replicas[i], message);
    }
    return run.CountEvents("dead") == 1;
  };

  SECTION("at once with the third") {
    CHECK(!round(0, 5));
    CHECK(!round(1, 3));
    CHECK(round(2, 3));
    const std::string why = run.LastEvent("dead")["why"];
    CHECK(why ==
          "its deltas were left out as wild in 3 rounds in a row, by 3 others of its stage or "
          "more");
    CHECK(run.LastEvent("dead")["node"] == wild.Short());
    CHECK(run.Fold().evicted == std::set<NodeId>{wild});
  }
  SECTION("also by a coordinator that was restarted in between") {
    CHECK(!round(0, 5));
    CHECK(!round(1, 5));
    run.Restart();
    CHECK(round(2, 5));
  }
  SECTION("not with a round in between in which it was believed") {
    CHECK(!round(0, 5));
    CHECK(!round(1, 5));
    CHECK(!round(2, 0));
    CHECK(!round(3, 5));
  }
  SECTION("not by the word of few") {
    for (int64_t number = 0; number < 4; ++number) CHECK(!round(number, 2));
  }
}

TEST_CASE("Without a robust mode nobody can be said to be screened", "[coordinator]") {
  RunConfig config = SmallRun();
  config.outer.robust = OuterRobust::kNone;
  ServedRun run(config);
  run.Gather();
  HoldAll(run, 0, 0);
  RoundApplied message = Applied(0, 0);
  message.screened = {run.Live(0)[1]};
  run.From(run.Live(0)[0], message);
  CHECK(run.CountEvents("screened") == 0);
  CHECK(run.state().rounds_screened.empty());
  CHECK(run.state().applied.at({0, 0}).size() == 1);
}

TEST_CASE("The minority of a digest is put out, even if it reported first", "[coordinator]") {
  RunConfig config = SmallRun();
  config.nodes_min = 3;
  config.pipeline.stages = 1;
  ServedRun run(config);
  run.Gather(3);
  const auto replicas = run.Live(0);
  REQUIRE(replicas.size() == 3);
  HoldAll(run, 0, 0);
  const auto odd = static_cast<size_t>(GENERATE(0, 1, 2));
  for (size_t i = 0; i < 3; ++i) run.From(replicas[i], Applied(0, 0, i == odd ? 9 : 7));

  CHECK(run.CountEvents("digest_mismatch") == 1);
  CHECK(run.LastEvent("digest_mismatch")["node"] == replicas[odd].Short());
  CHECK(run.Live(0).size() == 2);
  CHECK(run.state().AgreedDigest(0, 0) == Applied(0, 0, 7).base_digest);
  CHECK(run.Fold() == run.state());
}
