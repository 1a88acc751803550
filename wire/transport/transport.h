// ZeroMQ sockets of one process: a ROUTER that others dial (CURVE server with this process's key)
// and one DEALER per dialled peer (CURVE client, the peer's key pinned). Whole encoded frames in
// and out; who said what is already proven when a frame comes out of Receive.
//
// A peer that was not dialled is answered through the ROUTER, by the routing id its latest
// authenticated frame came with. Frames that find no way yet wait (kWaitingMax per peer); frames
// that find a full pipe wait too, and Flush sends them later.
//
// Those connections are for control. Bulk frames for a peer that understands chunks go over
// connections of their own, opened when there is something for them (link_message.h,
// bulk_sender.h): who dialled opens them, both use them. Where only the other side could dial, it
// is asked to open them.
//
// A peer that neither side can dial is reached through a relay (transport_relay.cc): over
// connections to it that are this pair's own, in sealed parts. So is one that was dialled and does
// not answer for kDirectPatience, if there is a relay; the first direct sign of life ends that.
// Where their routers allow it, the two dial each other at once, and the relay is left in reserve
// (transport_punch.cc).
// A process that forwards for others does it here, too (relay_desk.h).
//
// Used on one thread. zmq::error_t never leaves this file's functions.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>
#include <zmq.hpp>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/id_hash.h"
#include "common/instant.h"
#include "wire/codec/codec.h"
#include "wire/event_loop.h"
#include "wire/message/reachability.h"
#include "wire/shaper.h"
#include "wire/transport/bulk_receiver.h"
#include "wire/transport/bulk_sender.h"
#include "wire/transport/connection_budget.h"
#include "wire/transport/hole_punch.h"
#include "wire/transport/path_check.h"
#include "wire/transport/relay_desk.h"
#include "wire/transport/relay_route.h"
#include "wire/transport/relay_seal.h"
#include "wire/transport/token_bucket.h"
#include "wire/transport/zap.h"
#include "wire/wakeup.h"

namespace skerry {

class Transport {
 public:
  struct Options {
    Identity identity;
    RunId run;
    std::string bind_endpoint;                      // or several, with commas between
    bool admit_any = false;                         // a coordinator: strangers pass the handshake
    bool relays = false;                            // forwards for others
    std::function<Instant()> clock = MonotonicNow;  // read often; does not go back
  };

  // What came in: decoded, its sender proven.
  struct Received {
    DecodedFrame decoded;
    bool admitted = false;  // named by Allow or Dial; otherwise small and without payload
  };

  // Unavailable if the endpoint cannot be bound.
  static absl::StatusOr<std::unique_ptr<Transport>> Open(Options options);
  // Waits up to one second for what was sent to leave.
  ~Transport();

  // Where it listens, with real ports; at least one.
  const std::vector<std::string>& endpoints() const { return endpoints_; }

  // Admits the peer's key at the ROUTER. InvalidArgument if its id is no key.
  absl::Status Allow(const NodeId& peer);
  // Admits it, and from now on waits for it to dial.
  absl::Status Await(const NodeId& peer);
  // Admits it, and from now on talks to it through a relay, unless it dials.
  absl::Status Relay(const NodeId& peer);
  // Who forwards; `always` after all others (zero: nobody). All are dialled, or will be.
  void SetRelays(std::vector<NodeId> relays, const NodeId& always);
  // Admits and dials; does nothing if already dialled there, dials anew at another endpoint.
  absl::Status Dial(const NodeId& peer, const std::string& endpoint);
  // Closes the way to the peer and takes its admission back.
  void HangUp(const NodeId& peer);

  // Takes the frame; it leaves now, or when Flush finds a way.
  void Send(OutgoingFrame frame);
  // Tries what waits, and does what is due. True if something is left for which no poll item will
  // report: try again soon.
  bool Flush();
  // When Flush has something to do again, on Options::clock.
  std::optional<Instant> NextDue() const;

  // What to poll for; the items are those of the sockets known now.
  void AppendPollItems(std::vector<zmq::pollitem_t>& items);
  // Answers handshakes, counts broken ones, and calls `take` with up to kReceiveAtOnce frames per
  // socket. `take` may call every function of this class but this one.
  void Receive(const std::function<void(Received)>& take);

  // Frames of this class for this peer that wait here, or are on their way in chunks.
  size_t Waiting(const NodeId& peer, TrafficClass traffic) const;
  // True: a frame of bulk of this sequence waits here, nothing of it has left, and it is gone.
  bool Withdraw(const NodeId& peer, TrafficClass traffic, uint64_t sequence);
  // Whether frames wait for any peer to which there is a way. Bulk is not waited for.
  bool HasUnsent() const;
  // The peer's process is a new one, or nothing gets through to it: what it was being sent in bulk
  // is void.
  void DropBulk(const NodeId& peer);
  // Peers to which there is another way for control than there was: what went the old one may be
  // lost.
  std::set<NodeId> TakeRerouted() { return std::exchange(rerouted_, {}); }

  // Dials the node back at DialBackAt(listens, where it is seen); what came of it is taken later.
  void TryReach(const NodeId& node, const std::vector<std::string>& listens);
  std::vector<Reachability> TakeReached();

  // The peers to which the way is a relay now, and which.
  std::map<NodeId, NodeId> Relayed() const;
  // Those that a relay joined with us and that we reach directly now, through both routers.
  std::set<NodeId> Punched() const;
  // Whether chunks may be sent to it before it said that it understands them.
  bool UsesRelay(const NodeId& peer) const;

  // At most so many bytes per second to and from all peers; 0: no limit. Bulk is paced (what comes
  // in, by when it is acknowledged); control and what is forwarded for others only count.
  void SetLimits(double up_bytes_per_s, double down_bytes_per_s);

  // Peers to which nothing in bulk gets through.
  struct Stall {
    Instant since;
    bool small_passes = false;  // small messages do
  };
  std::map<NodeId, Stall> Stalled() const;
  // What bulk traffic to a peer has shown of the way there lately, a rate of 0 if it was too
  // little; nullopt: there was none.
  std::optional<LinkReading> Shown(const NodeId& peer) const;

  // The part of the counters that the transport knows.
  TransportCounters counters() const;

  static constexpr int kReceiveAtOnce = 32;
  static constexpr size_t kWaitingMax = 4096;
  static constexpr size_t kStrangersMax = 8192;  // routing ids and keys kept of who is not admitted
  static constexpr Duration kDirectPatience = Duration::Seconds(10);
  static constexpr Duration kReachPatience = Duration::Seconds(4);
  static constexpr size_t kReachAtOnce = 512;                    // nodes; the others wait
  static constexpr Duration kTendEvery = Duration::Millis(250);  // relays and their pairs

 private:
  struct Line {
    std::string endpoint;
    zmq::socket_t dealer;
    Instant dialled;
    bool heard = false;  // something came over it
  };
  enum class SendResult { kSent, kFull, kNoWay };

  // What came over: the listening socket, from whoever has this routing id; or a socket of ours.
  struct Origin {
    NodeId peer;  // who proved to be it
    bool dialled = false;
    std::optional<StripeId> stripe;  // of ours; nullopt: control, or the ROUTER
    std::string routing_id;          // if not dialled
    bool relayed = false;            // through a relay, over this stripe
    int descriptor = -1;             // of the connection, libzmq's
  };
  // A connection of ours to a relay, for one stripe of a pair.
  struct RelayWire {
    zmq::socket_t socket;
    bool ready = false;
    Instant attached;
    int64_t got = 0, said = 0;  // sealed bytes that came; and of how many the relay was told
  };
  // A connection of ours to the peer itself, which dials it, too.
  struct PunchedWire {
    zmq::socket_t socket;
    uint64_t nonce = 0;  // that the peer has to answer
    bool ready = false;  // it has
  };
  struct RelayedPair {
    RelayedPair(RelaySeal with, bool asks) : seal(std::move(with)), punch(asks) {}
    RelayRoute route;
    std::optional<NodeId> wired;  // the relay that the wires lead to
    std::map<StripeId, RelayWire> wires;
    RelaySeal seal;
    bool called = false;  // the peer uses a relay
    HolePunch punch;
    std::string seen;  // where the peer is
    std::map<StripeId, PunchedWire> direct;
  };
  struct Link {
    explicit Link(uint64_t session) : sender(session) {}
    BulkSender sender;
    BulkReceiver receiver;
    std::map<StripeId, zmq::socket_t> dialled;  // ours
    std::map<StripeId, std::string> attached;   // routing ids of theirs
    std::map<StripeId, int> descriptors;      // where they attached or acknowledged last; libzmq's
    Instant connections_read;                 // of these
    uint16_t wanted = 0;                      // so many of ours the peer asked for
    std::optional<Instant> asked, redialled;  // when we last did
  };
  struct ReachAttempt {
    Reachability found;
    std::vector<zmq::socket_t> sockets;  // one for each of found.tried
    std::vector<uint64_t> nonces;
    Instant due;
  };

  explicit Transport(Options options);
  absl::Status Bind();
  void SetCommonOptions(zmq::socket_t& socket);
  static void SetFamily(zmq::socket_t& socket, const std::string& endpoint);
  // `knocks`: it is the pair's connection for control, by which the other side is to answer.
  zmq::socket_t DialSocket(const NodeId& peer, const std::string& endpoint, bool knocks);
  zmq::socket_t ClientSocket(const NodeId& peer);
  void CloseStripes(const NodeId& peer);
  void CountSent(int64_t bytes);
  bool IsByLine(const NodeId& peer) const;
  SendResult TrySend(OutgoingFrame& frame);
  // nullopt: nothing to receive, or the socket is gone.
  std::optional<std::vector<zmq::message_t>> ReceiveParts(zmq::socket_t* socket);
  // Reads one socket until it is empty; `peer` null: the ROUTER.
  void ReceiveFrom(const NodeId* peer, std::optional<StripeId> stripe,
                   const std::function<void(Received)>& take);
  std::optional<Received> Accept(const std::vector<zmq::message_t>& parts, const NodeId* dialled);
  std::optional<Received> AcceptRelayed(const NodeId& peer, std::span<const uint8_t> envelope,
                                        std::span<const uint8_t> payload);
  void CountFrame(size_t envelope_bytes, const Payload& payload);
  zmq::socket_t* SocketTo(const NodeId& peer, std::optional<StripeId> stripe);

  // ---- bulk (transport_bulk.cc) ----
  Link& LinkTo(const NodeId& peer);
  void ReadConnections(Link& link);
  void PrepareToSend(const NodeId& peer, Link& link);
  // Its bytes; 0: none may go.
  int64_t SendChunk(const NodeId& peer, Link& link, SenderLine::What what);
  void PrepareStripes(const NodeId& peer, Link& link);
  void OpenStripe(const NodeId& peer, Link& link, StripeId stripe);
  void TendSilent(const NodeId& peer, Link& link);
  void Redial(const NodeId& peer, Link& link);
  SendResult SendPart(zmq::socket_t& socket, const std::string* routing_id,
                      std::span<const uint8_t> bytes);
  SendResult SendOverStripe(const NodeId& peer, Link& link, StripeId stripe,
                            std::span<const uint8_t> bytes);
  // Over the control connection; what finds no room is lost.
  SendResult SendControl(const NodeId& peer, std::span<const uint8_t> bytes);
  void SendTwin(const OutgoingFrame& frame);
  void Answer(const Origin& origin, std::span<const uint8_t> bytes);
  // A link message, from somebody admitted.
  void OnLinkPart(const Origin& origin, std::span<const uint8_t> part,
                  const std::function<void(Received)>& take);
  // The number of the connection; of one that nobody attached that of control.
  static StripeId StripeOf(const Origin& origin, const Link& link);
  void OnAttach(const Origin& origin, const AttachMessage& message);
  std::optional<Received> OnChunk(const Origin& origin, const DecodedChunk& chunk);
  void SendAcks(const NodeId& peer, Link& link);
  uint64_t NextSession();
  bool FlushBulk();

  // ---- through relays (transport_relay.cc) ----
  RelayedPair* PairWith(const NodeId& peer);  // nullptr: its id is no key
  void SyncWires(const NodeId& peer, RelayedPair& pair);
  void OpenReadyStripes(const RelayedPair& pair, Link& link);
  void OpenWire(const NodeId& peer, RelayedPair& pair, StripeId stripe);
  void PrepareWires(const NodeId& peer, Link& link);
  SendResult SendSealed(const NodeId& peer, StripeId stripe, std::span<const uint8_t> plain);
  SendResult SendSealedFrame(const OutgoingFrame& frame);
  void TendRelays();
  void ReceiveRelayed(const NodeId& peer, StripeId stripe,
                      const std::function<void(Received)>& take);
  void OnRelayData(const NodeId& peer, StripeId stripe, const RelayData& data,
                   const std::function<void(Received)>& take);
  void OnSealed(const NodeId& peer, StripeId stripe, std::span<const uint8_t> plain,
                const std::function<void(Received)>& take);
  void OnRelayState(const NodeId& peer, StripeId stripe, const RelayState& state);
  void EndRelaying(const NodeId& peer);
  // From somebody admitted, over a connection that is no wire of ours.
  void OnRelayPart(const Origin& origin, std::span<const uint8_t> part);
  void Forward(const Origin& origin, const RelayData& data, std::span<const uint8_t> part);
  void SayNotices(const std::vector<RelayDesk::Notice>& notices);

  // ---- through both routers (transport_punch.cc) ----
  static bool IsDirect(const RelayedPair& pair, StripeId stripe);
  void TendDirect(const NodeId& peer, RelayedPair& pair);
  void OnMeet(const NodeId& peer, const RelayMeet& meet);
  void Introduce(const Origin& origin, const RelayMeet& meet);
  zmq::socket_t ServingSocket();
  void DialDirect(const NodeId& peer, RelayedPair& pair, StripeId stripe);
  SendResult SendDirect(const RelayedPair& pair, StripeId stripe, PunchedWire& wire,
                        std::span<const uint8_t> plain);
  void ReceiveDirect(const NodeId& peer, StripeId stripe,
                     const std::function<void(Received)>& take);
  void OnDirectNonce(const NodeId& peer, StripeId stripe, const ReachNonce& nonce);
  void CloseDirect(const NodeId& peer, RelayedPair& pair);

  // ---- dialling back (transport_reach.cc) ----
  void TendReach();
  void BeginReach(ReachAttempt& attempt);
  void OnReachAnswer(uint64_t nonce);
  void ReceiveReach();
  // False: what a stranger said is no question whether large packets pass, or one too many.
  bool AnswerStranger(const std::string& routing_id, std::span<const uint8_t> part);
  Instant Now() const { return options_.clock(); }
  void LearnRoute(const NodeId& peer, const std::string& routing_id);
  void NoteSeen(const NodeId& peer, const zmq::message_t& message);
  // Something came from the peer over a connection of the two.
  void HearDirectly(const Origin& origin);
  void FlushPeer(const NodeId& peer);
  void ServeMonitor();
  void OnAccepted(int descriptor);
  const std::string& KeyHexOf(const NodeId& peer);

  Options options_;
  zmq::context_t context_;
  std::optional<ZapHandler> zap_;
  zmq::socket_t router_;
  zmq::socket_t monitor_;
  std::vector<std::string> endpoints_;
  std::map<NodeId, Line> lines_;
  absl::flat_hash_set<NodeId, IdHash> allowed_;
  using TextOfNode = absl::flat_hash_map<NodeId, std::string, IdHash>;
  TextOfNode routing_ids_;  // of whoever dialled and proved its key
  TextOfNode key_hex_;      // what was worked out once
  std::map<NodeId, std::deque<OutgoingFrame>> waiting_;
  absl::flat_hash_map<std::string, NodeId>
      peer_of_key_;  // of whom is allowed, by key in hexadecimal
  std::map<NodeId, Link> links_;
  std::set<NodeId> active_;    // whose links have something to do
  SenderLine sender_line_;     // that they share
  bool bulk_is_full_ = false;  // a connection took no more
  uint64_t session_ = 0;       // the last one of a link's sender
  TokenBucket up_, down_;
  std::set<NodeId> through_relay_;  // neither side can dial
  std::map<NodeId, RelayedPair> pairs_;
  std::vector<NodeId> relays_;
  NodeId always_;
  Instant relays_tended_;
  std::set<NodeId> rerouted_;
  RelayDesk desk_;
  TextOfNode seen_;  // addresses from which peers dialled
  std::map<NodeId, ReachAttempt> reaching_;
  std::deque<std::pair<NodeId, std::vector<std::string>>> to_reach_;
  std::vector<Reachability> reached_;
  PathDesk path_desk_;
  TransportCounters counters_;
  ConnectionBudget connections_;
  int64_t accepted_ = 0;      // connections of the ROUTER: taken,
  int64_t shaken_ = 0;        // through the handshake,
  int64_t disconnected_ = 0;  // ended
};

}  // namespace skerry
