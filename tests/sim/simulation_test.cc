#include "sim/simulation.h"

#include <catch2/catch.hpp>

#include "wire/actor.h"

using namespace skerry;

namespace {

const NodeId kAlice = TestNodeId(1);
const NodeId kBob = TestNodeId(2);

// Sends `count` numbered messages to a peer at start, one every 10 ms; journals and remembers what
// it hears.
class Talker final : public Actor {
 public:
  Talker(NodeId peer, int count) : peer_(peer), left_(count) {}
  void OnStart(Context& context) override { OnTimer(context, 0); }
  void OnMessage(Context& context, const NodeId&, const Message& message) override {
    heard.push_back(std::get<Pong>(message).nonce);
    context.Persist(std::to_string(heard.back()));
  }
  void OnTimer(Context& context, TimerId) override {
    if (left_-- <= 0) return;
    context.Send(peer_, Pong{++sent_});
    context.StartTimer(Duration::Millis(10));
  }
  void OnJobDone(Context&, JobId) override {}
  void OnPeerRestarted(Context&, const NodeId&) override { ++restarts; }

  std::vector<uint64_t> heard;
  int restarts = 0;

 private:
  NodeId peer_;
  int left_;
  uint64_t sent_ = 0;
};

SimulationOptions LossyNetwork(uint64_t seed) {
  SimulationOptions options;
  options.seed = seed;
  options.link = [](const NodeId&, const NodeId&) {
    return SimLink{Duration::Millis(20), 1e6, 0.2, 0.1, Duration::Millis(30)};
  };
  return options;
}

Instant At(double seconds) {
  return Instant() + Duration::Seconds(seconds);
}

Talker* TalkerAt(Simulation& simulation, const NodeId& id) {
  return static_cast<Talker*>(simulation.actor(id));
}

void AddTalkers(Simulation& simulation, int count) {
  simulation.AddProcess(kAlice, [=](const auto&) { return std::make_unique<Talker>(kBob, count); });
  simulation.AddProcess(kBob, [=](const auto&) { return std::make_unique<Talker>(kAlice, 0); });
}

}  // namespace

TEST_CASE(
    "Simulation: over a network that loses, repeats and reorders, all arrives once and in order") {
  Simulation simulation(LossyNetwork(GENERATE(range(1, 6))));
  AddTalkers(simulation, 100);

  const bool arrived = simulation.RunUntil(
      [&] { return simulation.actor(kBob) && TalkerAt(simulation, kBob)->heard.size() == 100; },
      At(600));

  REQUIRE(arrived);
  CHECK(simulation.frames_lost() > 0);
  for (uint64_t i = 0; i < 100; ++i) CHECK(TalkerAt(simulation, kBob)->heard[i] == i + 1);
}

TEST_CASE("Simulation: one seed gives one trace, another seed another") {
  const auto trace = [](uint64_t seed) {
    Simulation simulation(LossyNetwork(seed));
    AddTalkers(simulation, 50);
    simulation.CrashAt(At(0.2), kBob);
    simulation.StartAt(At(0.3), kBob);
    simulation.RunUntil([] { return false; }, At(60));
    return simulation.trace_hash();
  };
  CHECK(trace(7) == trace(7));
  CHECK(trace(7) != trace(8));
}

TEST_CASE(
    "Simulation: a crash loses memory, keeps the journal, and the peer hears of the restart") {
  Simulation simulation(LossyNetwork(3));
  AddTalkers(simulation, 100);
  simulation.CrashAt(At(0.5), kBob);
  simulation.StartAt(At(0.7), kBob);
  size_t journal_at_crash = 0;
  simulation.At(At(0.6), [&](Simulation& s) { journal_at_crash = s.journal(kBob).size(); });

  simulation.RunUntil([] { return false; }, At(100));

  CHECK(journal_at_crash > 0);
  CHECK(simulation.journal(kBob).size() > journal_at_crash);
  CHECK(TalkerAt(simulation, kBob)->heard.size() ==
        simulation.journal(kBob).size() - journal_at_crash);
  CHECK(TalkerAt(simulation, kAlice)->restarts == 1);
}
