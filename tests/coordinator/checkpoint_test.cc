// Checkpoints while a run trains, and going back to one when a stage has nobody left.

#include <catch2/catch.hpp>

#include "common/digest.h"
#include "coordinator/checkpoint_archive.h"
#include "model/stage_state.h"
#include "tests/coordinator/kept_run.h"

using namespace skerry;
using skerry::testing::Applied;
using skerry::testing::Held;
using skerry::testing::Kept;
using skerry::testing::Node;
using skerry::testing::ServedRun;
using skerry::testing::SmallRun;

namespace {

// Every process of the run ends; those of `back` come again, with nothing.
void LoseStage(Kept& kept, int32_t stage) {
  for (const NodeId& node : kept.run.Live(stage)) kept.run.From(node, Leave{"gone"});
}

void Return(Kept& kept, const std::vector<int>& nodes) {
  for (const int i : nodes) kept.run.From(i, ServedRun::HelloOf(i));
  kept.run.AnswerProbes();
  kept.run.Pass(1);
  kept.run.RunJobs();
}

}  // namespace

TEST_CASE(
    "One replica of every stage is asked for a version that is still ahead, and what it kept "
    "becomes a whole generation",
    "[coordinator][checkpoint]") {
  Kept kept;
  kept.run.Gather();
  kept.OneRound(0);
  kept.run.Pass(1);

  kept.Answer();
  REQUIRE(kept.wanted.size() == 2);
  CHECK(kept.wanted.at(0).second == 2);
  CHECK(kept.wanted.at(1).second == 2);
  kept.Reach(0);
  kept.Answer();
  CHECK(kept.run.state().checkpoints.empty());
  kept.Reach(1);
  kept.Answer();

  REQUIRE(kept.run.state().checkpoints.size() == 1);
  const CheckpointRecord made = kept.run.state().checkpoints.at(1);
  CHECK(made.round == 2);
  CHECK(made.step == 4);
  CHECK(made.tokens == 32);
  CHECK(made.new_bytes == made.bytes);
  CHECK(kept.run.LastEvent("checkpoint")["generation"] == 1);
  CheckpointArchive archive(std::make_unique<MemoryCheckpointFiles>(kept.disk));
  CHECK(archive.Problems(*archive.Load(1), true).empty());
  CHECK(kept.run.Fold() == kept.run.state());
}

TEST_CASE("A replica that is past the version, or dies, is followed by another of its stage",
          "[coordinator][checkpoint][error]") {
  Kept kept;
  kept.run.Gather();
  kept.run.Pass(1);
  kept.Answer();
  const auto [first, round] = kept.wanted.at(1);
  SECTION("past") {
    kept.run.From(first, CheckpointState{1, round, -1, {}});
  }
  SECTION("dead") {
    kept.run.From(first, Leave{"gone"});
    kept.run.Pass(1);
  }
  kept.Answer();
  CHECK(kept.wanted.at(1).first != first);
  CHECK(kept.wanted.at(1).second == round);
  kept.Reach(0);
  kept.Reach(1);
  kept.Answer();
  CHECK(kept.run.state().checkpoints.size() == 1);
}

TEST_CASE(
    "States of many chunks are gathered and written some at a time, and one that lies is passed "
    "over",
    "[coordinator][checkpoint][error]") {
  Kept kept;
  kept.more_bytes = 10 * kCheckpointChunkBytes;
  kept.run.Gather();
  kept.run.Pass(1);
  kept.Answer();
  const auto [first, round] = kept.wanted.at(1);
  const bool lies = GENERATE(false, true);
  if (lies) {
    kept.liar = first;
    kept.lie_at = 5 * kCheckpointChunkBytes;
  }
  kept.Reach(0);
  kept.Reach(1);
  kept.Answer();
  CHECK((kept.wanted.at(1).first == first) != lies);
  if (lies) {
    CHECK(kept.run.state().checkpoints.empty());
    kept.Reach(1);  // the other one
    kept.Answer();
  }
  REQUIRE(kept.run.state().checkpoints.size() == 1);
  CheckpointArchive archive(std::make_unique<MemoryCheckpointFiles>(kept.disk));
  const auto made = archive.Load(1);
  REQUIRE(made.ok());
  CHECK(made->stages[1].chunks.size() == 11);
  CHECK(archive.Problems(*made, true).empty());
}

TEST_CASE("When no replica has the version any more it is given up, and a later one is asked for",
          "[coordinator][checkpoint][error]") {
  Kept kept;
  kept.run.Gather();
  kept.run.Pass(1);
  kept.Answer();
  for (int i = 0; i < 2; ++i) {
    const auto [node, round] = kept.wanted.at(1);
    kept.run.From(node, CheckpointState{1, round, -1, {}});
    kept.Answer();
  }
  CHECK(kept.run.CountEvents("checkpoint_failed") == 1);
  kept.MakeOne();
  CHECK(kept.run.state().checkpoints.at(1).round > 1);
}

TEST_CASE("A coordinator that dies anywhere in a checkpoint knows only whole ones, and makes more",
          "[coordinator][checkpoint]") {
  const bool keeps = GENERATE(false, true);
  for (int crash_at = 1; crash_at < 60; ++crash_at) {
    Kept kept;
    kept.run.crash_at = crash_at;
    kept.run.crash_keeps = keeps;
    kept.run.Gather();
    for (int again = 0; again < 3 && !kept.run.state().plan; ++again) kept.run.Gather();
    if (!kept.run.state().plan) continue;
    for (int i = 0; i < 4; ++i) {
      Hello hello = ServedRun::HelloOf(i);
      hello.plan_version = kept.run.state().plan->version;
      if (kept.run.lives > 2) kept.run.From(i, hello);
    }
    for (int64_t round = 0; round < 4; ++round) {
      kept.run.Pass(1);
      kept.Answer();
      for (int32_t stage = 0; stage < 2; ++stage) {
        if (kept.wanted.contains(stage)) kept.Reach(stage);
      }
      kept.Answer();
      kept.OneRound(round);
    }
    CheckpointArchive archive(std::make_unique<MemoryCheckpointFiles>(kept.disk));
    INFO("it died at write " << crash_at);
    for (const auto& [generation, record] : kept.run.state().checkpoints) {
      const auto loaded = archive.Load(generation);
      REQUIRE(loaded.ok());
      CHECK(loaded->round == record.round);
      CHECK(archive.Problems(*loaded, true).empty());
    }
    CHECK(kept.run.Fold() == kept.run.state());
    if (kept.run.lives == 2) break;  // there was no such write
  }
}

TEST_CASE("The next one is not begun sooner than is said, unless it was ordered",
          "[coordinator][checkpoint]") {
  Kept kept(4);
  kept.run.Gather();
  kept.MakeOne();
  REQUIRE(kept.run.state().checkpoints.size() == 1);
  const auto is_asked = [&](double seconds) {
    kept.wanted.clear();
    kept.run.Pass(seconds);
    kept.Answer();
    return !kept.wanted.empty();
  };
  CHECK_FALSE(is_asked(1));
  CHECK_FALSE(is_asked(2));
  SECTION("time passes") {
    CHECK(is_asked(2));
  }
  SECTION("an order") {
    AdmissionOrder order;
    order.id = "5000";
    order.does = AdmissionOrder::Does::kCheckpoint;
    kept.run.Handle([&](CoordinatorActor& a, Context& c) { a.Obey(c, order); });
    CHECK(is_asked(0.5));
  }
}

TEST_CASE("Older generations than are to be kept are dropped", "[coordinator][checkpoint]") {
  Kept kept;
  kept.run.Gather();
  for (int64_t round = 0; round < 4; ++round) {
    kept.MakeOne();
    kept.OneRound(round);
  }
  REQUIRE(kept.run.state().checkpoints.size() == 2);
  CHECK(kept.run.state().checkpoints.contains(4));
  kept.run.RunJobs();
  CheckpointArchive archive(std::make_unique<MemoryCheckpointFiles>(kept.disk));
  CHECK(*archive.Generations() == std::vector<int64_t>{3, 4});
}

TEST_CASE("When a stage has nobody left the run goes back to its checkpoint, with whoever is here",
          "[coordinator][checkpoint]") {
  Kept kept;
  kept.run.Gather();
  kept.OneRound(0);
  kept.MakeOne();  // of version 2: step 4
  kept.OneRound(1);
  kept.OneRound(2);
  REQUIRE(kept.run.state().tokens == 6 * 16);
  const int64_t version = kept.run.state().plan->version;
  kept.run.TakeSends();

  LoseStage(kept, 1);

  CHECK(kept.run.state().lost == std::set<int32_t>{1});
  CHECK(kept.run.CountEvents("stage_lost") == 1);
  const auto told = kept.run.SentTo<PlanUpdate>(kept.run.state().plan->stages[0].replicas[0]);
  REQUIRE_FALSE(told.empty());
  CHECK(told.back().plan->dead.size() == 4);
  CHECK(told.back().plan->version > version);

  // What somebody says who has not heard of it changes nothing.
  kept.run.From(told.empty() ? Node(0) : kept.run.state().plan->stages[0].replicas[0],
                StepReport{6, {{0, 8, 1.0f}}});
  CHECK_FALSE(kept.run.state().losses.contains(6));

  Return(kept, {0, 1, 2, 3});

  const PipelinePlan& plan = *kept.run.state().plan;
  CHECK(kept.run.state().lost.empty());
  CHECK(plan.start == PlanStart{plan.version, 2, 4});
  CHECK(plan.dead.empty());
  CHECK(kept.run.state().tokens == 4 * 16);
  CHECK(kept.run.state().rewound_tokens == 2 * 16);
  CHECK(kept.run.state().RoundsCommitted(0) == 2);
  CHECK(kept.run.LastEvent("rewind")["step"] == 4);
  kept.run.Pass(1);
  CHECK(nlohmann::json::parse(kept.run.status)["tokens_per_s"] == 0);  // none since

  // The states are given in the parts that nodes ask for.
  kept.run.TakeSends();
  const NodeId& node = plan.stages[1].replicas[0];
  kept.run.From(node, ObjectRequest{"replica/1", 0, kObjectChunkBytesMax});
  const auto given = kept.run.SentTo<ObjectChunk>(node);
  REQUIRE(given.size() == 1);
  CHECK(given[0].object == "replica/1/2");
  const Bytes expected = kept.StateOf(1, 2);
  CHECK(*given[0].values == expected);
  CHECK(kept.run.Fold() == kept.run.state());
}

TEST_CASE("A node whose process ends after it was given its state has lost it, whoever saw it work",
          "[coordinator][checkpoint]") {
  Kept kept;
  kept.run.Gather();
  kept.OneRound(0);
  kept.MakeOne();
  LoseStage(kept, 0);
  Return(kept, {0, 1, 2, 3});
  const NodeId node = kept.run.state().plan->stages[1].replicas[0];
  const bool was_given = GENERATE(true, false);
  if (was_given) kept.run.From(node, ObjectRequest{"replica/1", 0, kObjectChunkBytesMax});

  // It works, is seen by nobody who lives to tell, and its process is another when one is there.
  kept.run.Restart();
  kept.run.From(node, kept.run.HelloOf(0));

  CHECK(kept.run.state().plan->dead ==
        (was_given ? std::vector<NodeId>{node} : std::vector<NodeId>()));
}

TEST_CASE("A coordinator that dies while the run goes back goes on with that",
          "[coordinator][checkpoint]") {
  Kept kept;
  kept.run.Gather();
  kept.OneRound(0);
  kept.MakeOne();
  LoseStage(kept, 0);
  REQUIRE_FALSE(kept.run.state().lost.empty());

  kept.run.Restart();

  CHECK_FALSE(kept.run.state().lost.empty());
  Return(kept, {0, 1, 2, 3});
  CHECK(kept.run.state().plan->start.step == 4);
}

TEST_CASE("Fewer nodes than the run began with will do, when no others have come for a while",
          "[coordinator][checkpoint]") {
  Kept kept;
  kept.run.Gather();
  kept.OneRound(0);
  kept.MakeOne();
  LoseStage(kept, 1);
  kept.run.Pass(1);
  Hello hello = ServedRun::HelloOf(0);
  // The two of stage 0 say Hello again when they have heard of it.
  for (const NodeId& node : kept.run.state().plan->stages[0].replicas) kept.run.From(node, hello);
  for (int second = 0; second < 40; ++second) {
    kept.run.Pass(1);
    kept.run.RunJobs();
    for (const NodeId& node : kept.run.state().plan->stages[0].replicas) {
      kept.run.From(node, Heartbeat{});
    }
  }
  const PipelinePlan& plan = *kept.run.state().plan;
  CHECK(plan.start.step == 4);
  size_t nodes = 0;
  for (const StageAssignment& stage : plan.stages) nodes += stage.replicas.size();
  CHECK(nodes == 2);
}

TEST_CASE("A run that goes back expects the steps of those who are here then",
          "[coordinator][checkpoint]") {
  Kept kept;
  kept.run.Gather();
  kept.OneRound(0);
  kept.MakeOne();
  const PlannedSettings before = kept.run.state().plan->settings;
  LoseStage(kept, 1);
  Hello slow = ServedRun::HelloOf(0);
  slow.device.gflops = 1e-5;
  for (int i = 0; i < 4; ++i) kept.run.From(i, slow);
  kept.run.AnswerProbes();
  kept.run.Pass(1);
  kept.run.RunJobs();

  REQUIRE(kept.run.state().lost.empty());
  CHECK(kept.run.state().plan->settings.step_s > before.step_s + 1);
  CHECK(kept.run.state().plan->settings.inner_steps == before.inner_steps);
}

TEST_CASE("A damaged checkpoint is passed over for an older one, and named",
          "[coordinator][checkpoint][error]") {
  Kept kept;
  kept.run.Gather();
  kept.MakeOne();
  kept.OneRound(0);
  kept.OneRound(1);
  kept.MakeOne();
  REQUIRE(kept.run.state().checkpoints.size() == 2);
  CheckpointArchive archive(std::make_unique<MemoryCheckpointFiles>(kept.disk));
  const auto newest = archive.Load(2);
  REQUIRE(newest.ok());
  kept.disk->files["chunks/" + newest->stages[1].chunks[0].Hex()][50] ^= 1;

  LoseStage(kept, 1);
  Return(kept, {0, 1, 2, 3});
  kept.run.Pass(2);
  for (int i = 0; i < 4; ++i) kept.run.RunJobs();

  CHECK(kept.run.LastEvent("checkpoint_damaged")["generation"] == 2);
  CHECK(kept.run.state().plan->start.round == kept.run.state().checkpoints.at(1).round);
}

TEST_CASE("A run that begins with another's checkpoint plans with it, at its step",
          "[coordinator][checkpoint]") {
  Kept made;
  made.run.Gather();
  made.OneRound(0);
  made.MakeOne();
  CheckpointArchive archive(std::make_unique<MemoryCheckpointFiles>(made.disk));
  const CheckpointRecord record = made.run.state().checkpoints.at(1);

  ServedRun run(skerry::testing::Checkpointed(0));
  run.journal = {ResumedRecord(record, "another run")};
  run.checkpoints = &archive;
  run.Restart();
  run.Gather();
  run.RunJobs();

  REQUIRE(run.state().plan);
  CHECK(run.state().plan->start == PlanStart{1, 2, 4});
  CHECK(run.state().tokens == record.tokens);
  CHECK(run.state().RoundsCommitted(1) == 2);
}
