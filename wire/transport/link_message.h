// What two transports say to each other beside frames, about one pair of nodes (format 2): bulk
// frames in chunks, acknowledgements of chunks, round trips, and which connections carry bulk.
//
// Each is one ZeroMQ part, little-endian, that begins with kLinkMagic; an envelope begins with four
// zero bytes, so nothing is both. Control (attach, want, acks, probe, echo) goes over the pair's
// control connection, or over the connection it is about.
//
//   A bulk frame is the stream  envelope ‖ payload.  It is cut into chunks; any connection of the
//   pair may carry any chunk, in any order, more than once. The last one brings the BLAKE2b-256 of
//   the whole stream. Every transmission of a chunk has a *serial* of its own, which is what is
//   acknowledged.
//
// Decode is total and allocates for what is there only. Every number is checked by
// BulkReceiver and BulkSender before anything is allocated for it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "common/bytes.h"
#include "common/ids.h"
#include "wire/message/traffic.h"

namespace skerry {

inline constexpr uint32_t kLinkMagic = 0x4c594b53;  // "SKYL"
inline constexpr int64_t kChunkBytesMax = int64_t{1} << 20;
inline constexpr size_t kAcksAtOnce = 128;
// Connections of a pair beside the control connection: 16 for bulk, one for activations, and one
// for round trips, which must not wait behind anything.
inline constexpr uint16_t kSignalStripe = 17;
inline constexpr uint16_t kStripesMax = 18;
using StripeId = uint16_t;

// Sessions of one process ascend in their lower half; the upper one is the process's, random. A
// chunk of an older session may come after the first of a newer one, over another connection.
inline constexpr int kSessionNumberBits = 32;
inline bool IsOlderSession(uint64_t session, uint64_t than) {
  return session >> kSessionNumberBits == than >> kSessionNumberBits && session < than;
}

// Dialler → listener, on a connection: it carries bulk, both ways. And the answer to that.
struct AttachMessage {
  uint16_t stripe = 0;  // < kStripesMax
  bool is_answer = false;
  bool operator==(const AttachMessage&) const = default;
};
// Listener → dialler: attach so many.
struct WantMessage {
  uint16_t stripes = 0;
  bool operator==(const WantMessage&) const = default;
};
struct ChunkHeader {
  uint64_t session = 0;   // of the sender; what came in an older one is void (IsOlderSession)
  uint64_t serial = 0;    // of this transmission
  uint64_t transfer = 0;  // of the frame, rising within a session
  TrafficClass traffic = TrafficClass::kData;
  int64_t envelope_bytes = 0;  // the stream begins with so many
  int64_t total_bytes = 0;     // of the stream
  int64_t offset = 0;
  std::optional<Digest> digest;  // of the stream; in its last chunk and no other
  bool operator==(const ChunkHeader&) const = default;
};
struct AcksMessage {
  uint64_t session = 0;        // of who sent the chunks
  int64_t credit_bytes = 0;    // so many may be sent in all
  int64_t received_bytes = 0;  // so many came, all in all, at
  int64_t at_nanos = 0;        // this time of the receiver's clock
  std::vector<uint64_t> serials;
  bool operator==(const AcksMessage&) const = default;
};
// An echo says when the probe came, to who understands that: on the wire a probe asks for it by a
// bit of its time that older transports send back as it is. By another one it asks whether short
// chunks are understood.
struct ProbeMessage {
  int64_t sent_nanos = 0;  // of the sender's clock, < 2^61
  bool is_echo = false;
  bool wants_arrival = false;
  int64_t arrived_nanos = -1;  // of the receiver's clock; in an echo; −1: not told
  bool asks_short = false;     // in an echo: the question came back, so they are not
  bool operator==(const ProbeMessage&) const = default;
};
ProbeMessage EchoOf(const ProbeMessage& probe, int64_t arrived_nanos);

bool IsLinkMessage(std::span<const uint8_t> part);

Bytes EncodeLink(const AttachMessage& message);
Bytes EncodeLink(const WantMessage& message);
Bytes EncodeLink(const AcksMessage& message);
Bytes EncodeLink(const ProbeMessage& message);
// The bytes of the chunk follow. Short: the same with numbers of as many bytes as they need, 7 bits
// in each, the lowest first; on a line of 10 Mbit/s, where chunks are small, 0.3 % of it.
Bytes EncodeLink(const ChunkHeader& header);
Bytes EncodeShort(const ChunkHeader& header);

struct DecodedChunk {
  ChunkHeader header;
  std::span<const uint8_t> bytes;  // of `part`
};
using LinkMessage =
    std::variant<AttachMessage, WantMessage, DecodedChunk, AcksMessage, ProbeMessage>;
// nullopt: malformed.
std::optional<LinkMessage> DecodeLink(std::span<const uint8_t> part);

}  // namespace skerry
