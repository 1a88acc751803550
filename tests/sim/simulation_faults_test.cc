#include "sim/simulation.h"

#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <vector>

#include "tests/sim/small_actors.h"

using namespace skerry;
using namespace skerry::testing;

TEST_CASE("Simulation: over flows a slow transfer is not sent twice, whatever the courier fears") {
  Simulation simulation(FlowOptions(1));  // 10 MB take 83 s, the courier repeats after 1 s
  Add(simulation, kBob, {});
  Add(simulation, kAlice, [](Scripted&, Context& context) {
    context.Send(kBob, PingOf(10'000'000));
    context.Send(kBob, Pong{2});
  });

  simulation.RunUntil(Never, At(200));

  const Scripted& bob = ScriptedAt(simulation, kBob);
  REQUIRE(bob.heard.size() == 2);
  CHECK(bob.heard_at[0] == Approx(10e6 / (1e6 / 8 * 1448 / 1500)).epsilon(0.02));
  CHECK(std::holds_alternative<Pong>(bob.heard[1]));
  CHECK(simulation.frames_held_back() > 0);
  CHECK(simulation.frames_lost() == 0);
  double carried = 0;
  for (const auto& use : simulation.network()->Use(simulation.now()))
    if (use.kind == LinkKind::kSiteUp && use.index == 0) carried = use.bytes;
  CHECK(carried < 10.1e6);
}

TEST_CASE("Simulation: over flows what a crash swallowed arrives after the restart, once") {
  Simulation simulation(FlowOptions(10));
  AddTalkers(simulation, 300);
  simulation.CrashAt(At(1), kBob);
  simulation.StartAt(At(2), kBob);
  simulation.RunUntil(Never, At(100));

  const auto& heard = TalkerAt(simulation, kBob)->heard;
  REQUIRE(!heard.empty());
  CHECK(heard.back() == 300);
  for (size_t i = 1; i < heard.size(); ++i) CHECK(heard[i] == heard[i - 1] + 1);
  CHECK(TalkerAt(simulation, kAlice)->restarts == 1);
  CHECK(simulation.frames_lost() > 0);
}

TEST_CASE("Simulation: a long cut breaks the connection, and still all arrives once, in order") {
  Simulation simulation(FlowOptions(10));
  AddTalkers(simulation, 3000);
  simulation.At(At(5), [](Simulation& s) { s.Cut(kAlice, kBob, true); });
  simulation.At(At(45), [](Simulation& s) { s.Cut(kAlice, kBob, false); });
  simulation.RunUntil(Never, At(400));

  const auto& heard = TalkerAt(simulation, kBob)->heard;
  CHECK(simulation.frames_lost() > 0);
  REQUIRE(heard.size() == 3000);
  for (size_t i = 1; i < heard.size(); ++i) REQUIRE(heard[i] == heard[i - 1] + 1);
}

TEST_CASE("Simulation: a hung process handles afterwards, in order, what came meanwhile") {
  Simulation simulation(FlowOptions(10));
  AddTalkers(simulation, 300);
  simulation.Hang(kBob, At(1), At(2));
  size_t before = 0, during = 0;
  simulation.At(At(1), [&](Simulation& s) { before = TalkerAt(s, kBob)->heard.size(); });
  simulation.At(At(1.99), [&](Simulation& s) { during = TalkerAt(s, kBob)->heard.size(); });
  simulation.RunUntil(Never, At(2.001));
  const size_t after = TalkerAt(simulation, kBob)->heard.size();
  simulation.RunUntil(Never, At(60));

  CHECK(before > 80);
  CHECK(during <= before + 1);
  CHECK(after > during + 90);
  REQUIRE(TalkerAt(simulation, kBob)->heard.size() == 300);
  for (uint64_t i = 0; i < 300; ++i) CHECK(TalkerAt(simulation, kBob)->heard[i] == i + 1);
}

TEST_CASE("Simulation: a job rests while its process hangs, and lasts longer on a slowed device") {
  Simulation simulation(FlowOptions(10));
  Add(simulation, kAlice, [](Scripted&, Context& context) {
    context.Submit({"first", Duration::Seconds(2), {}});
    context.Submit({"second", Duration::Seconds(2), {}});
  });
  simulation.Hang(kAlice, At(1), At(11));
  simulation.At(At(13), [](Simulation& s) { s.SlowDevice(kAlice, 3); });
  simulation.RunUntil(Never, At(100));
  // 1 s, 10 s of rest, 1 s; then 1 s at full speed and the other second thrice as slow.
  CHECK(ScriptedAt(simulation, kAlice).job_at == std::vector{12.0, 16.0});
}

TEST_CASE("Simulation: jobs beside the device run while it works, and hang and slow down with it") {
  Simulation simulation(FlowOptions(10));
  Add(simulation, kAlice, [](Scripted&, Context& context) {
    context.Submit({"first", Duration::Seconds(4), {}});
    context.Submit({"second", Duration::Seconds(4), {}});
    for (const char* name : {"third", "fourth"})
      context.Submit({name, Duration::Seconds(1), {}, JobQueue::kBeside});
  });
  simulation.Hang(kAlice, At(1.5), At(11.5));
  simulation.At(At(11.75), [](Simulation& s) { s.SlowDevice(kAlice, 2); });
  simulation.RunUntil(Never, At(100));
  // Beside: 1 s; half of one, the rest, a quarter, a quarter twice as slow. Else 4 s of which 2.25
  // are left at the change.
  CHECK(ScriptedAt(simulation, kAlice).job_at == std::vector{1.0, 12.25, 16.25, 24.25});
}

TEST_CASE("Simulation: a process whose clock runs fast or jumps has its timers early") {
  Simulation simulation(FlowOptions(10));
  const auto wait_ten = [](Scripted&, Context& context) {
    context.StartTimer(Duration::Seconds(10));
  };
  std::map<NodeId, double> fired;
  const auto note = [&](const NodeId& id) {
    return [&, id](Scripted&, Context&) { fired[id] = (simulation.now() - Instant()).seconds(); };
  };
  Add(simulation, kAlice, wait_ten, note(kAlice));
  Add(simulation, kBob, wait_ten, note(kBob));
  Add(simulation, kCarol, wait_ten, note(kCarol));
  simulation.At(At(2), [](Simulation& s) { s.DriftClock(kAlice, 2); });
  simulation.At(At(2), [](Simulation& s) { s.JumpClock(kBob, Duration::Seconds(5)); });
  simulation.At(At(2), [](Simulation& s) { s.JumpClock(kCarol, Duration::Seconds(-5)); });

  simulation.RunUntil(Never, At(100));

  CHECK(fired[kAlice] == Approx(6));
  CHECK(fired[kBob] == Approx(5));
  CHECK(fired[kCarol] == Approx(15));
  CHECK(ScriptedAt(simulation, kAlice).timer_at[0] == Approx(10));
}

TEST_CASE("Simulation: on a full disk the process stops, and nothing of that handler leaves") {
  Simulation simulation(FlowOptions(10));
  Add(
      simulation, kAlice,
      [](Scripted&, Context& context) {
        context.Persist("kept");
        context.StartTimer(Duration::Seconds(2));
      },
      [](Scripted&, Context& context) {
        context.Send(kBob, Pong{1});
        context.Persist("does not fit");
      });
  Add(simulation, kBob, {});
  simulation.At(At(1), [](Simulation& s) { s.FillDisk(kAlice, true); });
  simulation.RunUntil(Never, At(10));

  CHECK(!simulation.IsUp(kAlice));
  REQUIRE(simulation.stopped(kAlice));
  CHECK(simulation.stopped(kAlice)->exit_code == 1);
  CHECK(simulation.stopped(kAlice)->reason == "journal: no space left on device");
  CHECK(simulation.journal(kAlice) == std::vector<std::string>{"kept"});
  CHECK(ScriptedAt(simulation, kBob).heard.empty());
}

TEST_CASE("Simulation: a crash right after a record leaves the record and swallows the message") {
  SimulationOptions options = FlowOptions(10);
  std::vector<int64_t> numbers;
  options.crash_after_persist = [&](Simulation& simulation, const NodeId& id, int64_t record) {
    numbers.push_back(record);
    if (record == 2) simulation.StartAt(simulation.now() + Duration::Seconds(1), id);
    return record == 2;
  };
  Simulation simulation(options);
  Add(simulation, kBob, {});
  Add(
      simulation, kAlice,
      [](Scripted&, Context& context) {
        context.Persist("record");
        context.Send(kBob, Pong{1});
        context.StartTimer(Duration::Seconds(1));
      },
      [](Scripted&, Context& context) {
        context.Send(kBob, Pong{2});
        context.Persist("record");
      });
  simulation.RunUntil(Never, At(1.5));
  CHECK(!simulation.IsUp(kAlice));
  CHECK(simulation.journal(kAlice).size() == 2);
  CHECK(ScriptedAt(simulation, kBob).heard.size() == 1);

  simulation.RunUntil(Never, At(20));
  CHECK(numbers == std::vector<int64_t>{1, 2, 3, 4});
  CHECK(ScriptedAt(simulation, kBob).heard.size() == 3);
}

TEST_CASE("Simulation: a process may come back with an empty disk") {
  Simulation simulation(FlowOptions(10));
  size_t found = 99;
  simulation.AddProcess(kAlice, [&](const std::vector<std::string>& journal) {
    found = journal.size();
    return std::make_unique<Scripted>(
        [](Scripted&, Context& context) { context.Persist("record"); });
  });
  simulation.CrashAt(At(1), kAlice);
  simulation.StartAt(At(2), kAlice);
  simulation.RunUntil(Never, At(3));
  CHECK(found == 1);
  simulation.CrashAt(At(4), kAlice);
  simulation.StartAt(At(5), kAlice, Disk::kLost);
  simulation.RunUntil(Never, At(6));
  CHECK(found == 0);
}

TEST_CASE("Simulation: observers see messages, jobs, records and crashes in their order") {
  class Log final : public SimulationObserver {
   public:
    void OnSent(Instant, const NodeId&, const NodeId&, const Message&) override { Add("sent"); }
    void OnDelivered(Instant, const NodeId&, const NodeId&, const Message&) override {
      Add("delivered");
    }
    void OnJobStart(Instant, const NodeId&, JobId, const std::string& name) override { Add(name); }
    void OnJobEnd(Instant, const NodeId&, JobId) override { Add("job end"); }
    void OnPersist(Instant, const NodeId&, const std::string& record) override { Add(record); }
    void OnCrash(Instant, const NodeId&) override { Add("crash"); }
    std::vector<std::string> seen;

   private:
    void Add(const std::string& what) { seen.push_back(what); }
  } log;
  Simulation simulation(FlowOptions(10));
  simulation.Observe(&log);
  Add(simulation, kBob, {});
  Add(
      simulation, kAlice,
      [](Scripted&, Context& context) {
        context.Submit({"work", Duration::Seconds(1), {}});
      },
      {},
      [](Scripted&, Context& context) {
        context.Send(kBob, Pong{1});
        context.Persist("record");
      });
  simulation.CrashAt(At(3), kBob);
  simulation.RunUntil(Never, At(4));
  CHECK(log.seen ==
        std::vector<std::string>{"work", "job end", "record", "sent", "delivered", "crash"});
}

TEST_CASE("Simulation: every fault is part of the trace, and one seed gives one trace") {
  using Fault = std::function<void(Simulation&)>;
  const auto trace = [](const Fault& fault, uint64_t seed) {
    SimulationOptions options = FlowOptions(10, seed);
    options.network->spec.paths[0].loss = 0.02;
    Simulation simulation(options);
    AddTalkers(simulation, 200);
    simulation.At(At(1), fault);
    simulation.RunUntil(Never, At(60));
    return simulation.trace_hash();
  };
  const auto fault = GENERATE(values<Fault>({
      [](Simulation&) {},
      [](Simulation& s) { s.Hang(kBob, At(1.1), At(2)); },
      [](Simulation& s) { s.SlowDevice(kBob, 2); },
      [](Simulation& s) { s.DriftClock(kBob, 1.01); },
      [](Simulation& s) { s.JumpClock(kBob, Duration::Seconds(1)); },
      [](Simulation& s) { s.FillDisk(kBob, true); },
      [](Simulation& s) { s.Cut(kBob, kAlice, true); },
      [](Simulation& s) { s.CutRegion(0, 0, true); },
      [](Simulation& s) { s.CrashAt(At(1.2), kBob); },
  }));
  CHECK(trace(fault, 7) == trace(fault, 7));
  CHECK(trace(fault, 7) != trace(fault, 8));
  static std::vector<uint64_t> seen;
  const uint64_t hash = trace(fault, 7);
  for (const uint64_t other : seen) CHECK(hash != other);
  seen.push_back(hash);
}
