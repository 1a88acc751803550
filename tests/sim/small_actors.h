// Small actors and networks for tests of the virtual host.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sim/simulation.h"

namespace skerry::testing {

inline const NodeId kAlice = TestNodeId(1);
inline const NodeId kBob = TestNodeId(2);
inline const NodeId kCarol = TestNodeId(3);

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

inline Instant At(double seconds) {
  return Instant() + Duration::Seconds(seconds);
}

inline Talker* TalkerAt(Simulation& simulation, const NodeId& id) {
  return static_cast<Talker*>(simulation.actor(id));
}

inline void AddTalkers(Simulation& simulation, int count) {
  simulation.AddProcess(kBob, [=](const auto&) { return std::make_unique<Talker>(kAlice, 0); });
  simulation.AddProcess(kAlice, [=](const auto&) { return std::make_unique<Talker>(kBob, count); });
}

// Three nodes at three sites of one region, `mbps` each way, 40 ms round trip.
inline SimulationOptions FlowOptions(double mbps, uint64_t seed = 1) {
  SimulationOptions options;
  options.seed = seed;
  SimulatedNetwork network;
  network.spec.regions = {"region"};
  network.spec.paths = {PathSpec{.one_way = Duration::Millis(20), .jitter = Duration::Micros(500)}};
  for (int32_t i = 0; i < 3; ++i) {
    SiteSpec site;
    site.up_bytes_per_s = site.down_bytes_per_s = mbps * 1e6 / 8;
    network.spec.sites.push_back(site);
    network.spec.site_of_node.push_back(i);
    network.node_of[TestNodeId(static_cast<uint32_t>(i) + 1)] = i;
  }
  options.network = network;
  return options;
}

// An actor made of what a test wants done.
class Scripted final : public Actor {
 public:
  using Handler = std::function<void(Scripted&, Context&)>;
  Scripted(Handler on_start, Handler on_timer = {}, Handler on_job = {})
      : on_start_(std::move(on_start)),
        on_timer_(std::move(on_timer)),
        on_job_(std::move(on_job)) {}
  void OnStart(Context& context) override {
    if (on_start_) on_start_(*this, context);
  }
  void OnMessage(Context& context, const NodeId&, const Message& message) override {
    heard.push_back(message);
    heard_at.push_back((context.now() - Instant()).seconds());
  }
  void OnTimer(Context& context, TimerId) override {
    timer_at.push_back((context.now() - Instant()).seconds());
    if (on_timer_) on_timer_(*this, context);
  }
  void OnJobDone(Context& context, JobId) override {
    job_at.push_back((context.now() - Instant()).seconds());
    if (on_job_) on_job_(*this, context);
  }
  void OnPeerRestarted(Context&, const NodeId&) override { ++restarts; }

  std::vector<Message> heard;
  std::vector<double> heard_at, timer_at, job_at;
  int restarts = 0;

 private:
  Handler on_start_, on_timer_, on_job_;
};

inline void Add(Simulation& simulation, const NodeId& id, Scripted::Handler on_start,
                Scripted::Handler on_timer = {}, Scripted::Handler on_job = {}) {
  simulation.AddProcess(
      id, [=](const auto&) { return std::make_unique<Scripted>(on_start, on_timer, on_job); });
}

inline Scripted& ScriptedAt(Simulation& simulation, const NodeId& id) {
  return *static_cast<Scripted*>(simulation.actor(id));
}

inline Ping PingOf(int64_t bytes) {
  return Ping{1, bytes};
}

inline bool Never() {
  return false;
}

}  // namespace skerry::testing
