// Who may shake hands: ZeroMQ asks this handler about every CURVE client (ZAP, rfc.zeromq.org/27)
// before a byte of the client's reaches a socket.
//
// Used on the event loop's thread only: the loop polls `socket()` and calls Serve when it is
// readable.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <zmq.hpp>

#include "wire/identity.h"

namespace skerry {

std::string CurveKeyHex(const CurveKey& key);

class ZapHandler {
 public:
  // Binds ZAP's endpoint of this ZeroMQ context; before any CURVE server socket binds. With
  // `admit_any` every key passes the handshake. Throws zmq::error_t.
  ZapHandler(zmq::context_t& context, bool admit_any);

  void Allow(const CurveKey& key) { allowed_.insert(CurveKeyHex(key)); }
  void Disallow(const CurveKey& key) { allowed_.erase(CurveKeyHex(key)); }
  bool IsAllowed(const std::string& user_id) const { return allowed_.contains(user_id); }

  zmq::socket_t& socket() { return socket_; }
  // Answers every request that waits. The answer's User-Id is the key in hexadecimal.
  void Serve();

  int64_t refused() const { return refused_; }

 private:
  zmq::socket_t socket_;
  bool admit_any_;
  std::set<std::string> allowed_;  // keys in hexadecimal
  int64_t refused_ = 0;
};

}  // namespace skerry
