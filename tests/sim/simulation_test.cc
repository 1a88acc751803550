#include "sim/simulation.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <tuple>
#include <vector>

#include "tests/sim/small_actors.h"

using namespace skerry;
using namespace skerry::testing;

namespace {

SimulationOptions LossyNetwork(uint64_t seed) {
  SimulationOptions options;
  options.seed = seed;
  options.link = [](const NodeId&, const NodeId&) {
    return SimLink{Duration::Millis(20), 1e6, 0.2, 0.1, Duration::Millis(30)};
  };
  return options;
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

// Each takes 1.5 s of a link, longer than the courier waits before it repeats.
TEST_CASE("Simulation: over a slow link nothing is sent twice that has not left yet") {
  constexpr int kMessages = 20;
  constexpr double kEach = 1.5;
  SimulationOptions options;
  options.link = [](const NodeId&, const NodeId&) {
    return SimLink{.one_way = Duration::Millis(20), .bytes_per_s = 150'000 / kEach, .jitter = {}};
  };
  Simulation simulation(options);
  Add(simulation, kBob, {});
  const auto send = [](Scripted&, Context& context) { context.Send(kBob, PingOf(150'000)); };
  Add(
      simulation, kAlice,
      [send](Scripted& alice, Context& context) {
        for (int i = 0; i < kMessages; ++i) send(alice, context);
        context.StartTimer(Duration::Seconds((kMessages + 1) * kEach));
      },
      send);

  simulation.RunUntil(Never, At(200));

  const std::vector<double>& heard_at = ScriptedAt(simulation, kBob).heard_at;
  REQUIRE(heard_at.size() == size_t{kMessages + 1});
  CHECK(heard_at[kMessages - 1] == Approx(kMessages * kEach).epsilon(0.02));
  CHECK(heard_at[kMessages] == Approx((kMessages + 2) * kEach).epsilon(0.02));
  CHECK(simulation.frames_held_back() > 0);
  CHECK(simulation.frames_lost() == 0);
}

TEST_CASE("Simulation: a plain link loses the same message three times in a row at most") {
  SimulationOptions options;
  options.seed = GENERATE(range(1, 6));
  options.link = [](const NodeId&, const NodeId&) {
    return SimLink{Duration::Millis(20), 1e6, 0.97, 0, Duration()};
  };
  Simulation simulation(options);
  AddTalkers(simulation, 4);

  // Three repetitions, 1 to 2 s apart.
  const bool arrived = simulation.RunUntil(
      [&] { return simulation.actor(kBob) && TalkerAt(simulation, kBob)->heard.size() == 4; },
      At(12));

  CHECK(arrived);
  CHECK(simulation.frames_lost() > 0);
}

TEST_CASE("EventQueue: events come out by time, process, sequence, near and far alike") {
  Rng rng(static_cast<uint64_t>(GENERATE(range(1, 6))));
  EventQueue queue;
  std::vector<SimulatedEvent> pending;
  uint64_t number = 0;
  int64_t now = 0;
  for (int step = 0; step < 20'000; ++step) {
    if (pending.empty() || rng.Below(100) < (step < 12'000 ? 60u : 30u)) {
      // Microseconds to hours ahead, and often the same instant.
      const uint64_t ahead = rng.Below(4) == 0 ? 0 : rng.Below(uint64_t{1} << (10 + rng.Below(36)));
      const SimulatedEvent event = {
          now + static_cast<int64_t>(ahead), static_cast<int32_t>(rng.Below(3)), 0, number++, 0, 0};
      queue.Push(event);
      pending.push_back(event);
      continue;
    }
    const auto first =
        std::min_element(pending.begin(), pending.end(), [](const auto& a, const auto& b) {
          return std::tuple(a.at, a.process, a.value) < std::tuple(b.at, b.process, b.value);
        });
    REQUIRE(queue.next() == Instant::FromNanos(first->at));
    REQUIRE(queue.Pop().value == first->value);
    now = first->at;
    pending.erase(first);
  }
  CHECK(queue.empty() == pending.empty());
}
