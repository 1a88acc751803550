// The real host of an actor: one thread that polls ZeroMQ sockets, a monotonic clock and one device
// thread, and calls the actor's handlers one at a time (wire/actor.h has the contract).
//
// Life: Open binds the socket (the resolved endpoint can be read, and advertised, from then on);
// Run calls OnStart and returns when the actor called Stop, when the journal failed, or after an
// interrupt. A loop runs once.
//
// Effects of a handler are recorded and carried out after it returned, in order: first all its
// journal records in one call of Options::journal, then the rest. Handlers of messages that came
// together may share that call, from the first with records on. A Send to one's own id comes
// back as a later OnMessage. Send never blocks and never fails: what a slow or absent peer has not
// acknowledged is repeated until the actor disconnects it (wire/courier.h).
//
// Who gets in. A node admits only keys that ConnectPeer named and its coordinator's; all others are
// kept waiting at the CURVE handshake and dropped. A coordinator lets any key shake hands, but of a
// sender that ConnectPeer has not named yet only Hello reaches the actor, kHellosPerKeyMax times. A
// peer with an endpoint is dialled; one without is answered over the connection it dialled itself.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/ids.h"
#include "common/instant.h"
#include "wire/actor.h"
#include "wire/identity.h"
#include "wire/shape_config.h"

namespace skerry {

enum class HostRole : uint8_t { kNode, kCoordinator };

struct PeerAddress {
  NodeId id;
  std::string endpoint;  // "tcp://host:port"; of a coordinator also several, with commas between
};

// What went over the wire and what was kept out. Bytes are those of our frames (envelope and
// payload), without ZeroMQ's, CURVE's and TCP's own.
struct TransportCounters {
  int64_t bytes_sent = 0;
  int64_t bytes_received = 0;
  int64_t frames_sent = 0;
  int64_t frames_received = 0;  // accepted

  int64_t refused_handshakes = 0;  // with a key unknown when it came; each try counts
  int64_t broken_connections = 0;  // ended without a handshake: not ZeroMQ, no CURVE, unknown keys
  int64_t refused_malformed = 0;   // envelope or payload did not decode, wrong run or recipient
  int64_t refused_sender = 0;      // sender id and CURVE key differ
  int64_t refused_unadmitted = 0;  // not Hello, or too many, from somebody not admitted
  int64_t refused_by_courier = 0;  // repeated, stale or too far ahead
  int64_t relayed_bytes = 0;       // of others, forwarded
  int64_t relays_refused = 0;      // frames of others that were not
  int64_t slow_handlers = 0;       // handlers that held the loop for more than 5 ms
  Duration slowest_handler;
};

// An aggregate: EventLoopOptions{.identity = identity, .run = run, …}.
struct EventLoopOptions {
  Identity identity;
  RunId run = {};
  HostRole role = HostRole::kNode;
  // Where peers reach this process; several with commas between. Port "*" takes a free one.
  std::string bind_endpoint = "tcp://127.0.0.1:*";
  // A node's coordinator, from its ticket: dialled by Open and admitted; no ConnectPeer is needed.
  // Of several endpoints the next is dialled when one is silent (wire/coordinator_route.h).
  std::optional<PeerAddress> coordinator = {};
  uint64_t seed = 1;  // of Context::rng

  // Makes the records durable, in order, before it returns. ResourceExhausted (the disk is full, a
  // database does not answer): the loop stands still and tries again until it succeeds or an
  // interrupt comes; the loop says "journal_waits" and "journal_goes_on" to the event sink. Any
  // other error stops the loop, which returns it; nothing the handler sent leaves then. Without it
  // Persist is a bug.
  std::function<absl::Status(std::vector<std::string>)> journal = {};
  // Whether this process still leads, for one that shares its identity with others
  // (coordinator/lease.h). Asked at least once a second, at the beginning of every turn and before
  // what a handler said leaves; so it must be quick as long as nothing is due. Errors as
  // `journal`'s: ResourceExhausted is "not for certain", said as "lease_waits", "lease_goes_on".
  std::function<absl::Status()> leads = {};
  // Receives Context::Event (kind, JSON object text of the fields). Called on the loop's thread.
  // The loop itself says "stalled" when nothing in bulk has got through to a peer for some seconds
  // (BulkSender::kStalledAfter), and "flowing" when something does again.
  std::function<void(const std::string& kind, const std::string& json_fields)> event_sink = {};

  // Shaping of what this process sends: `region` is its own, `region_of` a peer's ("" unknown: not
  // shaped). region_of is called on the loop's thread whenever a frame for that peer is sent.
  std::optional<WanShape> shape = {};
  std::string region = {};
  std::function<std::string(const NodeId&)> region_of = {};

  // Forwards sealed frames of pairs of peers that cannot reach each other (wire/transport/
  // relay_desk.h). A coordinator always does.
  bool relays = false;

  // Called every second between two handlers, like a posted function.
  std::function<void(Context&)> on_tick = {};

  // SIGINT and SIGTERM: the first calls on_interrupt (send Leave, then Stop) and gives the actor
  // interrupt_grace to stop, after which Run returns kInterruptedExit; the second ends the process
  // at once. Without on_interrupt the first one stops the loop. At most one loop per process
  // handles signals.
  bool handle_signals = false;
  std::function<void(Context&)> on_interrupt = {};
  Duration interrupt_grace = Duration::Seconds(5);
};

inline constexpr int kInterruptedExit = 130;  // as shells report SIGINT
inline constexpr int kHellosPerKeyMax = 64;   // from one key while it is not admitted

class EventLoop {
 public:
  // Unavailable if the endpoint cannot be bound; InvalidArgument for an endpoint or an id that
  // makes no sense, or a region that the shape does not name.
  static absl::StatusOr<std::unique_ptr<EventLoop>> Open(EventLoopOptions options);

  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // The bound endpoint with its real port: "tcp://127.0.0.1:40123". Of several the first.
  const std::string& endpoint() const { return endpoints().front(); }
  const std::vector<std::string>& endpoints() const;
  // Random per process life, > 0.
  uint64_t incarnation() const;
  // Before Run: this process leads in `epoch`, > 0 (wire/courier.h, LedIncarnation).
  void Lead(int64_t epoch);

  // Drives `actor` to its end and returns the exit code it gave to Stop. Unsent control messages
  // get up to one second to leave. A job that is running is waited for; queued ones are dropped.
  absl::StatusOr<int> Run(Actor& actor);

  // Why the actor stopped, for people; empty before.
  const std::string& stop_reason() const;

  // Calls `function` on the loop's thread between two handlers, with the same Context and the same
  // treatment of effects. From any thread, and from handlers; before Run it waits for OnStart.
  // Dropped if the loop has ended.
  void Post(std::function<void(Context&)> function);

  // On the loop's thread (handlers, event sink, posted functions), or while Run is not running.
  TransportCounters counters() const;
  // The peers to which the way is a relay now, and which (same threads).
  std::map<NodeId, NodeId> Relayed() const;
  // Those that can be dialled as little, but are reached through both routers (same threads).
  std::set<NodeId> Punched() const;
  // What bulk traffic to a peer has shown of the way there lately, a rate of 0 if it was too
  // little; nullopt: there was none, or what is sent is shaped here (same threads).
  std::optional<LinkReading> Shown(const NodeId& peer) const;
  // From now on at most so many bytes per second to and from all peers together; 0: no limit. Bulk
  // is paced, control is counted (same threads).
  void SetLimits(double up_bytes_per_s, double down_bytes_per_s);
  // Where a node's coordinator may be from now on (same threads).
  void SetCoordinatorEndpoints(const std::vector<std::string>& endpoints);

 private:
  class Core;
  explicit EventLoop(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
};

}  // namespace skerry
