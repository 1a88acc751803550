// How fast virtual time passes: the event queue alone, ten thousand nodes that beat, the production
// coordinator with nodes.
#include <sys/resource.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/bench.h"
#include "common/check.h"
#include "sim/event_queue.h"
#include "sim/simulation.h"

namespace skerry::bench {
namespace {

constexpr double kEventsGoal = 5e6;
constexpr double kHourSecondsGoal = 60;
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

void HeartbeatsOfTenThousand(Bench& bench) {
  constexpr int kNodes = 10'000;
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
  double limit_s = 0, step_s = 10;  // to warm up
  int64_t events_before = 0;
  const double seconds = BestSeconds(1, [&] {
    events_before = simulation.events();
    limit_s += std::exchange(step_s, 3600);
    simulation.RunUntil([] { return false; }, At(limit_s));
  });
  const auto* listener = static_cast<Listener*>(simulation.actor(coordinator));
  const double beats = static_cast<double>(listener->heard);
  SKERRY_CHECK(beats > 0.999 * kNodes * (limit_s - 2), "the heartbeats arrive");
  bench.AtMost("10,000 nodes, 1 Hz heartbeats, one hour", seconds, "s", kHourSecondsGoal);
  bench.Record("  events in that hour",
               static_cast<double>(simulation.events() - events_before) * 1e-6, "M");
  bench.Record("  events per second",
               static_cast<double>(simulation.events() - events_before) / seconds * 1e-6, "M/s");
  bench.AtMost("  peak memory", PeakMemoryBytes() * 1e-9, "GB", kMemoryGoalBytes * 1e-9);
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
  HeartbeatsOfTenThousand(bench);
  return bench.Finish();
}

}  // namespace
}  // namespace skerry::bench

int main(int argc, char** argv) {
  return skerry::bench::Run(argc, argv);
}
