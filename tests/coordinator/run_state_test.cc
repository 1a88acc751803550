// The fold of the journal: damaged or contradicting records are errors that change nothing.

#include "coordinator/run_state.h"

#include <set>

#include "common/status.h"
#include "coordinator/round_traffic.h"

#include "tests/coordinator/served_run.h"

using namespace skerry;
using skerry::testing::Node;
using skerry::testing::ServedRun;

TEST_CASE("Every record cut short is an error and changes nothing", "[coordinator][error]") {
  ServedRun run;
  run.Gather();
  run.From(run.Live(0)[0], StepReport{0, {{0, 10, 6.0f}}});
  RunState state;
  for (const std::string& record : run.journal) {
    const RunState before = state;
    for (size_t length = 0; length < record.size(); length += 1 + record.size() / 7) {
      CHECK(absl::IsDataLoss(state.Apply(record.substr(0, length))));
    }
    CHECK(absl::IsFailedPrecondition(state.Apply("{\"kind\":\"from the future\"}")));
    REQUIRE(state == before);
    REQUIRE(state.Apply(record).ok());
  }
  CHECK(state == run.state());
}

TEST_CASE("A record without one of its members is an error and changes nothing",
          "[coordinator][error]") {
  ServedRun run;
  run.Gather();
  run.From(run.Live(0)[0], StepReport{0, {{0, 10, 6.0f}}});
  RunState state;
  for (const std::string& record : run.journal) {
    const RunState before = state;
    const auto whole = nlohmann::json::parse(record);
    for (const auto& [key, value] : whole.items()) {
      auto part = whole;
      if (key == "process") continue;  // not every node says it
      part.erase(key);
      CHECK(absl::IsDataLoss(state.Apply(part.dump())));
    }
    REQUIRE(state == before);
    REQUIRE(state.Apply(record).ok());
  }
}

TEST_CASE("A plan that says more than is known here is a newer program's, and is refused",
          "[coordinator][error]") {
  ServedRun run;
  run.Gather();
  const auto place = GENERATE(as<std::string>(), "/plan/later", "/plan/settings/later",
                              "/plan/stages/0/later", "/plan/paths/0/0/later");
  const auto value =
      GENERATE(as<std::string>(), "true", "2", "\"x\"", "[1]", "false", "0", "\"\"", "null", "[]");
  const bool is_known = std::set<std::string>{"false", "0", "\"\"", "null", "[]"}.contains(value);
  int plans = 0;
  RunState state;
  for (const std::string& record : run.journal) {
    auto newer = nlohmann::json::parse(record);
    if (newer.at("kind") == "plan") {
      ++plans;
      newer[nlohmann::json::json_pointer(place)] = nlohmann::json::parse(value);
      const RunState before = state;
      const absl::Status status = state.Apply(newer.dump());
      CAPTURE(newer.at("plan").dump(), ErrorText(status));
      REQUIRE(status.ok() == is_known);
      if (is_known) continue;
      CHECK(absl::IsFailedPrecondition(status));
      CHECK(ErrorText(status).find("unknown 'later'") != std::string::npos);
      CHECK(state == before);
    }
    REQUIRE(state.Apply(record).ok());
  }
  CHECK(plans == 1);
}

TEST_CASE("A damaged journal is refused by number", "[coordinator][error]") {
  ServedRun run;
  run.Gather();
  CoordinatorOptions options;
  options.journal = run.journal;
  options.journal[2] = "{\"kind\":";
  const auto created = CoordinatorActor::Create(std::move(options));
  REQUIRE(absl::IsDataLoss(created.status()));
  CHECK(std::string(created.status().message()).find("journal record 3") != std::string::npos);
}

TEST_CASE("Records that contradict what came before are refused", "[coordinator][error]") {
  ServedRun run;
  run.Gather();
  RunState state = run.Fold();
  const RunState before = state;
  const NodeId stranger = Node(99);
  CHECK_FALSE(state.Apply(PlanRecord(*state.plan, 1, 1)).ok());  // the same version again
  CHECK_FALSE(state.Apply(CommitRecord({0, 1, {}})).ok());       // round 0 is missing
  CHECK_FALSE(state.Apply(AppliedRecord(Node(0), {0, 0, {}, 0, 0})).ok());
  CHECK_FALSE(state.Apply(LifeRecord(stranger, false)).ok());
  CHECK_FALSE(state.Apply(StartedRecord(stranger)).ok());
  CHECK_FALSE(state.Apply(TrafficRecord(stranger, {})).ok());
  CHECK_FALSE(state.Apply(MarkRecord("exported")).ok());
  PipelinePlan plan = *state.plan;
  plan.version = 2;
  plan.stages[0].replicas[0] = stranger;
  CHECK_FALSE(state.Apply(PlanRecord(plan, 1, 1)).ok());
  CHECK(state == before);
}

TEST_CASE("Losses keep their bits through the journal", "[coordinator]") {
  RunState state;
  const float loss = GENERATE(0.1f, 1.0e-38f, 3.14159274f, 5.9604645e-8f);
  REQUIRE(state.Apply(LossesRecord(Node(0), {3, {{1, 7, loss}}})).ok());
  CHECK(state.losses.at(3).by_microbatch.at(1).loss == loss);
}

TEST_CASE("The ledger credits a microbatch once, also if a record says it twice", "[coordinator]") {
  RunState state;
  REQUIRE(state.Apply(LossesRecord(Node(0), {3, {{1, 7, 2.0f}}})).ok());
  REQUIRE(state.Apply(LossesRecord(Node(0), {3, {{1, 9, 5.0f}, {0, 4, 1.0f}}})).ok());
  CHECK(state.tokens == 11);
  CHECK(state.losses.at(3).by_microbatch.at(1).loss == 2.0f);
}

TEST_CASE("Traffic: a counter that falls starts a new process", "[coordinator]") {
  Traffic traffic;
  traffic.OnReport(100, 10);
  traffic.OnReport(150, 20);
  traffic.OnReport(5, 1);
  CHECK(traffic.total_sent() == 155);
  CHECK(traffic.total_received() == 21);
}

TEST_CASE("The agreed digest is that of most replicas, of the first in a tie", "[coordinator]") {
  RunState state;
  REQUIRE(state.Apply(CommitRecord({0, 0, {}})).ok());
  CHECK_FALSE(state.AgreedDigest(0, 0));
  const auto report = [&](int node, uint8_t digest) {
    RoundApplied applied{0, 0, {}, 0, 0};
    applied.base_digest.bytes[0] = digest;
    REQUIRE(state.Apply(AppliedRecord(Node(node), applied)).ok());
    return state.AgreedDigest(0, 0)->bytes[0];
  };
  CHECK(report(0, 9) == 9);
  CHECK(report(1, 3) == 9);
  CHECK(report(2, 3) == 3);
}

TEST_CASE("Hidden is what the last replica to come did not wait for", "[coordinator]") {
  RunState state;
  CHECK(state.hidden.Fraction() == 1);
  const auto commit = [&](int32_t stage, std::vector<Participant> who) {
    REQUIRE(state.Apply(CommitRecord({stage, 0, std::move(who)})).ok());
  };
  const auto applied = [&](int node, int32_t stage, double transfer_s, double wait_s) {
    const RoundApplied report{stage, 0, {}, transfer_s, wait_s};
    REQUIRE(state.Apply(AppliedRecord(Node(node), report)).ok());
    return state.hidden.Fraction();
  };
  // Node 1 comes 6 s before node 2, whose delta it needs; the transfer itself takes 2 s.
  commit(0, {{Node(1), 64, {}}, {Node(2), 64, {}}});
  CHECK(applied(1, 0, 8.0, 7.0) == Approx(0.125));
  CHECK(applied(2, 0, 2.0, 0.5) == Approx(0.75));
  CHECK(applied(2, 0, 1.0, 1.0) == Approx(0.75));  // said again: the first holds
  commit(1, {{Node(3), 64, {}}});
  CHECK(applied(3, 1, 2.0, 0.0) == Approx(1 - 0.5 / 4));
  CHECK(applied(4, 1, 0, 0) == Approx(1 - 0.5 / 4));      // 4 joins
  CHECK(applied(5, 1, 0.5, 0.5) == Approx(1 - 0.5 / 4));  // 5 came late and is not in it
  // A run that begins anew has no rounds.
  REQUIRE(state.Apply(RewindRecord(PlanRecord(PipelinePlan(), 0, 0), 0)).ok());
  CHECK(state.hidden == HiddenTime());
}

TEST_CASE("Rounds of a run are those of the stage that has most", "[coordinator]") {
  RunState state;
  CHECK(state.RoundsOfAnyStage() == 0);
  state.plan = PipelinePlan();
  state.plan->start.round = 2;
  CHECK(state.RoundsOfAnyStage() == 2);
  for (const auto& [stage, round] : {std::pair{0, 2}, {0, 3}, {1, 2}, {3, 2}, {3, 3}, {3, 4}})
    REQUIRE(state.Apply(CommitRecord({stage, round, {}})).ok());
  CHECK(state.RoundsOfAnyStage() == 5);
}

TEST_CASE("What rounds send is told per parameter, of each stage's latest round", "[coordinator]") {
  RunState state;
  TransformerConfig model;
  CHECK(TrafficOfRounds(state, model).bits_up == 0);
  state.plan = PipelinePlan();
  state.plan->stages = {{0, 4, {Node(1), Node(2)}}, {4, 8, {Node(3), Node(4)}}};
  const int64_t first = ParametersOf(model, state.plan->stages[0], true);
  const int64_t second = ParametersOf(model, state.plan->stages[1], false);
  CHECK(first > second);
  const auto sent = [](int64_t bytes) {
    return RoundApplied{0, 0, {}, 1, 0, {}, bytes, 2 * bytes};
  };
  state.applied[{0, 0}] = {{Node(1), sent(5)}};
  state.applied[{0, 1}] = {{Node(1), sent(first)}, {Node(2), sent(3 * first)}};
  CHECK(TrafficOfRounds(state, model).bits_up == Approx(16));
  state.applied[{1, 1}] = {{Node(3), sent(second)}, {Node(4), RoundApplied{}}};  // 4 joins
  CHECK(TrafficOfRounds(state, model).bits_up == Approx((16 + 8) / 2.0));
  CHECK(TrafficOfRounds(state, model).bits_down == Approx(16 + 8));
}
