// Who may shake hands: ZeroMQ asks this handler about every CURVE client (ZAP, rfc.zeromq.org/27)
// before a byte of the client's reaches a socket.
//
// An unknown key is neither let in nor sent away: its question stays open. Peers learn of each
// other at different times, so who dials early would otherwise be refused, and libzmq's client then
// gives up for good (after 400) or waits for a timeout (after 300). If Allow comes, the open
// question is answered at once; if not, libzmq ends the handshake after ZMQ_HANDSHAKE_IVL by
// itself.
//
// Where every key may shake hands, those that are not allowed have a budget for each address
// (handshake_budget.h); beyond it they are refused.
//
// Used on the event loop's thread only: the loop polls `socket()` and calls Take and
// Serve when it is readable.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>
#include <zmq.hpp>

#include "absl/container/flat_hash_set.h"
#include "common/instant.h"
#include "wire/identity.h"
#include "wire/transport/handshake_budget.h"

namespace skerry {

std::string CurveKeyHex(const CurveKey& key);

class ZapHandler {
 public:
  // Binds ZAP's endpoint of this ZeroMQ context; before any CURVE server socket binds. With
  // `admit_any` every key passes the handshake. Throws zmq::error_t.
  ZapHandler(zmq::context_t& context, bool admit_any);

  void Allow(const CurveKey& key);
  void Disallow(const CurveKey& key) { allowed_.erase(CurveKeyHex(key)); }
  bool IsAllowed(const std::string& user_id) const { return allowed_.contains(user_id); }

  zmq::socket_t& socket() { return socket_; }
  // Takes every question that waits. The connection of each was accepted before it was asked.
  void Take();
  // Answers what was taken. The answer's User-Id is the key in hexadecimal.
  void Serve(Instant now);
  // A handshake with this address (AddressBlock) is complete; "": whose is not known.
  void OnShaken(Instant now, const std::string& address) {
    if (!address.empty()) budget_.Charge(now, address);
  }

  // Handshakes whose key was unknown when they came, or whose address had spent its budget.
  int64_t refused() const { return refused_; }

  static constexpr size_t kOpenMax = 256;  // open questions, one per key; the oldest is refused

 private:
  struct Question {
    std::string route;  // of the asking session
    std::string id;     // the session's own number for it
  };
  using Parts = std::vector<zmq::message_t>;
  void Decide(Instant now, const Parts& request);
  void Answer(const Question& question, bool admit, const std::string& user_id);

  zmq::socket_t socket_;
  bool admit_any_;
  HandshakeBudget budget_;
  std::deque<Parts> taken_;
  absl::flat_hash_set<std::string> allowed_;  // keys in hexadecimal
  std::map<std::string, Question> open_;      // by key in hexadecimal
  std::deque<std::string> open_order_;        // keys of open_, oldest first
  int64_t refused_ = 0;
};

}  // namespace skerry
