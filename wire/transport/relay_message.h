// What a node and a relay say to each other, in the clear; and the nonce by which a coordinator
// tests whether a node can be dialled.
//
// Each is one ZeroMQ part, little-endian, that begins with kRelayMagic. A pair of nodes that cannot
// dial each other both dial the relay, with a connection ("wire") for each stripe of the pair that
// is in use; the relay joins the two wires of a stripe. What it forwards is sealed for the other
// end (relay_seal.h): it sees who, how much, when.
//
//   Attach  node → relay   this connection is my end of that stripe with that peer; said again
//                          every few seconds, for as long as it is
//   State   relay → node   whether the other end is there; the answer to Attach, and when it
//                          changes
//   Call    relay → node   over any connection: that peer has attached this stripe and waits
//   Data    both ways      from the node: `peer` is the recipient; from the relay: the sender, as
//                          its connection proved it; from the peer itself (hole_punch.h): the peer
//   Got     node → relay   so many sealed bytes have come over this wire, all in all
//   Meet    node → relay   over the wire of control, without an address: introduce us
//           relay → both   where it sees the other end
//   Reach   coordinator → node and back; sealed, between two that punch a hole; and a stranger →
//           coordinator and back, with padding, to see whether large packets pass (path_check.h)
//
// Decode is total and allocates nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <variant>

#include "common/bytes.h"
#include "common/ids.h"
#include "wire/codec/limits.h"
#include "wire/transport/link_message.h"

namespace skerry {

inline constexpr uint32_t kRelayMagic = 0x52594b53;  // "SKYR"
// Stripes of a relayed pair: bulk ones, that for signals, and kControlWire.
inline constexpr uint16_t kControlWire = kStripesMax;
inline constexpr uint16_t kRelayedStripes = 4;
inline constexpr size_t kSeenBytesMax = 45;  // of IPv6, as text
// The largest sealed part: a chunk, or an envelope of control with its payload.
inline constexpr size_t kSealedBytesMax = (size_t{1} << 20) + (size_t{64} << 10);
inline constexpr size_t kReachBytes = 14;  // of a ReachNonce without padding
inline constexpr size_t kReachPaddingMax = limits::kStrangerEnvelopeBytesMax - kReachBytes;

struct RelayAttach {
  NodeId peer;
  uint16_t stripe = 0;  // ≤ kControlWire
  bool operator==(const RelayAttach&) const = default;
};
struct RelayState {
  // kBusy: a part was not forwarded, the stripe is to rest; it is attached all the same.
  enum class Is : uint8_t { kWaiting, kReady, kRefused, kBusy, kLast = kBusy };
  NodeId peer;
  uint16_t stripe = 0;
  Is is = Is::kWaiting;
  bool operator==(const RelayState&) const = default;
};
struct RelayCall {
  NodeId peer;
  uint16_t stripe = 0;
  bool operator==(const RelayCall&) const = default;
};
struct RelayData {
  NodeId peer;
  uint16_t stripe = 0;
  std::span<const uint8_t> sealed;  // of the part; ≤ kSealedBytesMax
};
struct RelayGot {
  int64_t bytes = 0;
  bool operator==(const RelayGot&) const = default;
};
struct RelayMeet {
  NodeId peer;
  std::string_view seen;  // a numerical address, ≤ kSeenBytesMax; of the decoded part's bytes
  bool operator==(const RelayMeet&) const = default;
};
struct ReachNonce {
  uint64_t nonce = 0;
  bool is_answer = false;
  size_t padding = 0;  // zeros that follow; the answer has as many, or none
  bool operator==(const ReachNonce&) const = default;
};
using RelayMessage =
    std::variant<RelayAttach, RelayState, RelayCall, RelayData, RelayGot, RelayMeet, ReachNonce>;

bool IsRelayMessage(std::span<const uint8_t> part);
Bytes EncodeRelay(const RelayAttach& message);
Bytes EncodeRelay(const RelayState& message);
Bytes EncodeRelay(const RelayCall& message);
Bytes EncodeRelay(const RelayGot& message);
Bytes EncodeRelay(const RelayMeet& message);
Bytes EncodeRelay(const ReachNonce& message);
// Whole; or, without `sealed`, what comes before it.
Bytes EncodeRelay(const RelayData& message);
// nullopt: malformed.
std::optional<RelayMessage> DecodeRelay(std::span<const uint8_t> part);

}  // namespace skerry
