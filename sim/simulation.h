// The virtual host: drives the production actors on virtual time over a seeded network.
//
// One thread, integer nanoseconds, events ordered by (time, process, sequence), one random stream
// per process and purpose: the same seed gives the same trace, whose hash is kept over every event
// and every fault. Jobs really run, at the virtual time they end; their cost is what they declare.
// Effects of a handler are carried out as in the real host (wire/event_loop.h): first its records,
// together, then the rest in order.
//
// Network, one of two. `link`: per directed pair one-way delay, rate, jitter, loss, repetition of
// frames; the courier repeats what is lost, and as in the real host (wire/event_loop.h) what has
// not left yet is not sent again. `network`: TCP connections as flows
// (sim/flow_network.h); a frame is lost only with its connection (a crash, a long cut, a peer that
// is down), so the courier's repetition of what is merely slow is held back.
//
// Faults: crash and start again with or without the journal, hang, slow device, clock, full disk,
// cuts. All may be scheduled beforehand, or called from At().
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "routing/cost_model.h"
#include "sim/event_queue.h"
#include "sim/flow_network.h"
#include "sim/simulation_observer.h"
#include "sim/slab.h"
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

struct SimulatedNetwork {
  NetworkSpec spec;
  std::map<NodeId, int32_t> node_of;  // the node number of every process
  FlowNetworkOptions options = {.handshake_round_trips = 4,
                                .host_s_per_byte = kHandlingSecondsPerByte};
};

class Simulation;

struct SimulationOptions {
  uint64_t seed = 1;
  RunId run;
  std::function<SimLink(const NodeId& from, const NodeId& to)> link;
  std::optional<SimulatedNetwork> network = {};  // instead of `link`
  // As in the real host, a process takes nothing from, and sends nothing to, whom its actor has not
  // connected; all but this one, their coordinator, which everybody knows. nullopt: all know all.
  std::optional<NodeId> known_to_all = {};
  Duration repeat_after = Duration::Seconds(1);
  std::optional<Duration> repeat_after_max = {};  // eight times as long
  std::function<void(Instant, const NodeId&, const std::string& kind, const std::string& json)>
      event_sink;
  // Called for every record that has become durable, with its number in the journal of `process`
  // (1 for the first). True: the process crashes here, before anything the handler sent leaves.
  std::function<bool(Simulation&, const NodeId& process, int64_t record)> crash_after_persist = {};
};

enum class Disk : uint8_t { kKept, kLost };

class Simulation {
 public:
  // `journal`: what this process persisted in earlier lives.
  using ActorFactory =
      std::function<std::unique_ptr<Actor>(const std::vector<std::string>& journal)>;

  explicit Simulation(SimulationOptions options);
  ~Simulation();

  void AddProcess(const NodeId& id, ActorFactory factory, Instant start = Instant());
  // Everything in memory is gone, jobs and unsent frames too; the journal stays.
  void CrashAt(Instant when, const NodeId& id);
  // Nothing if it is up. With Disk::kLost its journal is empty.
  void StartAt(Instant when, const NodeId& id, Disk disk = Disk::kKept);
  // Scripted changes of the world, in event order.
  void At(Instant when, std::function<void(Simulation&)> action);
  // Not owned; it outlives the simulation.
  void Observe(SimulationObserver* observer) { observers_.push_back(observer); }

  // Stopped by a signal from `from` until `to`: no handler runs, its device rests, what comes
  // waits and is handled at `to`, in order. Its machine still answers for it: connections stay.
  void Hang(const NodeId& id, Instant from, Instant to);

  // These act at once, from now on.
  void SlowDevice(const NodeId& id, double factor);  // jobs last `factor` times what they declare
  void DriftClock(const NodeId& id, double rate);    // local seconds per true second, > 0
  void JumpClock(const NodeId& id, Duration by);
  // The next Persist fails. As in the real host the process then ends at once, with code 1 and
  // "journal: …" as reason; the records of that handler are not kept, what it sent does not leave.
  void FillDisk(const NodeId& id, bool full);
  // One direction. Only with SimulationOptions::network.
  void Cut(const NodeId& from, const NodeId& to, bool cut);
  void CutRegion(int32_t from_region, int32_t to_region, bool cut);
  // As relays do: what the two say to each other goes through node 0.
  void Bridge(const NodeId& a, const NodeId& b, bool bridged);
  // Has its actor handle what a signal of its user would bring about. Nothing if it is down or
  // hangs. Not from within a handler: from At().
  void Signal(const NodeId& id, const std::function<void(Actor&, Context&)>& handler);

  // Runs until `done` holds (checked after every event) or `limit`; true if it held.
  bool RunUntil(const std::function<bool()>& done, Instant limit);

  Instant now() const { return now_; }
  uint64_t trace_hash() const { return trace_hash_; }
  int64_t events() const { return events_; }
  int64_t frames_lost() const { return frames_lost_; }
  // Repetitions of what a living connection carries, or what has not left for its plain link.
  int64_t frames_held_back() const { return frames_held_back_; }
  FlowNetwork* network() { return network_.get(); }  // nullptr with SimulationOptions::link
  bool IsUp(const NodeId& id) const;
  bool IsDiskFull(const NodeId& id) const;
  // The most messages that one peer of this process has not acknowledged.
  int64_t LongestQueue(const NodeId& id) const;
  // No process's queue was ever longer: known without looking through all.
  int64_t LongestQueueEver() const { return longest_queue_ever_; }
  Actor* actor(const NodeId& id);  // nullptr while it is down
  const std::vector<std::string>& journal(const NodeId& id) const;
  // What Stop was called with; nullopt while it has not stopped.
  struct Stopped {
    int exit_code = 0;
    std::string reason;
  };
  std::optional<Stopped> stopped(const NodeId& id) const;

 private:
  static constexpr uint32_t kNoLink = ~uint32_t{0};
  struct Process;
  struct PeerLink;
  struct InFlight;
  struct Effects;
  class ProcessContext;
  struct NodeIdHash {
    size_t operator()(const NodeId& id) const;
  };
  // What a plain link has taken and not carried yet, in order.
  struct LinkQueue {
    struct Waiting {
      FrameHeader header;
      Instant leaves;
    };
    struct Lost {
      uint8_t lane = 0;
      uint64_t sequence = 0, incarnation = 0;
      int times = 0;
    };
    Instant free;
    std::deque<Waiting> waiting;
    std::deque<Lost> lost;  // the last ones
  };
  enum EventKind : uint8_t {
    kScript,   // value: index of scripts_
    kTimer,    // value: timer
    kJob,      // value: the worker's token times kJobQueues, and which worker
    kCourier,  // value: index of the process's links
    kFrame,    // value: index of in_flight_
    kOwn,      // likewise: a message to oneself
    kLinger,   // a stopped process's connections close
  };

  // The run (simulation.cc).
  void Schedule(Instant at, const Process& process, EventKind kind, uint64_t value);
  bool Step(Instant limit);
  void Run(const SimulatedEvent& event);
  int32_t IndexOf(const NodeId& id);
  Process& At(int32_t index);
  Process& Known(const NodeId& id);
  const Process& Known(const NodeId& id) const;
  void StartProcess(Process& process, Disk disk);
  void CrashProcess(Process& process);
  void StopProcess(Process& process);
  void Trace(uint64_t value) { trace_hash_ = Mix64(trace_hash_ ^ value); }
  template <typename Call>
  void Tell(Call&& call) {
    for (SimulationObserver* observer : observers_) call(*observer);
  }

  // Handlers and their effects (simulation_effects.cc).
  template <typename Handler>
  void Handle(Process& process, Handler&& handler);
  void OnStart(Process& process);
  void OnTimer(Process& process, TimerId id, Instant at);
  void OnJob(Process& process, JobQueue queue, uint64_t token);
  void OnOwn(Process& process, size_t slot);
  void OnMessage(Process& process, const NodeId& from, const Message& message);
  void OnPeerRestarted(Process& process, const NodeId& peer);
  void CarryOut(Process& process);
  bool Persist(Process& process);
  void BeginJob(Process& process, JobQueue queue);
  void StartJob(Process& process, JobQueue queue);

  // Frames (simulation_frames.cc).
  PeerLink& LinkTo(Process& process, int32_t peer);
  void SendMessage(Process& process, const NodeId& to, SharedMessage message);
  void Withdraw(Process& process, const NodeId& to, TrafficClass traffic,
                const std::function<bool(const Message&)>& is_obsolete);
  bool TakeBack(const Process& process, PeerLink& link, size_t lane, uint64_t sequence);
  bool HaveMet(const Process& a, const Process& b) const;
  void Transmit(Process& process, PeerLink& link);
  void TransmitOverLink(Process& process, const Process& to, Frame frame);
  // The same frame three times in a row at most: no connection is silent for longer than that about
  // what its line loses one in twenty of, and a node would be put out for nothing. A link that
  // loses all is cut.
  static bool MayBeLost(LinkQueue& queue, const FrameHeader& header, double loss);
  static bool IsWaiting(const LinkQueue& queue, const FrameHeader& header);
  void TransmitOverNetwork(Process& process, PeerLink& link, Frame frame);
  void HandOver(const Process& process, PeerLink& link, size_t slot);
  size_t Keep(int32_t from, int32_t to, Frame frame);
  void Release(size_t slot);
  void OnFrame(Process& process, size_t slot);
  void OnCourier(Process& process, PeerLink& link, Instant at);
  void ArmCourier(Process& process, PeerLink& link);
  void Forget(Process& process, const NodeId& peer);
  // What the events of the next millisecond will touch (simulation_foresight.cc).
  void Foresee();
  struct Foreseen {
    Process* process;
    uint64_t link;  // SIZE_MAX: none in particular
  };
  void TakeArrival();
  void OnLost(const FlowNetwork::Arrival& arrival);

  // Faults (simulation_faults.cc).
  void Fault(const Process& process, const std::string& what, uint64_t value);
  void BeginHang(Process& process, Instant until);
  void EndHang(Process& process);
  void FollowClock(Process& process);

  SimulationOptions options_;
  CourierOptions courier_options_;  // incarnations are the sessions' own
  Instant now_;
  EventQueue queue_;
  std::unordered_map<NodeId, int32_t, NodeIdHash> index_of_;  // looked up, never iterated
  Slab<Process> processes_;
  std::vector<std::function<void(Simulation&)>> scripts_;
  std::vector<SimulationObserver*> observers_;
  std::unique_ptr<FlowNetwork> network_;
  std::vector<FlowNetwork::Arrival> arrivals_;  // of this instant, from next_arrival_ on
  size_t next_arrival_ = 0;
  std::vector<InFlight> in_flight_;
  std::vector<size_t> free_slots_;
  std::vector<Frame> outgoing_;
  std::vector<SharedMessage> delivered_;
  std::unique_ptr<Effects> effects_;
  std::map<std::pair<int32_t, int32_t>, LinkQueue> link_queues_;
  Rng network_rng_;
  uint64_t trace_hash_ = 0;
  int64_t events_ = 0;
  std::vector<Foreseen> foreseen_;
  uint64_t turns_seen_ = 0, network_turns_seen_ = 0;
  int64_t longest_queue_ever_ = 0;
  int64_t frames_lost_ = 0;
  int64_t frames_held_back_ = 0;
};

}  // namespace skerry
