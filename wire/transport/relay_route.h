// Which relay a pair of nodes uses, as one end of it sees it.
//
//   kIdle     nobody has had anything to say
//   kCalling  our wire is attached to a relay, or about to be; the other end is not there yet
//   kReady    both are: parts pass
//
// A relay that says nothing for kRelaySilent is dead or cut off; one at which the other end does
// not appear for kPeerPatience may be out of *its* reach. Either way it is avoided for kAvoidFor
// and the next in order is called; if all are avoided, the first is tried again. Who is called at
// another relay follows there: the end that found the old one dead moves both.
//
// Pure; not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "common/ids.h"
#include "common/instant.h"
#include "wire/transport/relay_message.h"

namespace skerry {

class RelayRoute {
 public:
  enum class State : uint8_t { kIdle, kCalling, kReady };
  static constexpr Duration kAttachEvery = Duration::Seconds(2);
  static constexpr Duration kRelaySilent = Duration::Seconds(7);
  static constexpr Duration kPeerPatience = Duration::Seconds(12);
  static constexpr Duration kYieldAfter = Duration::Seconds(4);
  static constexpr Duration kAvoidFor = Duration::Seconds(60);

  // Best first (RelayOrder). The one in use stays in use while it is among them; callers look at
  // relay() after this and every other call.
  void SetOrder(Instant now, std::vector<NodeId> order);

  // There is something to say. True: a relay was chosen, attach to it.
  bool Want(Instant now);
  // A relay says that the peer waits there. True: it is the one to use from now on, and was not
  // before. Ignored of who is no relay of this pair. One end of a pair `yields` at once, the other
  // when its own call has gone unanswered for kYieldAfter: else they could swap places for ever.
  bool OnCall(Instant now, const NodeId& relay, bool yields);
  // The relay's answer about the wire of control.
  void OnState(Instant now, const NodeId& relay, RelayState::Is is);
  // Anything else that came over the relay: it lives.
  void OnHeard(Instant now, const NodeId& relay);
  // Nothing gets through although the relay answers. True: another one is to be used.
  bool OnStalled(Instant now);

  // Call every second or so. True: another relay is to be used, attach to it.
  bool Tick(Instant now);

  State state() const { return state_; }
  // The one in use; nullopt in kIdle, and if there is none at all.
  const std::optional<NodeId>& relay() const { return relay_; }
  int64_t moves() const { return moves_; }

 private:
  bool Avoid(Instant now);
  bool Choose(Instant now);
  void Begin(Instant now, const NodeId& relay);

  std::vector<NodeId> order_;
  std::map<NodeId, Instant> avoided_;  // since
  std::optional<NodeId> relay_;
  State state_ = State::kIdle;
  Instant heard_;    // the relay, or when it was chosen
  Instant calling_;  // since
  int64_t moves_ = 0;
};

}  // namespace skerry
