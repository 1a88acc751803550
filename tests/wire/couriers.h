// Two couriers of one run, and what goes between them by hand.
#pragma once

#include <vector>

#include "wire/courier.h"

namespace skerry {

inline const RunId kRun = [] {
  RunId run;
  run.bytes[0] = 7;
  return run;
}();
inline const NodeId kAlice = TestNodeId(1);
inline const NodeId kBob = TestNodeId(2);

inline CourierOptions Options(uint64_t incarnation) {
  CourierOptions options;
  options.run = kRun;
  options.incarnation = incarnation;
  return options;
}

inline Instant At(double seconds) {
  return Instant() + Duration::Seconds(seconds);
}

inline Message Note(uint64_t nonce) {
  return Pong{nonce};
}
inline uint64_t NonceOf(const Message& message) {
  return std::get<Pong>(message).nonce;
}

using Sent = std::vector<Courier::Outgoing>;

inline Sent SendOne(Courier& from, Instant now, const NodeId& to, uint64_t nonce) {
  Sent out;
  from.Send(now, to, Share(Note(nonce)), out);
  return out;
}

// Hands every frame of `frames` to `to` and collects what it delivers and answers.
struct Heard {
  std::vector<uint64_t> nonces;
  int restarts = 0;
  Sent answers;
};
inline Heard Hand(Courier& to, const NodeId& from, Instant now, const Sent& frames) {
  Heard heard;
  for (const auto& outgoing : frames) {
    const auto delivered = to.OnFrame(now, from, outgoing.frame, heard.answers);
    heard.restarts += delivered.restarted ? 1 : 0;
    for (const SharedMessage& message : delivered.messages)
      heard.nonces.push_back(NonceOf(*message));
  }
  return heard;
}

using Nonces = std::vector<uint64_t>;

}  // namespace skerry
