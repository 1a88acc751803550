// ZeroMQ sockets of one process: a ROUTER that others dial (CURVE server with this process's key)
// and one DEALER per dialled peer (CURVE client, the peer's key pinned). Whole encoded frames in
// and out; who said what is already proven when a frame comes out of Receive.
//
// A peer that was not dialled is answered through the ROUTER, by the routing id its latest
// authenticated frame came with. Frames that find no way yet wait (kWaitingMax per peer); frames
// that find a full pipe wait too, and Flush sends them later.
//
// Used on one thread. zmq::error_t never leaves this file's functions.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>
#include <zmq.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "wire/codec/codec.h"
#include "wire/event_loop.h"
#include "wire/shaper.h"
#include "wire/transport/zap.h"

namespace skerry {

class Transport {
 public:
  struct Options {
    Identity identity;
    RunId run;
    std::string bind_endpoint;
    bool admit_any = false;  // a coordinator: strangers pass the handshake
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

  const std::string& endpoint() const { return endpoint_; }

  // Admits the peer's key at the ROUTER. InvalidArgument if its id is no key.
  absl::Status Allow(const NodeId& peer);
  // Admits and dials; does nothing if already dialled there, dials anew at another endpoint.
  absl::Status Dial(const NodeId& peer, const std::string& endpoint);
  // Closes the way to the peer and takes its admission back.
  void HangUp(const NodeId& peer);

  // Takes the frame; it leaves now, or when Flush finds a way.
  void Send(OutgoingFrame frame);
  // Tries what waits. True if something is left for which no poll item will report: try again soon.
  bool Flush();

  // What to poll for; the items are those of the sockets known now.
  void AppendPollItems(std::vector<zmq::pollitem_t>& items);
  // Answers handshakes, counts broken ones, and calls `take` with up to kReceiveAtOnce frames per
  // socket. `take` may call every function of this class but this one.
  void Receive(const std::function<void(Received)>& take);

  // Frames for this peer that wait here.
  size_t Waiting(const NodeId& peer) const;
  // Whether frames wait for any peer to which there is a way.
  bool HasUnsent() const;

  // The part of the counters that the transport knows.
  TransportCounters counters() const;

  static constexpr int kReceiveAtOnce = 32;
  static constexpr size_t kWaitingMax = 4096;
  static constexpr size_t kStrangersMax = 8192;  // routing ids and keys kept of who is not admitted

 private:
  struct Line {
    std::string endpoint;
    zmq::socket_t dealer;
  };
  enum class SendResult { kSent, kFull, kNoWay };

  explicit Transport(Options options);
  absl::Status Bind();
  void SetCommonOptions(zmq::socket_t& socket);
  SendResult TrySend(OutgoingFrame& frame);
  // `dialled` is null for the ROUTER. nullopt: nothing to receive, or the line is gone.
  std::optional<std::vector<zmq::message_t>> ReceiveParts(const NodeId* dialled);
  std::optional<Received> Accept(const std::vector<zmq::message_t>& parts, const NodeId* dialled);
  void LearnRoute(const NodeId& peer, const std::string& routing_id);
  void FlushPeer(const NodeId& peer);
  void ServeMonitor();
  const std::string& KeyHexOf(const NodeId& peer);

  Options options_;
  zmq::context_t context_;
  std::optional<ZapHandler> zap_;
  zmq::socket_t router_;
  zmq::socket_t monitor_;
  std::string endpoint_;
  std::map<NodeId, Line> lines_;
  std::set<NodeId> allowed_;
  std::map<NodeId, std::string> routing_ids_;  // of whoever dialled and proved its key
  std::map<NodeId, std::string> key_hex_;      // what was worked out once
  std::map<NodeId, std::deque<OutgoingFrame>> waiting_;
  TransportCounters counters_;
  int64_t accepted_ = 0;      // connections of the ROUTER: taken,
  int64_t shaken_ = 0;        // through the handshake,
  int64_t disconnected_ = 0;  // ended
};

}  // namespace skerry
