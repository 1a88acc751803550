// A direct connection between two nodes behind routers that let nothing in: both dial each other
// at the same time, each from the port that the other dials. Either router takes the other's SYN
// for an answer to its own node's, and TCP opens from both ends (RFC 9293, 3.5, simultaneous open;
// Ford, Srisuresh, Kegel, "Peer-to-Peer Communication Across NATs", 2005, section 4). It needs
// routers that keep a connection's port and drop, rather than refuse, what they did not ask for.
//
//   kNone      the pair goes through its relay
//   kDialling  the relay has told both ends where it sees the other; they dial
//   kStands    something sealed by the peer has come through
//
// One end asks the relay to introduce the two (RelayMeet), when the pair is joined there, and every
// kAgain where it failed. The relay stays attached all the while: a direct connection that is
// silent is given up for it.
//
// Pure; not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/ids.h"
#include "common/instant.h"
#include "wire/transport/link_message.h"

namespace skerry {

class HolePunch {
 public:
  enum class State : uint8_t { kNone, kDialling, kStands };
  static constexpr Duration kPatience = Duration::Seconds(10);     // dialling
  static constexpr Duration kAgain = Duration::Seconds(600);       // after it failed
  static constexpr Duration kSoon = Duration::Seconds(15);         // after one that stood broke
  static constexpr Duration kMeetings = Duration::Seconds(5);      // between two, at least
  static constexpr Duration kSilent = Duration::Seconds(7);        // it is given up
  static constexpr Duration kKnockEvery = Duration::Millis(1500);  // so that it is not

  // `asks`: this end is the one.
  explicit HolePunch(bool asks) : asks_(asks) {}

  // The pair is joined at its relay. True: ask it to introduce the two, now.
  bool WantsMeeting(Instant now);
  // The relay did. True: dial.
  bool OnMeet(Instant now);
  // Something sealed by the peer came through. True: it stands from now on.
  bool OnHeard(Instant now);
  // True: close what was dialled, use the relay.
  bool Tick(Instant now);
  // Nothing gets through, whatever it says. As above.
  bool OnStalled(Instant now);
  // True: it is time to say that we are there, over all that is dialled.
  bool KnocksNow(Instant now);

  State state() const { return state_; }
  bool stands() const { return state_ == State::kStands; }

 private:
  bool asks_;
  State state_ = State::kNone;
  std::optional<Instant> met_, next_ask_;
  Instant heard_, knocked_;
};

// The port from which `from` dials `to` for this stripe: below those that systems hand out
// themselves, the same wherever it is worked out, another one for the way back.
uint16_t PunchPort(const NodeId& from, const NodeId& to, StripeId stripe);

// What ZeroMQ dials so that the connection begins at a port of our choosing. nullopt: `seen` is no
// numerical address of another machine.
std::optional<std::string> PunchEndpoint(const std::string& seen, uint16_t own_port,
                                         uint16_t peer_port);

}  // namespace skerry
