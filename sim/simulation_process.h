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
  PeerLink(const CourierOptions& options, int32_t peer_index, const NodeId& id, size_t own_index)
      : peer(peer_index), index(own_index), courier(options), peer_id(id) {}
  int32_t peer;
  int32_t connection = -1;  // of the network
  size_t index;             // among the process's links
  // The peer's link back, in that life of the peer: saves it the search.
  size_t back = SIZE_MAX;
  uint32_t back_life = 0;
  std::optional<Instant> armed;  // true time of the event that counts
  Courier courier;
  NodeId peer_id;
  // What went into the present connection: repeating that is needless.
  bool IsNeedless(const FrameHeader& header, uint32_t life_of_peer);
  uint32_t peer_life = 0;
  uint64_t own_incarnation = 0, peer_incarnation = 0;
  uint64_t last_sequence = 0;
  std::vector<uint64_t> in_connection;  // sequences, increasing; acknowledged ones are dropped
  size_t prune_at = 16;
};

// A frame under way.
struct Simulation::InFlight {
  int32_t from = 0, to = 0;
  uint32_t from_life = 0, to_life = 0;
  size_t sender_link = 0;    // among the sender's links
  size_t receiver_link = 0;  // among the receiver's; SIZE_MAX: to be searched
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

  // What every event touches comes first.
  int32_t index = 0;
  int32_t node = -1;  // of the network
  uint32_t life = 0;  // counts starts and ends; events of earlier lives are void
  bool up = false;
  bool hung = false;
  bool disk_full = false;
  SimulatedClock clock;
  std::unique_ptr<Actor> actor;
  std::vector<Timer> timers;  // by id
  uint64_t next_id = 1;
  std::vector<std::unique_ptr<PeerLink>> links;
  std::unordered_map<int32_t, size_t> link_of;  // looked up, never iterated

  NodeId id;
  ActorFactory factory;
  std::vector<std::string> journal;
  std::optional<Stopped> stopped;
  Rng rng{0};
  uint64_t incarnation = 0;

  std::vector<DeviceJob> jobs;  // the first one runs
  bool device_runs = false;
  Instant device_due;
  Duration device_left;  // of the first job, while the process hangs
  uint64_t device_token = 0;

  double slowness = 1;
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
