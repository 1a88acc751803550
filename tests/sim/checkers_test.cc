#include "sim/checkers.h"

#include <catch2/catch.hpp>

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

  checkers.OnPersist(At(2), kCoordinator, CommitRecord(commit));
  checkers.OnMessage(At(2), kCoordinator, kAlice, commit);
  CHECK(checkers.violations().size() == 1);
  RoundCommit half = commit;
  half.participants.pop_back();
  checkers.OnMessage(At(3), kCoordinator, kBob, half);
  CHECK(checkers.violations().size() == 2);
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
  checkers.OnStepped(At(1), kAlice, 0, 1);
  CHECK(checkers.violations().empty());
  checkers.OnStepped(At(2), kAlice, 1, 2);
  CHECK(Rules(checkers) == RuleNames{"microbatch_conservation"});
}

TEST_CASE("Checkers: at the end every microbatch is in the ledger", "[sim]") {
  Checkers checkers = WithPlan();
  checkers.OnPersist(At(1), kCoordinator, LossesRecord(LossesOf(0, {0, 1})));
  checkers.OnPersist(At(2), kCoordinator, LossesRecord(LossesOf(1, {0})));
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
