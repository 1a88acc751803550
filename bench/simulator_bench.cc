// How fast virtual time passes: the event queue alone, ten thousand nodes that beat, the production
// coordinator with nodes.
#include <sys/resource.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/bench.h"
#include "common/check.h"
#include "coordinator/coordinator_actor.h"
#include "node/node_actor.h"
#include "node/shard_store.h"
#include "sim/event_queue.h"
#include "sim/large_pages.h"
#include "sim/scenario.h"
#include "sim/scenario_run.h"
#include "sim/simulation.h"

namespace skerry::bench {
namespace {

constexpr double kEventsGoal = 5e6;
constexpr double kHandlersGoal = 0.5e6;
constexpr double kHourSecondsGoal = 60;
constexpr double kVolunteersHourGoal = 30;
constexpr double kMemoryGoalBytes = 2e9;

double PeakMemoryBytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return 1024.0 * static_cast<double>(usage.ru_maxrss);
}

Instant At(double seconds) {
  return Instant() + Duration::Seconds(seconds);
}

// The hold model: every event that is due puts another one into the future, so that `pending` wait
// at any time; each goes into a trace hash.
double EventsPerSecond(int64_t pending) {
  constexpr int64_t kRounds = 2'000'000;
  EventQueue queue;
  Rng rng(1);
  for (int64_t i = 0; i < pending; ++i)
    queue.Push({static_cast<int64_t>(rng.Below(1'000'000)), static_cast<int32_t>(i), 0, 0, 0, 0});
  uint64_t trace = 0;
  const double seconds = BestSeconds(3, [&] {
    for (int64_t i = 0; i < kRounds; ++i) {
      SimulatedEvent event = queue.Pop();
      trace = Mix64(trace ^ static_cast<uint64_t>(event.at));
      event.at += static_cast<int64_t>(rng.Below(1'000'000));
      queue.Push(event);
    }
  });
  Keep(trace);
  return static_cast<double>(kRounds) / seconds;
}

// A node as the coordinator sees it between rounds.
class Beater final : public Actor {
 public:
  explicit Beater(NodeId coordinator) : coordinator_(coordinator) {}
  void OnStart(Context& context) override {
    context.StartTimer(Duration::Seconds(context.rng().Uniform()));
  }
  void OnMessage(Context&, const NodeId&, const Message&) override {}
  void OnTimer(Context& context, TimerId) override {
    Heartbeat beat;
    beat.phase = Phase::kTraining;
    beat.step = ++beats_;
    context.Send(coordinator_, beat);
    context.StartTimer(Duration::Seconds(1));
  }
  void OnJobDone(Context&, JobId) override {}
  void OnPeerRestarted(Context&, const NodeId&) override {}

 private:
  NodeId coordinator_;
  int64_t beats_ = 0;
};

class Listener final : public Actor {
 public:
  void OnStart(Context&) override {}
  void OnMessage(Context& context, const NodeId&, const Message& message) override {
    heard += std::holds_alternative<Heartbeat>(message);
    last = context.now();
  }
  void OnTimer(Context&, TimerId) override {}
  void OnJobDone(Context&, JobId) override {}
  void OnPeerRestarted(Context&, const NodeId&) override {}
  int64_t heard = 0;
  Instant last;
};

// Three regions, a home line per node, a data centre's for the coordinator, node 0.
SimulatedNetwork Homes(int nodes) {
  SimulatedNetwork network;
  NetworkSpec& spec = network.spec;
  spec.regions = {"america", "europe", "asia"};
  for (int from = 0; from < 3; ++from) {
    for (int to = 0; to < 3; ++to) {
      PathSpec path;
      path.one_way = from == to ? Duration::Millis(10) : Duration::Millis(30 + 15 * (from + to));
      path.bytes_per_s = 1.25e9;
      path.loss = 1e-4;
      path.jitter = Duration::Millis(2);
      spec.paths.push_back(path);
    }
  }
  for (int i = 0; i <= nodes; ++i) {
    SiteSpec site;
    site.region = i % 3;
    site.up_bytes_per_s = i == 0 ? 1.25e9 : 2.5e6;
    site.down_bytes_per_s = i == 0 ? 1.25e9 : 12.5e6;
    site.access_one_way = Duration::Millis(i == 0 ? 1 : 6);
    spec.sites.push_back(site);
    spec.site_of_node.push_back(i);
    network.node_of[TestNodeId(static_cast<uint32_t>(i))] = i;
  }
  return network;
}

constexpr int kNodes = 10'000;

// Every node's Heartbeat once a second and its acknowledgement, straight through the network: what
// the network and the order of events cost.
class BareHeartbeats {
 public:
  BareHeartbeats() : network_(Homes(kNodes).spec, 1) {
    Rng rng(1);
    for (int32_t node = 1; node <= kNodes; ++node)
      queue_.Push({static_cast<int64_t>(rng.Below(1'000'000'000)), node, 0, 0, 0, 0});
    heartbeat_.step = 1;
  }

  void RunUntil(Instant end) {
    while (true) {
      const auto due = network_.NextDue();
      if (due && *due <= queue_.next()) {
        if (*due > end) return;
        OnArrivals(*due);
      } else {
        if (queue_.next() > end) return;
        OnTimer();
      }
    }
  }
  int64_t events() const { return events_; }
  int64_t acknowledged() const { return acknowledged_; }

 private:
  static constexpr uint64_t kAcknowledgement = uint64_t{1} << 32;
  static constexpr int64_t kAcknowledgementBytes = 100;

  void OnTimer() {
    SimulatedEvent event = queue_.Pop();
    ++events_;
    trace_ = Mix64(trace_ ^ static_cast<uint64_t>(event.at));
    const Instant now = Instant::FromNanos(event.at);
    message_ = heartbeat_;
    network_.Send(now, event.process, 0, WireSize(message_), static_cast<uint64_t>(event.process));
    event.at += 1'000'000'000;
    queue_.Push(event);
  }

  void OnArrivals(Instant now) {
    arrived_.clear();
    network_.Advance(now, arrived_);
    for (const FlowNetwork::Arrival& arrival : arrived_) {
      ++events_;
      trace_ = Mix64(trace_ ^ static_cast<uint64_t>(now.nanos()) ^ arrival.tag);
      if (arrival.tag >= kAcknowledgement) {
        ++acknowledged_;
      } else {
        network_.Send(now, 0, static_cast<int32_t>(arrival.tag), kAcknowledgementBytes,
                      arrival.tag | kAcknowledgement);
      }
    }
  }

  FlowNetwork network_;
  EventQueue queue_;
  Heartbeat heartbeat_;
  Message message_;
  std::vector<FlowNetwork::Arrival> arrived_;
  int64_t events_ = 0, acknowledged_ = 0;
  uint64_t trace_ = 0;
};

// BestSeconds calls twice: a short stretch to warm up, then `measured_s` of virtual time.
template <typename RunUntil>
double SecondsFor(double warm_s, double measured_s, RunUntil&& run_until) {
  double end = 0, stretch = warm_s;
  return BestSeconds(1, [&] {
    end += std::exchange(stretch, measured_s);
    run_until(At(end));
  });
}

void NetworkAlone(Bench& bench) {
  BareHeartbeats beats;
  const double seconds = SecondsFor(10, 3600, [&](Instant end) { beats.RunUntil(end); });
  SKERRY_CHECK(beats.acknowledged() > int64_t{kNodes} * 3600, "the heartbeats are acknowledged");
  bench.AtMost("network: 10,000 nodes, 1 Hz + ack, one hour", seconds, "s", kHourSecondsGoal);
  bench.Record("  events", static_cast<double>(beats.events()) * 1e-6, "M");
}

// The same nodes as actors, through the virtual host with the production couriers. Ten minutes, and
// what an hour takes at that pace.
void WholeHost(Bench& bench) {
  SimulationOptions options;
  options.network = Homes(kNodes);
  options.repeat_after = Duration::Seconds(8);
  Simulation simulation(std::move(options));
  const NodeId coordinator = TestNodeId(0);
  simulation.AddProcess(coordinator, [](const auto&) { return std::make_unique<Listener>(); });
  for (uint32_t i = 1; i <= kNodes; ++i) {
    simulation.AddProcess(TestNodeId(i),
                          [=](const auto&) { return std::make_unique<Beater>(coordinator); });
  }
  int64_t before = 0;
  const double seconds = SecondsFor(10, 600, [&](Instant end) {
    before = simulation.events();
    simulation.RunUntil([] { return false; }, end);
  });
  const auto* listener = static_cast<Listener*>(simulation.actor(coordinator));
  SKERRY_CHECK(listener->heard > int64_t{kNodes} * 600, "the heartbeats arrive");
  const auto events = static_cast<double>(simulation.events() - before);
  bench.AtMost("host: the same with actors and couriers, hour", 6 * seconds, "s", kHourSecondsGoal);
  bench.AtLeast("  events with handlers", events / seconds * 1e-6, "M/s", kHandlersGoal * 1e-6);
  bench.AtMost("  peak memory", PeakMemoryBytes() * 1e-9, "GB", kMemoryGoalBytes * 1e-9);
}

class NoShards final : public ShardStore {
 public:
  bool Has(const ShardName&) override { return true; }
  absl::Status Put(const ShardName&, const Bytes&) override { return absl::OkStatus(); }
};

// The production coordinator and nodes while the run waits for one more node: joining, probing of
// all pairs, heartbeats.
void ProductionActors(Bench& bench) {
  constexpr int kVolunteers = 100;
  SimulationOptions options;
  options.network = Homes(kVolunteers);
  Simulation simulation(std::move(options));
  NoShards shards;
  const NodeId coordinator = TestNodeId(0);
  simulation.AddProcess(coordinator, [&](const std::vector<std::string>& journal) {
    CoordinatorOptions wanted;
    wanted.config.nodes_min = kVolunteers + 1;
    wanted.journal = journal;
    wanted.verify_ticket = [=](const std::string&) -> absl::StatusOr<AdmittedTicket> {
      return AdmittedTicket{"id", kVolunteers};
    };
    auto actor = CoordinatorActor::Create(std::move(wanted));
    SKERRY_CHECK(actor.ok());
    return *std::move(actor);
  });
  for (uint32_t i = 1; i <= kVolunteers; ++i) {
    simulation.AddProcess(TestNodeId(i), [&, i](const auto&) {
      NodeActorOptions wanted;
      wanted.self = TestNodeId(i);
      wanted.coordinator = coordinator;
      wanted.ticket = "ticket";
      wanted.endpoint = "sim";
      wanted.device = {"bench", "bench", 100.0, int64_t{1} << 33};
      wanted.shards = &shards;
      return std::make_unique<NodeActor>(std::move(wanted));
    });
  }
  int64_t before = 0;
  const double seconds = SecondsFor(5, 120, [&](Instant end) {
    before = simulation.events();
    simulation.RunUntil([] { return false; }, end);
  });
  const auto events = static_cast<double>(simulation.events() - before);
  bench.AtLeast("production actors: 100 nodes join and probe", events / seconds * 1e-6, "M/s",
                kHandlersGoal * 1e-6);
  bench.Record("  events", events * 1e-6, "M");
}

// The shipped scenario: membership, measured links, the plan, microbatches, rounds and churn of a
// thousand volunteers. Planning is part of it.
void ThousandVolunteers(Bench& bench) {
  const auto scenario = LoadScenario(SKERRY_SCENARIO_DIR "/volunteers_1000");
  SKERRY_CHECK(scenario.ok());
  std::unique_ptr<VirtualRun> run;
  VirtualOutcome outcome;
  const double seconds = BestSeconds(1, [&] {
    if (run) {
      outcome = run->Run();
    } else {
      run = *MakeScenarioRun(*scenario, {});
    }
  });
  SKERRY_CHECK(outcome.violations.empty() && outcome.steps > 0, "it trains");
  bench.AtMost("1,000 volunteers train, churn, one hour", seconds * 3600 / outcome.virtual_s, "s",
               kVolunteersHourGoal);
  bench.Record("  events", static_cast<double>(outcome.events) * 1e-6, "M");
  bench.Record("  steps", static_cast<double>(outcome.steps), "");
}

int Run(int argc, char** argv) {
  Bench bench("simulator", argc, argv);
  for (const int64_t pending : {1'000, 10'000, 100'000, 1'000'000}) {
    const std::string what = "event queue, " + std::to_string(pending) + " pending";
    const double rate = EventsPerSecond(pending) * 1e-6;
    if (pending == 10'000) {
      bench.AtLeast(what, rate, "M/s", kEventsGoal * 1e-6);
    } else {
      bench.Record(what, rate, "M/s");
    }
  }
  NetworkAlone(bench);
  WholeHost(bench);
  ProductionActors(bench);
  ThousandVolunteers(bench);
  return bench.Finish();
}

}  // namespace
}  // namespace skerry::bench

int main(int argc, char** argv) {
  skerry::UseLargePages();
  return skerry::bench::Run(argc, argv);
}
