// `skerry-node ring` on virtual time: host and members, with figures at the end whatever befalls a
// member.
#include "node/ring_trial.h"

#include <catch2/catch.hpp>

#include "sim/simulation.h"

namespace skerry {
namespace {

constexpr int64_t kValues = 20'000;
constexpr double kBytesPerS = 2e6;

NodeId Id(int32_t number) {
  return TestNodeId(static_cast<uint32_t>(number + 1));
}

struct Trial {
  std::vector<RingFigures> figures;
  std::vector<std::string> said;
  std::unique_ptr<Simulation> simulation;
};

std::vector<RingTask> AllOperations(int32_t times) {
  std::vector<RingTask> tasks;
  for (int i = 0; i <= static_cast<int>(GroupOperation::kLast); ++i)
    tasks.push_back({static_cast<GroupOperation>(i), kValues, times});
  return tasks;
}

std::unique_ptr<Trial> MakeTrial(int32_t members, std::vector<RingTask> tasks,
                                 const std::string& last_ticket = "right",
                                 int64_t last_memory = INT64_MAX) {
  auto trial = std::make_unique<Trial>();
  SimulationOptions options;
  options.link = [](const NodeId&, const NodeId&) {
    return SimLink{.one_way = Duration::Millis(2), .bytes_per_s = kBytesPerS, .jitter = {}};
  };
  trial->simulation = std::make_unique<Simulation>(std::move(options));
  trial->simulation->AddProcess(Id(0), [=, t = trial.get()](const auto&) {
    RingTrialHost::Options host;
    host.ticket = "right";
    host.members = members;
    host.tasks = tasks;
    host.say = [t](const std::string& line) { t->said.push_back(line); };
    host.on_figures = [t](const RingFigures& figures) { t->figures.push_back(figures); };
    return std::make_unique<RingTrialHost>(std::move(host));
  });
  for (int32_t r = 1; r < members; ++r) {
    trial->simulation->AddProcess(Id(r), [=](const auto&) {
      RingTrialMember::Options member;
      member.host = Id(0);
      member.hello.ticket = r + 1 == members ? last_ticket : "right";
      if (r + 1 == members) member.memory_bytes = last_memory;
      return std::make_unique<RingTrialMember>(std::move(member));
    });
  }
  return trial;
}

bool RunToEnd(Trial& trial, double seconds) {
  return trial.simulation->RunUntil([&] { return trial.simulation->stopped(Id(0)).has_value(); },
                                    Instant() + Duration::Seconds(seconds));
}

}  // namespace

TEST_CASE("Ring trial: every operation is right, timed, and everybody goes home",
          "[node][ring_trial]") {
  const int32_t members = GENERATE(2, 3, 5);
  const auto trial = MakeTrial(members, AllOperations(20));
  REQUIRE(RunToEnd(*trial, 60));
  CHECK(trial->simulation->stopped(Id(0))->exit_code == 0);
  REQUIRE(trial->figures.size() == 4);
  for (const RingFigures& figures : trial->figures) {
    CHECK(figures.is_right);
    CHECK(figures.members == members);
    CHECK(figures.wire_bytes_per_s > 0.5 * kBytesPerS);
    CHECK(figures.wire_bytes_per_s <= kBytesPerS);
  }
  trial->simulation->RunUntil([] { return false; },
                              trial->simulation->now() + Duration::Seconds(2));
  for (int32_t r = 1; r < members; ++r) CHECK(trial->simulation->stopped(Id(r))->exit_code == 0);
}

TEST_CASE("Ring trial: whoever dies or hangs is out, and the others have their figures",
          "[node][ring_trial][error]") {
  const bool hangs = GENERATE(true, false);
  const double when = GENERATE(0.01, 0.05, 0.1, 0.3, 0.7, 1.1);
  const auto trial = MakeTrial(4, {{GroupOperation::kAllReduce, kValues, 40}});
  const Instant at = Instant() + Duration::Seconds(when);
  if (hangs) {
    trial->simulation->Hang(Id(2), at, at + Duration::Seconds(100));
  } else {
    trial->simulation->CrashAt(at, Id(2));
  }
  REQUIRE(RunToEnd(*trial, 60));
  CHECK(trial->simulation->stopped(Id(0))->exit_code == 0);
  REQUIRE(trial->figures.size() == 1);
  CHECK(trial->figures.front().members == 3);
  CHECK(trial->figures.front().is_right);
}

TEST_CASE("Ring trial: who has no room for it says so and is out", "[node][ring_trial][error]") {
  const auto trial = MakeTrial(3, {{GroupOperation::kAllReduce, kValues, 2}}, "right",
                               RingTrialBytes(kValues) - 1);
  REQUIRE(RunToEnd(*trial, 60));
  REQUIRE(trial->figures.size() == 1);
  CHECK(trial->figures.front().members == 2);
  const auto& stopped = trial->simulation->stopped(Id(2));
  REQUIRE(stopped.has_value());
  CHECK(stopped->exit_code == 1);
  CHECK(stopped->reason.find("--mib") != std::string::npos);
  CHECK(RingTrialBytes(INT64_MAX) == INT64_MAX);
}

TEST_CASE("Ring trial: who leaves is not waited for", "[node][ring_trial]") {
  const auto trial = MakeTrial(3, {{GroupOperation::kAllReduce, kValues, 40}});
  trial->simulation->At(Instant() + Duration::Seconds(0.5), [](Simulation& simulation) {
    simulation.Signal(Id(1), [](Actor& actor, Context& context) {
      dynamic_cast<RingTrialMember&>(actor).Leave(context);
    });
  });
  REQUIRE(RunToEnd(*trial, 6));
  REQUIRE(trial->figures.size() == 1);
  CHECK(trial->figures.front().members == 2);
  CHECK(trial->figures.front().is_right);
}

TEST_CASE("Ring trial: a member ends when its host is gone", "[node][ring_trial][error]") {
  const auto trial = MakeTrial(3, {{GroupOperation::kAllReduce, kValues, 40}});
  trial->simulation->CrashAt(Instant() + Duration::Seconds(0.5), Id(0));
  trial->simulation->RunUntil([] { return false; }, Instant() + Duration::Seconds(60));
  for (const int32_t r : {1, 2}) {
    REQUIRE(trial->simulation->stopped(Id(r)).has_value());
    CHECK(trial->simulation->stopped(Id(r))->reason == "the host is silent");
  }
}

TEST_CASE("Ring trial: another ring's ticket is refused", "[node][ring_trial][error]") {
  const auto trial = MakeTrial(3, {{GroupOperation::kAllReduce, kValues, 2}}, "wrong");
  trial->simulation->RunUntil([] { return false; }, Instant() + Duration::Seconds(20));
  REQUIRE(trial->simulation->stopped(Id(2)).has_value());
  CHECK(trial->simulation->stopped(Id(2))->reason == "the ticket is of another ring");
  CHECK(trial->figures.empty());
}

}  // namespace skerry
