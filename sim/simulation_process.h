// The inside of Simulation: what it keeps of each process.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "sim/simulated_clock.h"
#include "sim/simulation.h"

namespace skerry {

// A process's side of its conversation with one peer. One courier each, so that a coordinator of
// ten thousand looks at one session per frame and not at all of them.
struct Simulation::PeerLink {
  PeerLink(const CourierOptions& options, int32_t peer_index)
      : peer(peer_index), courier(options) {}
  int32_t peer;
  Courier courier;
  std::optional<Instant> armed;  // true time of the event that counts
  // What went into the present connection: repeating that is needless.
  bool IsNeedless(const FrameHeader& header, uint32_t life_of_peer, const NodeId& peer_id);
  uint32_t peer_life = 0;
  uint64_t own_incarnation = 0, peer_incarnation = 0;
  uint64_t last_sequence = 0;
  std::vector<uint64_t> in_connection;  // sequences, increasing; acknowledged ones are dropped
  size_t prune_at = 16;
};

// A frame under way.
struct Simulation::InFlight {
  int32_t from = 0, to = 0;
  uint32_t to_life = 0;
  Frame frame;
};

struct Simulation::Process {
  struct Timer {
    TimerId id;
    Instant deadline;  // on the process's clock
    Instant due;       // true time; an event at any other time is void
  };
  struct DeviceJob {
    JobId id;
    Job job;
  };

  NodeId id;
  int32_t index = 0;
  int32_t node = -1;  // of the network
  ActorFactory factory;
  std::vector<std::string> journal;
  uint32_t life = 0;  // counts starts and ends; events of earlier lives are void
  bool up = false;
  std::optional<Stopped> stopped;
  std::unique_ptr<Actor> actor;
  Rng rng{0};
  uint64_t incarnation = 0;
  uint64_t next_id = 1;
  std::vector<Timer> timers;  // by id

  std::unordered_map<int32_t, size_t> link_of;  // looked up, never iterated
  std::vector<std::unique_ptr<PeerLink>> links;

  std::deque<DeviceJob> jobs;  // the first one runs
  bool device_runs = false;
  Instant device_due;
  Duration device_left;  // of the first job, while the process hangs
  uint64_t device_token = 0;

  // Faults. Machine and disk outlive a process.
  SimulatedClock clock;
  double slowness = 1;
  bool disk_full = false;
  bool hung = false;
  Instant hung_until;
  std::vector<SimulatedEvent> waiting;  // came while it hung
};

// What a handler wants; carried out after it returned.
struct Simulation::Effects {
  struct Send {
    NodeId to;
    Message message;
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
  };
  struct Disconnect {
    NodeId peer;
  };
  struct Stop {
    int exit_code;
    std::string reason;
  };
  using Effect = std::variant<Send, Submit, Event, Connect, Disconnect, Stop>;
  std::vector<std::string> records;
  std::vector<Effect> list;
  bool in_handler = false;
};

}  // namespace skerry
