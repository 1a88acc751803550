// The contract of everything that decides: a single-threaded state machine that sees the world only
// through Context.
//
// Two hosts drive the same actors: wire/event_loop (ZeroMQ, real clock, worker threads) and
// sim/simulation (virtual clock). Handlers never block. Effects are recorded in order and carried
// out after the handler returns; what was persisted is durable before any later Send leaves.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "common/ids.h"
#include "common/instant.h"
#include "common/rng.h"
#include "wire/message/message.h"
#include "wire/message/traffic.h"

namespace skerry {

using TimerId = uint64_t;  // unique within one actor's life; 0 is none
using JobId = uint64_t;

inline constexpr char kThroughRelay[] = "relay";  // in place of an endpoint (Context::ConnectPeer)

// Which of a host's threads runs a job: the device's, or one beside it, for little work that must
// not wait until the device is through with what it has.
enum class JobQueue : uint8_t { kDevice, kBeside };
inline constexpr size_t kJobQueues = 2;

// Heavy work. `run` is executed once, on the queue's thread, in order of submission to that; it
// touches only what the actor handed over and leaves its result there. The actor reads the result
// in OnJobDone, never before.
struct Job {
  std::string name;   // "forward 3/2"
  Duration modelled;  // what a simulator charges for it
  std::function<void()> run;
  JobQueue queue = JobQueue::kDevice;
};

class Context {
 public:
  virtual ~Context() = default;
  virtual NodeId self() const = 0;
  virtual Instant now() const = 0;
  virtual Rng& rng() = 0;
  virtual void Send(const NodeId& to, SharedMessage message) = 0;
  void Send(const NodeId& to, Message message) { Send(to, Share(std::move(message))); }
  // Takes back those messages of a class to `to` for which `is_obsolete` holds and of which nothing
  // has left yet: they are never delivered. What has begun to leave arrives as ever.
  virtual void Withdraw(const NodeId& to, TrafficClass traffic,
                        std::function<bool(const Message&)> is_obsolete) {
    static_cast<void>(to), static_cast<void>(traffic), static_cast<void>(is_obsolete);
  }
  // Fires OnTimer(id) once, not before `after` has passed.
  virtual TimerId StartTimer(Duration after) = 0;
  virtual void CancelTimer(TimerId id) = 0;
  virtual JobId Submit(Job job) = 0;
  // Appends one record to this actor's journal; durable before any Send that follows it.
  virtual void Persist(std::string record) = 0;
  // One line for people and for events.jsonl: kind "round", fields as JSON object text.
  virtual void Event(const std::string& kind, const std::string& json_fields) = 0;
  // Tells the host how to reach a peer (and that its key is admitted). An empty endpoint: reachable
  // only by its own dialling. kThroughRelay: neither side can dial the other.
  virtual void ConnectPeer(const NodeId& peer, const std::string& endpoint) = 0;
  virtual void DisconnectPeer(const NodeId& peer) = 0;
  // Who forwards for pairs of which neither can dial the other. A node's coordinator always does.
  virtual void SetRelays(const std::vector<NodeId>& relays) { static_cast<void>(relays); }
  // Dials the node back at each of these and where its connection comes from. What came of it comes
  // as a Reachability from oneself, some seconds later at most.
  virtual void TryReach(const NodeId& node, const std::vector<std::string>& listens) {
    static_cast<void>(node), static_cast<void>(listens);
  }
  // The actor is done; the host ends its loop after carrying out the effects.
  virtual void Stop(int exit_code, const std::string& reason) = 0;
};

class Actor {
 public:
  virtual ~Actor() = default;
  virtual void OnStart(Context& context) = 0;
  virtual void OnMessage(Context& context, const NodeId& from, const Message& message) = 0;
  virtual void OnTimer(Context& context, TimerId timer) = 0;
  virtual void OnJobDone(Context& context, JobId job) = 0;
  // The peer's process is a new one: what was sent to the old one and not acknowledged is gone.
  virtual void OnPeerRestarted(Context& context, const NodeId& peer) = 0;
};

}  // namespace skerry
