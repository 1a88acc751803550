// Orders that meet something else: a return to a checkpoint, nodes that come back, each other.

#include <catch2/catch.hpp>

#include "coordinator/admission_view.h"
#include "coordinator/checkpoint_archive.h"
#include "pipeline/plan/route.h"
#include "tests/coordinator/kept_run.h"

using namespace skerry;
using skerry::testing::Checkpointed;
using skerry::testing::Kept;
using skerry::testing::Node;
using skerry::testing::ServedRun;
using skerry::testing::SmallRun;

namespace {

using Does = AdmissionOrder::Does;

std::string Obey(ServedRun& run, Does does, int node = -1) {
  static int orders = 0;
  AdmissionOrder order;
  order.id = std::to_string(7000 + ++orders);
  order.does = does;
  if (node >= 0) order.node = Node(node);
  run.Handle([&](CoordinatorActor& a, Context& c) { a.Obey(c, order); });
  return run.LastEvent("order").value("came_of_it", "");
}

RunConfig LongRun() {
  RunConfig config = SmallRun();
  config.steps = 4'000'000;
  return config;
}

Heartbeat BeatOf(Phase phase, int64_t step = 0) {
  Heartbeat beat;
  beat.phase = phase;
  beat.step = step;
  return beat;
}

// All of stage 1 go, with a checkpoint of version 2 (step 4) kept; steps to 6 are made.
void LoseStage(Kept& kept) {
  kept.run.Gather();
  kept.OneRound(0);
  kept.MakeOne();
  kept.OneRound(1);
  kept.OneRound(2);
  for (const NodeId& node : kept.run.Live(1)) kept.run.From(node, Leave{"gone"});
  REQUIRE_FALSE(kept.run.state().lost.empty());
}

void Return(ServedRun& run) {
  for (int i = 0; i < 4; ++i) run.From(i, ServedRun::HelloOf(i));
  run.AnswerProbes();
  run.Pass(1);
  run.RunJobs();
  REQUIRE(run.state().plan->start.step == 4);
}

// The last limit that a node heard of before the plan.
void CheckHeld(const ServedRun& run, int64_t at) {
  CHECK(run.state().orders.paused_at == at);
  for (int i = 0; i < 4; ++i) {
    Heartbeat limit;
    bool is_planned = false;
    for (const auto& [to, message] : run.context.sends) {
      if (to != Node(i)) continue;
      const auto* update = std::get_if<PlanUpdate>(&message);
      is_planned = is_planned || (update != nullptr && update->plan->dead.empty());
      const auto* told = std::get_if<Heartbeat>(&message);
      if (told != nullptr && !is_planned) limit = *told;
    }
    CHECK(is_planned);
    CHECK(limit.step == at);
    CHECK_FALSE(limit.waiting_for.empty());
  }
}

}  // namespace

TEST_CASE("A paused run that goes back to a checkpoint stays at that",
          "[coordinator][checkpoint]") {
  Kept kept;
  LoseStage(kept);
  // While the run gathers; before the loss it is the same.
  Obey(kept.run, Does::kPause);
  Return(kept.run);
  CheckHeld(kept.run, 4);
  kept.run.From(0, BeatOf(Phase::kWaitingForPeers, 4));
  CHECK(kept.run.state().orders.paused_at == 4);
  CHECK(kept.run.Fold() == kept.run.state());
}

TEST_CASE("A run that begins with another's checkpoint can be paused before it has begun",
          "[coordinator][checkpoint]") {
  Kept made;
  made.run.Gather();
  made.OneRound(0);
  made.MakeOne();
  CheckpointArchive archive(std::make_unique<MemoryCheckpointFiles>(made.disk));
  ServedRun run(Checkpointed(0));
  run.journal = {ResumedRecord(made.run.state().checkpoints.at(1), "another run")};
  run.checkpoints = &archive;
  run.Restart();

  Obey(run, Does::kPause);
  Return(run);

  CheckHeld(run, 4);
}

TEST_CASE("A checkpoint that was wanted before a return is met by the first one after it",
          "[coordinator][checkpoint]") {
  Kept kept;
  kept.run.Gather();
  kept.OneRound(0);
  kept.MakeOne();
  for (int64_t round = 1; round < 4; ++round) kept.OneRound(round);
  REQUIRE(Obey(kept.run, Does::kCheckpoint).starts_with("a checkpoint is made of version 5"));
  for (const NodeId& node : kept.run.Live(1)) kept.run.From(node, Leave{"gone"});
  Return(kept.run);
  CHECK(kept.run.state().orders.wanted == 3);
  CHECK(kept.run.Fold() == kept.run.state());
}

TEST_CASE("A node that alone holds a stage cannot be spared until there is a checkpoint",
          "[coordinator]") {
  Kept kept;
  CHECK_FALSE(OnlyHeldBy(kept.run.state(), Node(0)));
  kept.run.Gather();
  const std::vector<NodeId> of_one = kept.run.Live(1);
  REQUIRE(of_one.size() == 2);
  CHECK_FALSE(OnlyHeldBy(kept.run.state(), of_one[0]));

  kept.run.From(of_one[1], Leave{"gone"});
  CHECK(OnlyHeldBy(kept.run.state(), of_one[0]) == 1);
  CHECK_FALSE(OnlyHeldBy(kept.run.state(), of_one[1]));
  CHECK_FALSE(OnlyHeldBy(kept.run.state(), kept.run.Live(0)[0]));

  kept.OneRound(0);
  kept.MakeOne();
  CHECK_FALSE(OnlyHeldBy(kept.run.state(), of_one[0]));
}

TEST_CASE("Who was taken for dead and is back hears whether the run is paused", "[coordinator]") {
  ServedRun run(LongRun());
  run.ticket_uses = 5;
  run.Gather();
  run.From(4, ServedRun::HelloOf(4));  // a standby
  Obey(run, Does::kPause);
  for (double passed = 0; passed < 3 * run.config.node_silent_s; ++passed) {
    for (int i = 0; i < 4; ++i) run.From(i, BeatOf(Phase::kTraining));
    run.Pass(1);
  }
  REQUIRE_FALSE(run.state().nodes.at(Node(4)).alive);
  Obey(run, Does::kResume);
  run.TakeSends();

  run.From(4, BeatOf(Phase::kStandby));  // its line is whole again

  REQUIRE(run.state().nodes.at(Node(4)).alive);
  REQUIRE(run.SentTo<Heartbeat>(Node(4)).size() == 1);
  CHECK(run.SentTo<Heartbeat>(Node(4)).front().waiting_for.empty());
}

TEST_CASE("Of a run that has lost a stage for good no checkpoint is promised",
          "[coordinator][error]") {
  RunConfig config = LongRun();
  config.pipeline.skip_ratio = 0.25;
  config.checkpoint.every_rounds = 0;
  CheckpointArchive archive(
      std::make_unique<MemoryCheckpointFiles>(std::make_shared<CheckpointDisk>()));
  ServedRun run(config);
  run.checkpoints = &archive;
  run.Restart();
  run.Gather();
  for (int i = 0; i < 4; ++i) run.From(i, BeatOf(Phase::kTraining));
  for (const NodeId& node : run.Live(1)) run.From(node, Leave{"gone"});
  REQUIRE(run.state().lost.empty());

  CHECK(Obey(run, Does::kCheckpoint) ==
        "nothing was done: stage 1 is lost and left out, there is no whole model to keep "
        "[SK-order-void]");
  CHECK_FALSE(run.state().orders.wanted);
}

TEST_CASE("Who is late before a pause does not keep the others from it", "[coordinator]") {
  ServedRun run(LongRun());
  run.Gather();
  for (int i = 0; i < 4; ++i) run.From(i, BeatOf(Phase::kTraining, 1));
  Obey(run, Does::kPause);
  const std::vector<NodeId> replicas = run.Live(0);
  RoundLate late;
  late.waited_s = 100;
  late.deltas_of = {replicas[1]};
  run.From(replicas[0], late);
  CHECK(run.CountEvents("absent") == 1);
}

TEST_CASE("Who is denied and admitted again at once is not hung up on later", "[coordinator]") {
  ServedRun run(LongRun());
  run.Gather();
  Obey(run, Does::kDeny, 2);
  REQUIRE(run.SentTo<Refused>(Node(2)).size() == 1);
  Obey(run, Does::kAdmit, 2);
  run.From(2, ServedRun::HelloOf(2));
  REQUIRE(run.state().nodes.at(Node(2)).alive);

  for (int second = 0; second < 15; ++second) {
    for (int i = 0; i < 4; ++i) run.From(i, BeatOf(i == 2 ? Phase::kStandby : Phase::kTraining));
    run.Pass(1);
  }

  CHECK(run.context.connected.contains(Node(2)));
}

TEST_CASE("Who waits for approval with a ticket that is revoked waits no more", "[coordinator]") {
  ServedRun run;
  AdmissionOrder order;
  order.id = "b1";
  order.does = Does::kPolicy;
  order.policy = AdmissionPolicy::kApprove;
  const auto obey = [&run](const AdmissionOrder& given) {
    run.Handle([&](CoordinatorActor& a, Context& c) { a.Obey(c, given); });
  };
  obey(order);
  run.From(0, ServedRun::HelloOf(0));
  run.Restart();  // nobody knows where it is
  REQUIRE(run.state().admission.asked.contains(Node(0)));
  order = {};
  order.id = "b2";
  order.does = Does::kRevoke;
  order.ticket = "0a0b";
  obey(order);
  CHECK(run.state().admission.asked.empty());
  CHECK(run.Fold() == run.state());
}
