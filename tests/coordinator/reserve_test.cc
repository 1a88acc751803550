// More nodes than take part: the reserve, and who fills a place that becomes free.

#include "pipeline/plan/route.h"
#include "tests/coordinator/served_run.h"

using namespace skerry;
using skerry::testing::Node;
using skerry::testing::ServedRun;
using skerry::testing::SmallRun;

namespace {

// Room for four; six come.
struct Crowd : ServedRun {
  Crowd() : ServedRun(RoomForFour()) {
    ticket_uses = 6;
    for (int i = 0; i < 6; ++i) From(i, HelloOf(i));
  }
  static RunConfig RoomForFour() {
    RunConfig config = SmallRun();
    config.steps = 40;
    config.nodes_max = 4;
    return config;
  }
  std::set<NodeId> PeersTold(const NodeId& to) const {
    std::set<NodeId> told;
    for (const Peers& peers : SentTo<Peers>(to)) {
      for (const Peer& peer : peers.peers) told.insert(peer.id);
    }
    return told;
  }
  void Plan() {
    AnswerProbes();
    RunJobs();
    REQUIRE(state().plan);
  }
  // Everybody says something every second.
  void Wait(int seconds, const std::map<int, Phase>& phases) {
    for (int second = 0; second < seconds; ++second) {
      for (const auto& [node, phase] : phases) {
        Heartbeat beat;
        beat.phase = phase;
        From(node, beat);
      }
      Pass(1);
      RunJobs();
    }
  }
};

const std::set<NodeId> kFirstFour = {Node(0), Node(1), Node(2), Node(3)};

}  // namespace

TEST_CASE("Above nodes_max a node is welcome, and hears of nobody until it is needed",
          "[coordinator][reserve]") {
  Crowd run;
  CHECK(run.SentTo<Welcome>(Node(5)).size() == 1);
  run.Pass(1);
  CHECK(run.PeersTold(Node(3)) == kFirstFour);
  CHECK(run.PeersTold(Node(5)).empty());

  run.Plan();
  for (const StageAssignment& stage : run.state().plan->stages) {
    for (const NodeId& replica : stage.replicas) CHECK(kFirstFour.contains(replica));
  }
  CHECK(run.SentTo<PlanUpdate>(Node(0)).size() == 1);
  CHECK(run.SentTo<PlanUpdate>(Node(5)).empty());
}

TEST_CASE("Before the plan a place that becomes free goes to who has waited longest",
          "[coordinator][reserve]") {
  Crowd run;
  run.From(1, skerry::Leave{"enough"});
  run.Pass(1);
  CHECK(run.PeersTold(Node(4)) == std::set{Node(0), Node(2), Node(3), Node(4)});
  CHECK(run.PeersTold(Node(0)).contains(Node(4)));
  CHECK(run.PeersTold(Node(5)).empty());
  run.Plan();
  CHECK(SlotOf(*run.state().plan, Node(4)));
}

TEST_CASE("A death is made good from the reserve: it hears of the others, then gets the slot",
          "[coordinator][reserve]") {
  Crowd run;
  run.Pass(1);
  run.Plan();
  const NodeId dead = run.state().plan->stages[1].replicas[0];
  std::map<int, Phase> phases;
  for (int i = 0; i < 4; ++i) {
    if (Node(i) != dead) phases[i] = Phase::kTraining;
  }
  phases[4] = phases[5] = Phase::kWaitingForPlan;
  run.TakeSends();
  run.From(dead, skerry::Leave{"enough"});
  run.Pass(1);
  CHECK(run.PeersTold(Node(4)).size() == 4);
  CHECK(run.SentTo<PlanUpdate>(Node(4)).size() == 1);

  phases[4] = Phase::kStandby;
  run.Wait(20, phases);
  CHECK(JoinerOf(*run.state().plan, Node(4)) != nullptr);
  CHECK(run.PeersTold(Node(5)).empty());
}

TEST_CASE("A coordinator that comes back knows who takes part, and who was in reserve",
          "[coordinator][reserve]") {
  Crowd run;
  run.Pass(1);
  run.Plan();
  run.Restart();
  for (int i = 5; i >= 0; --i) {  // the reserve is the first to say Hello
    Hello hello = ServedRun::HelloOf(i);
    hello.plan_version = i < 4 ? 1 : 0;
    run.From(i, hello);
  }
  run.Pass(1);
  CHECK(run.PeersTold(Node(0)) == kFirstFour);
  CHECK(run.PeersTold(Node(4)).empty());
  CHECK(run.PeersTold(Node(5)).empty());
}

TEST_CASE("At the end the reserve is sent home too", "[coordinator][reserve]") {
  Crowd run;
  run.Pass(1);
  run.Plan();
  std::map<int, Phase> phases = {{4, Phase::kWaitingForPlan}, {5, Phase::kWaitingForPlan}};
  for (int i = 0; i < 4; ++i) phases[i] = Phase::kFinished;
  for (size_t stage = 0; stage < 2; ++stage) {  // the model is collected
    run.Wait(2, phases);
    for (const auto& [to, message] : run.TakeSends()) {
      const auto* request = std::get_if<ObjectRequest>(&message);
      if (request == nullptr) continue;
      run.From(to, ObjectChunk{request->object, 0, 4, MakePayload({1, 2, 3, 4})});
    }
    run.RunJobs();
  }
  CHECK(run.SentTo<Shutdown>(Node(5)).size() == 1);
}
