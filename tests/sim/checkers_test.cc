#include "sim/checkers.h"

#include <catch2/catch.hpp>

#include "sim/conservation.h"

using namespace skerry;

namespace {

const NodeId kCoordinator = TestNodeId(0);
const NodeId kAlice = TestNodeId(1);
const NodeId kBob = TestNodeId(2);

Instant At(double seconds) {
  return Instant() + Duration::Seconds(seconds);
}

CheckerOptions TwoReplicas() {
  CheckerOptions options;
  options.coordinator = kCoordinator;
  options.config.steps = 2;
  options.config.model.layers = 2;
  options.config.pipeline.microbatches_per_step = 2;
  return options;
}

PipelinePlan Plan() {
  PipelinePlan plan;
  plan.version = 1;
  plan.microbatches_per_step = 2;
  plan.stages = {{0, 2, {kAlice, kBob}}};
  plan.paths = {{{0, 0}}, {{0, 1}}};
  return plan;
}

Digest DigestNumber(uint8_t number) {
  Digest digest;
  digest.bytes[0] = number;
  return digest;
}

std::vector<std::string> Rules(const Checkers& checkers) {
  std::vector<std::string> rules;
  for (const Violation& violation : checkers.violations()) rules.push_back(violation.rule);
  return rules;
}
using RuleNames = std::vector<std::string>;

Checkers WithPlan(CheckerOptions options = TwoReplicas()) {
  Checkers checkers(std::move(options));
  for (const NodeId& node : {kAlice, kBob}) {
    checkers.OnPersist(At(0), kCoordinator, AdmittedRecord(node, {}));
  }
  checkers.OnPersist(At(0), kCoordinator, PlanRecord(Plan(), 1, 1));
  return checkers;
}

StepReport LossesOf(int64_t step, std::initializer_list<int32_t> microbatches) {
  StepReport report{step, {}};
  for (const int32_t m : microbatches) report.losses.push_back({m, 8, 1.0f});
  return report;
}

// Both replicas say that they hold both messages.
void HoldAll(Checkers& checkers, const RoundCommit& commit) {
  for (const NodeId& holder : {kAlice, kBob}) {
    for (const Participant& p : commit.participants) {
      checkers.OnMessage(At(1), holder, kCoordinator,
                         DeltaHeld{commit.stage, commit.round, p.node, p.tokens, p.digest});
    }
  }
}

}  // namespace

TEST_CASE("Checkers: a plan that was not journalled, or differs from it, is named", "[sim]") {
  Checkers checkers = WithPlan();
  checkers.OnMessage(At(1), kCoordinator, kAlice, PlanUpdate{Plan()});
  CHECK(checkers.violations().empty());

  PipelinePlan other = Plan();
  other.paths.pop_back();
  checkers.OnMessage(At(2), kCoordinator, kAlice, PlanUpdate{other});
  other.version = 2;
  checkers.OnMessage(At(3), kCoordinator, kAlice, PlanUpdate{other});
  CHECK(Rules(checkers) == RuleNames{"plan_agreement", "plan_agreement"});
}

TEST_CASE("Checkers: a commit that was not journalled first, or differs from it, is named",
          "[sim]") {
  Checkers checkers = WithPlan();
  const RoundCommit commit{0, 0, {{kAlice, 16, DigestNumber(1)}, {kBob, 16, DigestNumber(2)}}};
  checkers.OnMessage(At(1), kCoordinator, kAlice, commit);
  CHECK(Rules(checkers) == RuleNames{"rounds_atomic"});

  HoldAll(checkers, commit);
  checkers.OnPersist(At(2), kCoordinator, CommitRecord(commit));
  checkers.OnMessage(At(2), kCoordinator, kAlice, commit);
  CHECK(checkers.violations().size() == 1);
  RoundCommit half = commit;
  half.participants.pop_back();
  checkers.OnMessage(At(3), kCoordinator, kBob, half);
  CHECK(checkers.violations().size() == 2);
}

TEST_CASE("Checkers: a commit before every replica holds every message is named", "[sim]") {
  Checkers checkers = WithPlan();
  RoundCommit commit{0, 0, {{kAlice, 16, DigestNumber(1)}, {kBob, 16, DigestNumber(2)}}};
  HoldAll(checkers, commit);
  commit.participants.back().digest = DigestNumber(3);
  checkers.OnPersist(At(2), kCoordinator, CommitRecord(commit));
  CHECK(Rules(checkers) == RuleNames{"rounds_atomic", "rounds_atomic"});
}

TEST_CASE("Checkers: a liar whose base differs must have been put out in the end", "[sim]") {
  CheckerOptions options = TwoReplicas();
  options.config.steps = 0;
  options.liars.insert(kBob);
  const bool is_put_out = GENERATE(false, true);
  Checkers checkers = WithPlan(std::move(options));
  const RoundCommit commit{0, 0, {{kAlice, 16, DigestNumber(1)}, {kBob, 16, DigestNumber(2)}}};
  HoldAll(checkers, commit);
  checkers.OnPersist(At(2), kCoordinator, CommitRecord(commit));
  for (const auto& [node, number] : {std::pair(kAlice, uint8_t{1}), std::pair(kBob, uint8_t{2})}) {
    checkers.OnPersist(At(3), kCoordinator,
                       AppliedRecord(node, {0, 0, DigestNumber(number), 0, 0}));
  }
  if (is_put_out) checkers.OnPersist(At(4), kCoordinator, LifeRecord(kBob, false));
  checkers.AtEnd(At(5));
  CHECK(Rules(checkers) == (is_put_out ? RuleNames{} : RuleNames{"base_agreement"}));
}

TEST_CASE("Checkers: a round that is encoded or lands at another step is named", "[sim]") {
  CheckerOptions options = TwoReplicas();
  options.config.steps = 8;
  options.config.outer.inner_steps = 4;
  options.config.outer.overlap_steps = 1;
  Checkers checkers = WithPlan(std::move(options));
  checkers.OnEncoded(At(1), kAlice, 0, 4);
  checkers.OnApplied(At(2), kAlice, 0, 5);
  checkers.OnApplied(At(3), kAlice, 1, 8);  // after the last step none is waited for
  CHECK(checkers.violations().empty());
  checkers.OnEncoded(At(4), kBob, 0, 5);
  checkers.OnApplied(At(5), kBob, 0, 4);
  CHECK(Rules(checkers) == RuleNames{"rounds_on_time", "rounds_on_time"});
}

TEST_CASE("Checkers: a microbatch that no plan leads through a node is named", "[sim]") {
  Checkers checkers = WithPlan();
  checkers.OnAccumulated(At(1), kBob, 0, 1);
  CHECK(checkers.violations().empty());
  checkers.OnAccumulated(At(2), kAlice, 0, 1);
  CHECK(Rules(checkers) == RuleNames{"microbatch_conservation"});
}

TEST_CASE(
    "Checkers: a step from which on a joiner works, made without having heard of it, is named",
    "[sim]") {
  CheckerOptions options = TwoReplicas();
  options.config.steps = 8;
  options.config.outer.inner_steps = 4;
  options.config.outer.overlap_steps = 0;
  Checkers checkers = WithPlan(options);
  PipelinePlan plan = Plan();
  plan.version = 2;
  plan.dead = {kBob};
  checkers.OnPersist(At(1), kCoordinator, PlanRecord(plan, 1, 1));
  plan.version = 3;
  plan.dead = {};
  plan.joining = {{kBob, 3, 0, 4, 1}};
  checkers.OnPersist(At(2), kCoordinator, PlanRecord(plan, 1, 1));
  checkers.OnStepped(At(3), kAlice, 3, 1);
  CHECK(checkers.violations().empty());
  const bool heard = GENERATE(false, true);
  if (heard) checkers.OnMessage(At(4), kCoordinator, kAlice, PlanUpdate{plan});
  checkers.OnStepped(At(5), kAlice, 4, 1);
  CHECK(Rules(checkers) == (heard ? RuleNames{} : RuleNames{"plan_agreement"}));
}

TEST_CASE("Checkers: a round that is committed before the joiner holds it is named", "[sim]") {
  Checkers checkers = WithPlan();
  PipelinePlan plan = Plan();
  plan.version = 2;
  plan.joining = {{kBob, 2, 0, -1, -1}};
  const RoundCommit commit{0, 0, {{kAlice, 8, DigestNumber(1)}}};
  HoldAll(checkers, commit);  // Bob's earlier process did
  checkers.OnPersist(At(1), kCoordinator, PlanRecord(plan, 1, 1));
  const bool holds = GENERATE(false, true);
  if (holds) HoldAll(checkers, commit);
  checkers.OnPersist(At(2), kCoordinator, CommitRecord(commit));
  CHECK(Rules(checkers) == (holds ? RuleNames{} : RuleNames{"rounds_atomic"}));
}

TEST_CASE("Checkers: gradients added in another order than the plan's are named", "[sim]") {
  Checkers checkers = WithPlan();
  checkers.OnAccumulated(At(1), kAlice, 0, 0);
  checkers.OnAccumulated(At(2), kAlice, 2, 0);
  CHECK(checkers.violations().empty());
  checkers.OnAccumulated(At(3), kAlice, 1, 0);
  CHECK(Rules(checkers) == RuleNames{"microbatch_conservation"});
}

TEST_CASE(
    "Checkers: what was led around a node may be counted by another of its stage, and by none "
    "else",
    "[sim]") {
  Checkers checkers = WithPlan();
  const Detour around_alice{0, 0, kAlice, 5, false};
  const bool said = GENERATE(true, false);
  if (said) checkers.OnSent(kAlice, kCoordinator, around_alice);
  checkers.OnAccumulated(At(1), kBob, 0, 0);
  CHECK(Rules(checkers) == (said ? RuleNames{} : RuleNames{"microbatch_conservation"}));
  if (!said) return;
  checkers.OnAccumulated(At(2), kBob, 0, 0);
  CHECK(Rules(checkers) == RuleNames{"microbatch_conservation"});
}

// Swarm seed 262: what it was led to came before the plan that took its slot.
TEST_CASE("Checkers: who was led to may count although its slot is another's by now", "[sim]") {
  Checkers checkers = WithPlan();
  const bool said = GENERATE(true, false);
  if (said) checkers.OnSent(kAlice, kCoordinator, Detour{0, 0, kAlice, 5, false});
  const NodeId carol = TestNodeId(3);
  checkers.OnPersist(At(1), kCoordinator, AdmittedRecord(carol, {}));
  PipelinePlan plan = Plan();
  plan.version = 2;
  plan.stages.front().replicas = {kAlice, carol};
  plan.joining = {{carol, 2, 0, -1, -1}};
  checkers.OnPersist(At(1), kCoordinator, PlanRecord(plan, 1, 1));
  REQUIRE(checkers.violations().empty());
  checkers.OnAccumulated(At(2), kBob, 0, 0);
  CHECK(Rules(checkers) == (said ? RuleNames{} : RuleNames{"microbatch_conservation"}));
}

TEST_CASE("Checkers: a step closed without a planned microbatch is named, unless it was led around",
          "[sim]") {
  Checkers checkers = WithPlan();
  const bool led_around = GENERATE(true, false);
  if (led_around) checkers.OnSent(kAlice, kCoordinator, Detour{0, 0, kAlice, 5, false});
  checkers.OnStepped(At(1), kAlice, 0, 0);
  CHECK(Rules(checkers) == (led_around ? RuleNames{} : RuleNames{"microbatch_conservation"}));
}

TEST_CASE("Checkers: a step whose mean is over another number than was counted is named", "[sim]") {
  Checkers checkers = WithPlan();
  checkers.OnAccumulated(At(1), kAlice, 0, 0);
  checkers.OnStepped(At(2), kAlice, 0, GENERATE(0, 2));
  CHECK(Rules(checkers) == RuleNames{"microbatch_conservation"});
}

TEST_CASE("Checkers: between two living processes a message lost, repeated or overtaken is named",
          "[sim]") {
  Checkers checkers = WithPlan();
  checkers.OnLife(At(0), kAlice);
  checkers.OnLife(At(0), kBob);
  const bool restarted = GENERATE(false, true);
  for (const uint64_t nonce : {1, 2, 3}) checkers.OnSent(kAlice, kBob, Pong{nonce});
  checkers.OnMessage(At(1), kAlice, kBob, Pong{1});
  CHECK(checkers.violations().empty());
  if (restarted) checkers.OnLife(At(2), kBob);
  const auto next = static_cast<uint64_t>(GENERATE(1, 3));
  checkers.OnMessage(At(3), kAlice, kBob, Pong{next});
  CHECK(Rules(checkers) == (restarted ? RuleNames{} : RuleNames{"delivery_exact"}));
}

TEST_CASE("Conservation: a round that takes what its message carries breaks no law", "[sim]") {
  // Progress 3 with 0.25 left behind of old; the message carries 3.
  const ReplicaVectors before{{10}, {7}, {0.25f}};
  const std::vector<float> taken = {3};
  const ReplicaVectors kept{{8}, {8}, {0.25f}};
  const ReplicaVectors forgot{{8}, {8}, {0}};
  CHECK(ConservationError(before, kept, taken) <= 1);
  CHECK(ConservationError(before, forgot, taken) > 1000);
  // Not accepted: all of it stays.
  CHECK(ConservationError(before, {{8}, {5}, {0.25f}}, std::vector<float>{0}) <= 1);
}

TEST_CASE("Checkers: replicas with different bases are named, unless one is known to lie",
          "[sim]") {
  CheckerOptions options = TwoReplicas();
  const bool bob_lies = GENERATE(false, true);
  if (bob_lies) options.liars.insert(kBob);
  Checkers checkers = WithPlan(std::move(options));

  checkers.OnMessage(At(1), kAlice, kCoordinator, RoundApplied{0, 0, DigestNumber(1), 0, 0});
  checkers.OnMessage(At(1), kBob, kCoordinator, RoundApplied{0, 0, DigestNumber(2), 0, 0});

  CHECK(Rules(checkers) == (bob_lies ? RuleNames{} : RuleNames{"base_agreement"}));
}

TEST_CASE("Checkers: a microbatch counted twice by one process is named, by two it is not",
          "[sim]") {
  Checkers checkers = WithPlan();
  checkers.OnAccumulated(At(1), kAlice, 0, 0);
  checkers.OnLife(At(2), kAlice);
  checkers.OnAccumulated(At(3), kAlice, 0, 0);
  CHECK(checkers.violations().empty());
  checkers.OnAccumulated(At(4), kAlice, 0, 0);
  CHECK(Rules(checkers) == RuleNames{"microbatch_conservation"});
}

TEST_CASE("Checkers: without deaths a step closes with exactly what was planned", "[sim]") {
  Checkers checkers = WithPlan();
  checkers.OnAccumulated(At(1), kAlice, 0, 0);
  checkers.OnStepped(At(1), kAlice, 0, 1);
  checkers.OnAccumulated(At(2), kAlice, 1, 0);
  CHECK(checkers.violations().empty());
  checkers.OnStepped(At(2), kAlice, 1, 2);
  CHECK(Rules(checkers) == RuleNames{"microbatch_conservation"});
}

TEST_CASE("Checkers: at the end every microbatch is in the ledger", "[sim]") {
  Checkers checkers = WithPlan();
  checkers.OnPersist(At(1), kCoordinator, LossesRecord(kAlice, LossesOf(0, {0, 1})));
  checkers.OnPersist(At(2), kCoordinator, LossesRecord(kAlice, LossesOf(1, {0})));
  checkers.AtEnd(At(3));
  CHECK(Rules(checkers) == RuleNames{"ledger_exact"});
}

TEST_CASE("Checkers: nobody's step for two minutes is named once, and only if one was possible",
          "[sim]") {
  const bool able = GENERATE(true, false);
  Checkers checkers = WithPlan();
  Heartbeat beat;
  beat.step = 1;
  checkers.OnMessage(At(10), kAlice, kCoordinator, beat);
  for (int t = 15; t <= 135; t += 5) checkers.OnTick(At(t), able);
  CHECK(Rules(checkers) == (able ? RuleNames{"liveness"} : RuleNames{}));
}

TEST_CASE("Checkers: a queue beyond its bound is named", "[sim]") {
  Checkers checkers = WithPlan();
  checkers.OnQueue(At(1), kAlice, 4096);
  CHECK(checkers.violations().empty());
  checkers.OnQueue(At(2), kAlice, 4097);
  CHECK(Rules(checkers) == RuleNames{"bounded_queues"});
}

TEST_CASE("Checkers: only the rules asked for are checked", "[sim]") {
  CheckerOptions options = TwoReplicas();
  options.rules = {"liveness"};
  Checkers checkers = WithPlan(std::move(options));
  checkers.OnQueue(At(1), kAlice, 1 << 20);
  CHECK(checkers.violations().empty());
}
