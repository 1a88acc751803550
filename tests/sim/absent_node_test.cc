// One production node among scripted others: what it sends of a round from which a plan leaves it
// out, and when a later plan calls it back.
#include <algorithm>
#include <catch2/catch.hpp>
#include <variant>
#include <vector>

#include "tests/sim/cluster.h"

using namespace skerry;
using skerry::testing::NoShards;
using skerry::testing::TinyRun;

namespace {

const NodeId kCoordinator = TestNodeId(0), kNode = TestNodeId(1), kOther = TestNodeId(2),
             kThird = TestNodeId(3);

// Hears, and says what the test has it say.
class Scripted final : public Actor {
 public:
  void OnStart(Context&) override {}
  void OnMessage(Context&, const NodeId&, const Message& message) override {
    heard.push_back(message);
  }
  void OnTimer(Context&, TimerId) override {}
  void OnJobDone(Context&, JobId) override {}
  void OnPeerRestarted(Context&, const NodeId&) override {}

  template <typename Kind>
  std::vector<Kind> Heard() const {
    std::vector<Kind> all;
    for (const Message& message : heard) {
      if (const auto* one = std::get_if<Kind>(&message)) all.push_back(*one);
    }
    return all;
  }
  std::vector<Message> heard;
};

// One stage of three replicas, of which `kNode` computes its own microbatches.
class OneNode {
 public:
  explicit OneNode(OuterReduce reduce) : simulation_(Network()) {
    config_.nodes_min = 3;
    config_.outer.reduce = reduce;
    config_.pipeline.stages = 1;
    for (const NodeId& other : {kCoordinator, kOther, kThird}) {
      simulation_.AddProcess(other, [](const auto&) { return std::make_unique<Scripted>(); });
    }
    simulation_.AddProcess(kNode, [this](const auto&) { return MakeNode(); });
    Until(1);
    Say(Welcome{{}, config_, {}});
    Until(2);
  }

  // Of round 0 `absent` are no participants.
  void SayPlan(int64_t version, const std::vector<NodeId>& absent, std::vector<NodeId> dead = {}) {
    PipelinePlan plan;
    plan.version = version;
    plan.microbatches_per_step = config_.pipeline.microbatches_per_step;
    plan.stages = {{0, static_cast<int32_t>(config_.model.layers), {kNode, kOther, kThird}}};
    plan.paths = {{Slot{0, 0}}, {Slot{0, 1}}, {Slot{0, 2}}};
    for (const NodeId& node : absent) plan.absent.push_back({0, 0, node});
    plan.dead = std::move(dead);
    Say(PlanUpdate{plan});
  }
  void Until(double seconds) {
    simulation_.RunUntil([] { return false; }, Instant() + Duration::Seconds(seconds));
  }
  const Scripted& At(const NodeId& who) { return *static_cast<Scripted*>(simulation_.actor(who)); }

 private:
  static SimulationOptions Network() {
    SimulationOptions options;
    options.link = [](const NodeId&, const NodeId&) { return SimLink{}; };
    return options;
  }
  void Say(const Message& message) {
    simulation_.At(simulation_.now(), [message](Simulation& simulation) {
      simulation.Signal(kCoordinator,
                        [message](Actor&, Context& context) { context.Send(kNode, message); });
    });
  }
  std::unique_ptr<Actor> MakeNode() {
    NodeActorOptions options;
    options.self = kNode;
    options.coordinator = kCoordinator;
    options.ticket = "ticket";
    options.endpoint = "sim";
    options.device = {"test", "test", 10.0, int64_t{1} << 30};
    options.shards = &shards_;
    options.build = [](const RunConfig& config, const StageOrder& order,
                       const auto&) -> absl::StatusOr<std::unique_ptr<StageWork>> {
      return TrainedStage::Create(config, order.stage, order.holds_ends, CreateReferenceBackend(),
                                  std::make_unique<MadeUpText>(config), order.recomputed_layers);
    };
    return std::make_unique<NodeActor>(std::move(options));
  }

  RunConfig config_ = TinyRun();
  NoShards shards_;
  Simulation simulation_;
};

}  // namespace

TEST_CASE("Absent: a delta held back is sent when the plan calls its sender back", "[sim][late]") {
  OneNode run(OuterReduce::kAll);
  run.SayPlan(1, {kNode, kOther});
  run.Until(20);
  const auto held = run.At(kCoordinator).Heard<DeltaHeld>();
  REQUIRE(held.size() == 1);  // its round is at its boundary
  CHECK(run.At(kOther).Heard<Delta>().empty());

  run.SayPlan(2, {}, {kThird});
  run.Until(40);

  const auto sent = run.At(kOther).Heard<Delta>();
  REQUIRE(sent.size() == 1);
  CHECK(sent.front().round == 0);
  CHECK(sent.front().digest == held.front().digest);
  CHECK(sent.front().plan_version == 2);
}

TEST_CASE("Absent: pieces held back are sent when the plan calls their sender back",
          "[sim][late]") {
  OneNode run(OuterReduce::kSharded);
  run.SayPlan(1, {kNode, kOther});
  run.Until(20);
  CHECK(run.At(kOther).Heard<Delta>().empty());

  run.SayPlan(2, {}, {kThird});
  run.Until(40);

  const auto sent = run.At(kOther).Heard<Delta>();
  REQUIRE(sent.size() == 1);
  CHECK(sent.front().round == 0);
  CHECK(sent.front().plan_version == 2);
}

TEST_CASE("Absent: who takes part sends its delta once, whatever later plans say", "[sim][late]") {
  OneNode run(OuterReduce::kAll);
  run.SayPlan(1, {});
  run.Until(20);
  CHECK(run.At(kOther).Heard<Delta>().size() == 1);

  run.SayPlan(2, {}, {kThird});
  run.Until(40);

  CHECK(run.At(kOther).Heard<Delta>().size() == 1);
}
