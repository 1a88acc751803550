// The inside of Simulation: what it keeps of each process.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "sim/sent_frames.h"
#include "sim/simulated_clock.h"
#include "sim/simulation.h"

namespace skerry {

// A process's side of its conversation with one peer. Aligned, like all that an event touches: as
// few cache lines as can be.
struct alignas(64) Simulation::PeerLink {
  PeerLink(const CourierOptions& options, uint64_t incarnation, const Process& to, uint32_t own);

  int32_t peer;
  int32_t signals = -1, bulk = -1;  // connections of the network
  uint32_t index;                   // among the process's links
  // The peer's link back, in that life of the peer: saves it the search.
  uint32_t back = kNoLink;
  uint32_t back_life = 0;
  uint32_t times_forgotten = 0;
  std::optional<Instant> armed;  // true time of the event that counts
  CourierSession session;
  NodeId peer_id;

  // What went into the present connection: repeating that is needless.
  bool IsNeedless(const FrameHeader& header, uint32_t life_of_peer);
  uint32_t peer_life = 0;
  bool spoken = false;  // since the peer was forgotten
  uint64_t own_incarnation = 0, peer_incarnation = 0;
  SentFrames in_connection;  // of lane 0
  std::unique_ptr<std::array<SentFrames, kTrafficClasses - 1>> bulk_in_connection;
  SentFrames& InConnection(size_t lane);
};

// A frame under way.
struct Simulation::InFlight {
  int32_t from = 0, to = 0;
  uint32_t from_life = 0, to_life = 0;
  uint32_t sender_link = 0;          // among the sender's links
  uint32_t receiver_link = kNoLink;  // among the receiver's; kNoLink: to be searched
  Frame frame;
};

struct alignas(64) Simulation::Process {
  struct Timer {
    TimerId id;
    Instant deadline;  // on the process's clock
    Instant due;       // true time; an event at any other time is void
  };
  struct DeviceJob {
    JobId id;
    Job job;
  };
  // The device, or what runs beside it.
  struct Worker {
    std::vector<DeviceJob> jobs;  // the first one runs
    bool runs = false;
    Instant due;
    Duration left;  // of the first job, while the process hangs
    uint64_t token = 0;
  };

  // What every event touches comes first, in two cache lines; most processes talk to one other,
  // their coordinator, and wait for one or two timers.
  int32_t index = 0;
  int32_t node = -1;  // of the network
  uint32_t life = 0;  // counts starts and ends; events of earlier lives are void
  bool up = false;
  bool hung = false;
  bool disk_full = false;
  SimulatedClock clock;
  std::unique_ptr<Actor> actor;
  TimerId next_id = 1;
  absl::InlinedVector<std::unique_ptr<PeerLink>, 1> links;
  absl::InlinedVector<Timer, 2> timers;  // by id

  NodeId id;
  uint64_t incarnation = 0;
  Rng rng{0};
  std::unordered_map<int32_t, uint32_t> link_of;  // looked up, never iterated
  ActorFactory factory;
  std::vector<std::string> journal;
  std::optional<Stopped> stopped;

  std::set<int32_t> connected;  // with SimulationOptions::known_to_all

  std::array<Worker, kJobQueues> workers;  // by JobQueue

  double slowness = 1;
  Instant hung_until;
  std::vector<SimulatedEvent> waiting;  // came while it hung
};

// What a handler wants; carried out after it returned.
struct Simulation::Effects {
  struct Send {
    NodeId to;
    SharedMessage message;
  };
  struct Withdraw {
    NodeId to;
    TrafficClass traffic;
    std::function<bool(const Message&)> is_obsolete;
  };
  struct Submit {
    JobId id;
    Job job;
  };
  struct Event {
    std::string kind, json_fields;
  };
  struct Connect {
    NodeId peer;
    bool dials = false;
  };
  struct Disconnect {
    NodeId peer;
  };
  struct Stop {
    int exit_code;
    std::string reason;
  };
  using Effect = std::variant<Send, Withdraw, Submit, Event, Connect, Disconnect, Stop>;
  std::vector<std::string> records;
  std::vector<Effect> list;
  bool in_handler = false;
};

}  // namespace skerry
