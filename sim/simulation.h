// The virtual host: drives the production actors on virtual time over a seeded, lossy network.
//
// One thread, integer nanoseconds, events ordered by (time, process, sequence), one random stream
// per process and purpose: the same seed gives the same trace, whose hash is kept over every event.
// A process can crash (all it had in memory is gone, its journal stays) and start again with a new
// incarnation. Jobs really run, at the virtual time they end; their cost is what they declare.
//
// Network: per directed pair one-way delay, rate (frames queue behind each other), jitter, loss,
// repetition. A lost frame is repeated by the courier, as in the real host.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <string>
#include <tuple>
#include <vector>

#include "wire/actor.h"
#include "wire/courier.h"

namespace skerry {

struct SimLink {
  Duration one_way = Duration::Millis(1);
  double bytes_per_s = 1e9;
  double loss = 0;        // of frames
  double repetition = 0;  // a frame arrives twice
  Duration jitter;        // uniform in [0, jitter], so frames overtake each other
};

struct SimulationOptions {
  uint64_t seed = 1;
  RunId run;
  std::function<SimLink(const NodeId& from, const NodeId& to)> link;
  Duration repeat_after = Duration::Seconds(1);
  std::function<void(Instant, const NodeId&, const std::string& kind, const std::string& json)>
      event_sink;
};

class Simulation {
 public:
  // `journal`: what this process persisted in earlier lives.
  using ActorFactory =
      std::function<std::unique_ptr<Actor>(const std::vector<std::string>& journal)>;

  explicit Simulation(SimulationOptions options);
  ~Simulation();

  void AddProcess(const NodeId& id, ActorFactory factory, Instant start = Instant());
  void CrashAt(Instant when, const NodeId& id);
  void StartAt(Instant when, const NodeId& id);
  // Scripted changes of the world, in event order.
  void At(Instant when, std::function<void(Simulation&)> action);

  // Runs until `done` holds (checked after every event) or `limit`; true if it held.
  bool RunUntil(const std::function<bool()>& done, Instant limit);

  Instant now() const { return now_; }
  uint64_t trace_hash() const { return trace_hash_; }
  int64_t events() const { return events_; }
  int64_t frames_lost() const { return frames_lost_; }
  bool IsUp(const NodeId& id) const;
  Actor* actor(const NodeId& id);  // nullptr while it is down
  const std::vector<std::string>& journal(const NodeId& id) const;
  // What Stop was called with; nullopt while it has not stopped.
  struct Stopped {
    int exit_code = 0;
    std::string reason;
  };
  std::optional<Stopped> stopped(const NodeId& id) const;

 private:
  struct Process;
  class ProcessContext;
  struct Event {
    Instant at;
    NodeId process;
    uint64_t sequence = 0;
    std::function<void()> run;
    bool operator>(const Event& o) const {
      return std::tie(at, process, sequence) > std::tie(o.at, o.process, o.sequence);
    }
  };

  void Schedule(Instant at, const NodeId& process, std::function<void()> run);
  void StartProcess(Process& process);
  void StopProcess(Process& process);
  void Deliver(Process& process, const NodeId& from, const Frame& frame);
  // Calls a handler, then carries out its effects.
  void Handle(Process& process, const std::function<void(Context&)>& handler);
  void Transmit(const NodeId& from, std::vector<Courier::Outgoing> frames);
  void ArmCourier(Process& process);
  void Trace(uint64_t value) { trace_hash_ = Mix64(trace_hash_ ^ value); }

  SimulationOptions options_;
  Instant now_;
  uint64_t next_sequence_ = 1;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> queue_;
  std::map<NodeId, std::unique_ptr<Process>> processes_;
  std::map<std::pair<NodeId, NodeId>, Instant> link_free_;
  Rng network_rng_;
  uint64_t trace_hash_ = 0;
  int64_t events_ = 0;
  int64_t frames_lost_ = 0;
};

}  // namespace skerry
