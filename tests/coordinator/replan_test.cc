// Nodes that work are moved: decided in the background, made at the end of a round, by one plan.

#include "pipeline/plan/replan.h"

#include "pipeline/plan/handover.h"
#include "pipeline/plan/route.h"
#include "pipeline/plan/validate.h"
#include "tests/coordinator/served_run.h"

using namespace skerry;
using skerry::testing::Applied;
using skerry::testing::Held;
using skerry::testing::Node;
using skerry::testing::ServedRun;
using skerry::testing::SmallRun;

namespace {

constexpr int kNodes = 9;

RunConfig LongRun(double replan_s) {
  RunConfig config = SmallRun();
  config.steps = 400;
  config.nodes_min = kNodes;
  config.replan_s = replan_s;
  config.model.layers = 6;
  config.pipeline.stages = 3;
  config.pipeline.microbatches_per_step = 6;
  config.pipeline.in_flight = 4;
  config.pipeline.skip_ratio = 0.5;  // else the run ends with a stage
  return config;
}

// Three stages of three nodes, whose devices are what limits a step.
struct Fleet : ServedRun {
  explicit Fleet(double replan_s = 30) : ServedRun(LongRun(replan_s)) {
    ticket_uses = 100;
    for (int i = 0; i < kNodes; ++i) From(i, SlowHello(i));
    AnswerProbes();
    RunJobs();
    REQUIRE(state().plan);
    for (const StageAssignment& stage : state().plan->stages) REQUIRE(stage.replicas.size() == 3);
    for (int i = 0; i < kNodes; ++i) From(i, BeatOf(Node(i)));
    MakeRound();
  }

  static Hello SlowHello(int i) {
    Hello hello = ServedRun::HelloOf(i);
    hello.device.gflops = 1e-4;
    return hello;
  }

  Heartbeat BeatOf(const NodeId& node) const {
    Heartbeat beat;
    beat.phase = phases.contains(node) ? phases.at(node) : Phase::kTraining;
    if (const auto stage = SlotOf(*state().plan, node)) {
      beat.base_version = state().RoundsCommitted(stage->stage);
    }
    return beat;
  }

  // Every stage makes one, all who hold it say so, and what they got of it.
  void MakeRound() {
    for (int32_t stage = 0; stage < 3; ++stage) {
      const int64_t round = state().RoundsCommitted(stage);
      const PipelinePlan plan = *state().plan;
      for (const NodeId& holder : Holders(plan, stage)) {
        for (const NodeId& sender : ParticipantsOf(plan, stage, round)) {
          From(holder, Held(stage, round, sender));
        }
      }
      REQUIRE(state().RoundsCommitted(stage) == round + 1);
      for (const NodeId& node : LiveReplicas(plan, stage)) From(node, Applied(stage, round));
    }
  }

  // Everybody says something every second meanwhile.
  void Wait(int seconds) {
    for (int second = 0; second < seconds; ++second) {
      for (int i = 0; i < kNodes; ++i) {
        if (state().nodes.at(Node(i)).alive) From(i, BeatOf(Node(i)));
      }
      Pass(1);
      RunJobs();
    }
  }

  // Two of stage 1 go.
  void LoseTwo() {
    const std::vector<NodeId> replicas = Live(1);
    for (size_t i = 0; i < 2; ++i) From(replicas[i], skerry::Leave{"it was switched off"});
  }

  // The mover of a decision that has been carried out.
  NodeId Moved() {
    LoseTwo();
    Wait(13);  // long enough that nobody comes back at once
    REQUIRE(state().plan->joining.empty());
    MakeRound();
    REQUIRE(state().plan->joining.size() == 1);
    return state().plan->joining[0].node;
  }

  std::map<NodeId, Phase> phases;
};

}  // namespace

TEST_CASE("Replan: after a death the log says what a move would bring, and what it costs",
          "[coordinator]") {
  Fleet fleet;
  fleet.LoseTwo();
  fleet.Wait(2);

  const auto told = fleet.LastEvent("replan");
  REQUIRE_FALSE(told.is_null());
  CHECK(told["decision"] == "migrate");
  CHECK(std::string(told["reason"]).find("is out: it left") != std::string::npos);
  CHECK(told["now_s"].get<double>() - told["then_s"].get<double>() ==
        Approx(told["gain_s"].get<double>()));
  CHECK(told["cost_s"] > 0);
  CHECK(told["pays_back_steps"] > 0);
  REQUIRE(told["moves"].size() == 1);
  CHECK(told["moves"][0]["to_stage"] == 1);
  const auto lines = fleet.CountEvents("replan");
  fleet.Wait(9);
  CHECK(fleet.CountEvents("replan") == lines);  // nothing has changed
}

TEST_CASE("Replan: a fleet that is well is looked at too, and stays", "[coordinator]") {
  Fleet fleet;
  fleet.Wait(31);
  CHECK(fleet.LastEvent("replan")["decision"] == "stay");
  CHECK(fleet.LastEvent("replan")["why"] != "");
  fleet.Wait(200);
  CHECK(fleet.CountEvents("replan") == 1);
}

TEST_CASE("Replan: replan_s = 0 is never", "[coordinator]") {
  Fleet fleet(0);
  fleet.LoseTwo();
  fleet.Wait(100);
  fleet.MakeRound();
  CHECK(fleet.CountEvents("replan") == 0);
  CHECK(fleet.state().plan->joining.empty());
}

TEST_CASE("Migration: one plan, when the stage's round has landed, and the journal tells the same",
          "[coordinator]") {
  Fleet fleet;
  const NodeId mover = fleet.Moved();

  const PipelinePlan& plan = *fleet.state().plan;
  CHECK(SlotOf(plan, mover)->stage == 1);
  CHECK(plan.joining[0].since == plan.version);
  CHECK(plan.joining[0].base_version == 2);
  CHECK(plan.dead.size() == 2);
  CHECK(Holders(plan, 1).size() == 2);
  CHECK(ValidatePlan(plan, fleet.config).ok());
  CHECK(*fleet.SentTo<PlanUpdate>(mover).back().plan == plan);
  CHECK(fleet.CountEvents("migration") == 1);
  CHECK(fleet.state().migrations == 1);
  CHECK(fleet.state().moved.size() == 2);
  CHECK(fleet.Fold() == fleet.state());
}

TEST_CASE("Migration: nobody is moved while the run is paused", "[coordinator]") {
  Fleet fleet;
  const auto obey = [&fleet](AdmissionOrder::Does does) {
    AdmissionOrder order;
    order.id = does == AdmissionOrder::Does::kPause ? "a1" : "a2";
    order.does = does;
    fleet.Handle([&](CoordinatorActor& a, Context& c) { a.Obey(c, order); });
  };
  fleet.LoseTwo();
  fleet.Wait(13);  // it is decided
  obey(AdmissionOrder::Does::kPause);
  REQUIRE(fleet.state().orders.paused_at);
  fleet.MakeRound();
  CHECK(fleet.state().plan->joining.empty());
  obey(AdmissionOrder::Does::kResume);
  fleet.MakeRound();
  CHECK(fleet.state().plan->joining.size() == 1);
}

TEST_CASE("Migration: what a mover still says as its old self changes nothing", "[coordinator]") {
  Fleet fleet;
  const PipelinePlan before = *fleet.state().plan;
  const NodeId mover = fleet.Moved();
  const int32_t old_stage = SlotOf(before, mover)->stage;
  const RunState settled = fleet.state();

  fleet.From(mover, Held(old_stage, 2, mover));
  fleet.From(mover, Applied(old_stage, 1, 9));
  fleet.From(mover, StepReport{3, {{0, 8, 1.0f}}});
  for (const NodeId& other : Holders(*settled.plan, old_stage)) {
    fleet.From(other, Held(old_stage, 2, mover));
  }
  CHECK(fleet.state() == settled);
  // Nor does its stage wait for it.
  fleet.MakeRound();
  CHECK(fleet.state().commits.at({old_stage, 2}).participants.size() == 2);
}

TEST_CASE("Migration: the mover begins as any joiner does, and its stages rest", "[coordinator]") {
  Fleet fleet;
  const NodeId mover = fleet.Moved();
  fleet.phases[mover] = Phase::kCatchingUp;
  fleet.Wait(1);
  REQUIRE(JoinerOf(*fleet.state().plan, mover)->IsFixed());
  fleet.phases.erase(mover);
  CHECK(fleet.LastEvent("joined")["stage"] == 1);

  // It dies again: somebody else would be moved, but not before the stage has rested.
  for (int round = 0; round < 4; ++round) fleet.MakeRound();
  fleet.From(mover, skerry::Leave{"again"});
  fleet.Wait(20);
  fleet.MakeRound();
  CHECK(fleet.LastEvent("replan")["decision"] == "stay");
  CHECK(fleet.state().migrations == 1);
}

TEST_CASE("Migration: one at a time for a stage", "[coordinator]") {
  Fleet fleet;
  fleet.Moved();  // one slot of stage 1 is still dead
  for (int i = 0; i < 3; ++i) {
    fleet.Wait(40);
    CHECK(fleet.state().plan->joining.size() <= 1);
  }
  CHECK(fleet.state().migrations <= 2);
}

TEST_CASE("Migration: a mover that dies leaves both slots dead, and the run goes on",
          "[coordinator]") {
  Fleet fleet;
  const NodeId mover = fleet.Moved();
  if (GENERATE(false, true)) {
    fleet.From(mover, skerry::Leave{""});
  } else {
    Hello hello = Fleet::SlowHello(0);  // a process that knows nothing
    fleet.From(mover, hello);
  }
  CHECK(fleet.state().plan->dead.size() == 3);
  CHECK(fleet.state().plan->joining.empty());
  fleet.MakeRound();
  CHECK(fleet.Fold() == fleet.state());
}

TEST_CASE("Migration: the donor's death takes the mover with it, and nobody else",
          "[coordinator]") {
  Fleet fleet;
  const NodeId mover = fleet.Moved();
  const NodeId donor = LiveReplicas(*fleet.state().plan, 1)[0];
  fleet.From(donor, skerry::Leave{""});

  CHECK(Holders(*fleet.state().plan, 1).empty());
  CHECK(IsDead(*fleet.state().plan, mover));
  CHECK(fleet.state().nodes.at(mover).alive);
  CHECK_FALSE(fleet.context.stopped);
}

TEST_CASE("Migration: a coordinator that dies before it decides again, after it goes on",
          "[coordinator]") {
  Fleet fleet;
  fleet.LoseTwo();
  fleet.Wait(13);
  const bool after = GENERATE(false, true);
  if (after) fleet.MakeRound();
  const PipelinePlan plan = *fleet.state().plan;
  CHECK(plan.joining.empty() == !after);

  fleet.Restart();
  for (int i = 0; i < kNodes; ++i) {
    if (!fleet.state().nodes.at(Node(i)).alive) continue;
    Hello hello = Fleet::SlowHello(i);
    hello.plan_version = plan.version;
    hello.base_version = 1;
    fleet.From(i, hello);
    fleet.From(i, fleet.BeatOf(Node(i)));
  }
  CHECK(*fleet.state().plan == plan);
  CHECK(fleet.state().migrations == (after ? 1 : 0));
  if (after) {
    const NodeId mover = plan.joining[0].node;
    fleet.phases[mover] = Phase::kCatchingUp;
    fleet.Wait(1);
    CHECK(JoinerOf(*fleet.state().plan, mover)->IsFixed());
  } else {
    fleet.Wait(45);
    fleet.MakeRound();
    CHECK(fleet.state().migrations == 1);
  }
}

TEST_CASE("Migration: a node that comes back in time gets its slot, and nobody moves",
          "[coordinator]") {
  Fleet fleet;
  const NodeId gone = fleet.Live(1)[0];
  fleet.LoseTwo();
  fleet.Wait(5);
  REQUIRE(fleet.LastEvent("replan")["decision"] == "migrate");
  for (int i = 0; i < kNodes; ++i) {
    if (Node(i) == gone) fleet.From(i, Fleet::SlowHello(i));
  }
  fleet.phases[gone] = Phase::kStandby;
  fleet.Wait(20);

  CHECK(JoinerOf(*fleet.state().plan, gone) != nullptr);
  fleet.MakeRound();
  CHECK(fleet.state().migrations == 0);
}

TEST_CASE("Replan: of the run's own traffic only what is faster than was read is believed",
          "[coordinator]") {
  Fleet fleet;
  const auto rate = [&] { return fleet.state().links.at({Node(0), Node(1)}).bytes_per_s; };
  const double read = rate();
  const auto told = [&](double bytes_per_s) {
    fleet.From(0, LinkReading{Node(1), 0.02, bytes_per_s});
    return rate();
  };
  CHECK(told(read / 2) == read);
  CHECK(told(2 * read) == 2 * read);
  CHECK(told(read) == 2 * read);
  // And outdates what was read before.
  CHECK(fleet.LastEvent("link")["mbps"].get<double>() == Approx(2 * read * 8e-6));
}

TEST_CASE("Replan: links are read again while the run trains, and one that fell far is news",
          "[coordinator]") {
  Fleet fleet;
  fleet.TakeSends();
  fleet.Wait(31);
  int asked = 0;
  std::set<NodeId> busy;
  for (const auto& [to, message] : fleet.TakeSends()) {
    const auto* request = std::get_if<ProbeRequest>(&message);
    if (request == nullptr) continue;
    ++asked;
    CHECK(busy.insert(to).second);
    CHECK(busy.insert(request->target).second);
    fleet.From(to, LinkReading{request->target, 0.02, asked == 1 ? 1e7 : 1e5});
    const LinkReading& known = fleet.state().links.at({to, request->target});
    CHECK(known.bytes_per_s == (asked == 1 ? 2e7 : 1e5));  // twice as slow: it was busy
  }
  CHECK(asked >= 2);
}
