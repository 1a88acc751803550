// The operator pauses whole runs on virtual time, and has checkpoints made at once.

#include <catch2/catch.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "coordinator/coordinator_actor.h"
#include "tests/sim/checkpointed_fleet.h"

using namespace skerry;
using skerry::testing::AlikeNodes;
using skerry::testing::CheckSound;
using skerry::testing::Count;

namespace {

using Does = AdmissionOrder::Does;

constexpr double kPausedAtS = 20;
constexpr double kResumedAtS = 320;

VirtualRunOptions Nodes(VirtualMath math) {
  VirtualRunOptions options = AlikeNodes(4, 2, math);
  options.config.steps = 400;
  return options;
}

void Order(Simulation& simulation, Does does) {
  simulation.Signal(VirtualRun::coordinator(), [does](Actor& actor, Context& context) {
    AdmissionOrder order;
    order.id = "ab" + std::to_string(static_cast<int>(does));
    order.does = does;
    static_cast<CoordinatorActor&>(actor).Obey(context, order);
  });
}

Instant At(double seconds) {
  return Instant() + Duration::Seconds(seconds);
}

void OrderAt(VirtualRun& run, double seconds, Does does) {
  run.simulation().At(At(seconds), [does](Simulation& simulation) { Order(simulation, does); });
}

// When steps came to their end, in seconds, by step.
std::map<int64_t, double> StepsOf(const VirtualRun& run) {
  std::map<int64_t, double> ended;
  for (const VirtualEvent& event : run.events()) {
    if (event.kind != "step") continue;
    const auto fields = nlohmann::json::parse("{" + event.fields + "}");
    ended.emplace(fields.at("step").get<int64_t>(), (event.at - Instant()).seconds());
  }
  return ended;
}

const VirtualEvent& LastOf(const VirtualRun& run, const std::string& kind) {
  const VirtualEvent* last = nullptr;
  for (const VirtualEvent& event : run.events()) {
    if (event.kind == kind) last = &event;
  }
  REQUIRE(last != nullptr);
  return *last;
}

int64_t PausedAt(const VirtualRun& run) {
  return nlohmann::json::parse("{" + LastOf(run, "paused").fields + "}").at("step");
}

}  // namespace

TEST_CASE("A paused run makes no step, loses nobody and nothing, and goes on", "[sim][pause]") {
  const auto math = GENERATE(VirtualMath::kTiny, VirtualMath::kModelled);
  VirtualRun run(Nodes(math));
  OrderAt(run, kPausedAtS, Does::kPause);
  OrderAt(run, kResumedAtS, Does::kResume);
  const VirtualOutcome outcome = run.Run();
  CheckSound(run, outcome);
  const int64_t at = PausedAt(run);
  REQUIRE(at > 0);
  const auto steps = StepsOf(run);
  CHECK(steps.at(at) > kResumedAtS);
  CHECK(steps.at(at - 1) < kResumedAtS - 200);
  CHECK(Count(run, "dead") == 0);
  CHECK(Count(run, "detour") == 0);
  CHECK(Count(run, "absent") == 0);
}

TEST_CASE("A pause changes nothing of what is learnt", "[sim][pause]") {
  VirtualRun undisturbed(Nodes(VirtualMath::kTiny)), paused(Nodes(VirtualMath::kTiny));
  OrderAt(paused, kPausedAtS, Does::kPause);
  OrderAt(paused, kResumedAtS, Does::kResume);
  undisturbed.Run();
  paused.Run();
  REQUIRE(PausedAt(paused) > 0);
  CHECK(paused.checkers().state().base_digests == undisturbed.checkers().state().base_digests);
  CHECK(paused.checkers().state().losses == undisturbed.checkers().state().losses);
}

TEST_CASE("A run stays paused while its coordinator and a node die and come back", "[sim][pause]") {
  VirtualRun run(Nodes(VirtualMath::kTiny));
  OrderAt(run, kPausedAtS, Does::kPause);
  run.simulation().CrashAt(Instant() + Duration::Seconds(100), VirtualRun::coordinator());
  run.simulation().StartAt(Instant() + Duration::Seconds(110), VirtualRun::coordinator());
  run.simulation().CrashAt(Instant() + Duration::Seconds(150), VirtualRun::node(1));
  run.simulation().StartAt(Instant() + Duration::Seconds(180), VirtualRun::node(1));
  OrderAt(run, kResumedAtS, Does::kResume);
  const VirtualOutcome outcome = run.Run();
  CheckSound(run, outcome);
  const int64_t at = PausedAt(run);
  REQUIRE(at > 0);
  CHECK(StepsOf(run).at(at) > kResumedAtS);
}

TEST_CASE("A paused run that loses a stage goes back, and stays there until it is resumed",
          "[sim][pause][checkpoint]") {
  VirtualRunOptions options = Nodes(VirtualMath::kTiny);
  options.config.checkpoint = {2, 2};
  VirtualRun run(options);
  OrderAt(run, kPausedAtS, Does::kPause);
  run.simulation().At(At(60), [&run](Simulation& simulation) {
    const std::vector<NodeId> replicas = run.checkers().state().plan->stages[1].replicas;
    for (const NodeId& node : replicas) {
      simulation.CrashAt(simulation.now(), node);
      simulation.StartAt(simulation.now() + Duration::Seconds(10), node);
    }
  });
  OrderAt(run, kResumedAtS, Does::kResume);
  const VirtualOutcome outcome = run.Run();
  CheckSound(run, outcome);
  CHECK(run.checkers().rewinds() == 1);
  int64_t made_in_pause = 0;
  for (const VirtualEvent& event : run.events()) {
    made_in_pause += event.kind == "step" && event.at > At(60) && event.at < At(kResumedAtS);
  }
  CHECK(made_in_pause == 0);
}

TEST_CASE("A pause is where the others are, not where a joiner will begin", "[sim][pause]") {
  VirtualRunOptions options = Nodes(VirtualMath::kTiny);
  options.config.outer.inner_steps = options.config.outer.overlap_steps = 40;
  VirtualRun run(options);
  run.simulation().CrashAt(At(5), VirtualRun::node(1));
  run.simulation().StartAt(At(6), VirtualRun::node(1));
  // It stands at its first step, 80, from when the others have made step 39 on: at 152 s.
  OrderAt(run, GENERATE(145, 155), Does::kPause);
  OrderAt(run, kResumedAtS, Does::kResume);
  const VirtualOutcome outcome = run.Run();
  CheckSound(run, outcome);
  const VirtualEvent& began = LastOf(run, "training");
  CHECK(began.process == VirtualRun::node(1));
  CHECK(began.at < At(kResumedAtS));
  CHECK(Count(run, "paused") == 1);
  CHECK(PausedAt(run) < 50);
  CHECK(StepsOf(run).at(PausedAt(run)) > kResumedAtS);
}

TEST_CASE("A standby that did not hear that the run goes on takes a slot and trains",
          "[sim][pause]") {
  VirtualRunOptions options = Nodes(VirtualMath::kTiny);
  options.nodes.push_back(options.nodes.back());
  options.nodes.back().joins = At(15);
  VirtualRun run(options);
  OrderAt(run, kPausedAtS, Does::kPause);
  run.simulation().Hang(VirtualRun::node(4), At(kResumedAtS - 60), At(kResumedAtS + 1));
  OrderAt(run, kResumedAtS, Does::kResume);
  run.simulation().CrashAt(At(kResumedAtS + 5), VirtualRun::node(1));
  const VirtualOutcome outcome = run.Run();
  CheckSound(run, outcome);
  CHECK(Count(run, "joined") == 1);
}

TEST_CASE("A checkpoint is made when it is ordered, long before its turn", "[sim][pause]") {
  VirtualRunOptions options = Nodes(VirtualMath::kTiny);
  options.config.checkpoint = {90, 2};  // of 100 rounds
  VirtualRun run(options);
  OrderAt(run, kPausedAtS, Does::kCheckpoint);
  OrderAt(run, kPausedAtS, Does::kPause);  // which waits for it
  OrderAt(run, kResumedAtS, Does::kResume);
  std::optional<int64_t> kept_in_pause;
  run.simulation().At(Instant() + Duration::Seconds(kResumedAtS - 1), [&](Simulation&) {
    const auto& kept = run.checkers().state().checkpoints;
    if (!kept.empty()) kept_in_pause = kept.begin()->second.round;
  });
  const VirtualOutcome outcome = run.Run();
  CheckSound(run, outcome);
  REQUIRE(kept_in_pause);
  CHECK(*kept_in_pause < 90);
  CHECK_FALSE(run.checkers().state().orders.wanted);
}
