// Frames to bytes and back: the border between the plain structs of wire/message and
// wire/schema/skerry.capnp, which is the specification.
//
// Decode is total: any bytes give a frame or an error, never a crash, and never an allocation that
// the limits (wire/codec/limits.h) do not allow. Control characters in texts come out as '?', so
// that a peer cannot write to somebody's terminal.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "absl/status/statusor.h"
#include "common/bytes.h"
#include "common/ids.h"
#include "wire/courier.h"

namespace skerry {

inline constexpr uint16_t kProtocolVersion = kNewestFormat;

struct EncodedFrame {
  Bytes envelope;   // Cap'n Proto, whole words
  Payload payload;  // shared with the message, not copied; null if it has none
};

// Where the proof of the payload travels.
enum class DigestPlace : uint8_t {
  kEnvelope,
  kTransfer  // with the chunks that carry envelope and payload: format 2
};

// The frame is of the oldest format that can say it.
//
// InvalidArgument if the message breaks a limit or carries a float that is not finite: our own
// mistake or a diverged model, and no receiver would take it.
absl::StatusOr<EncodedFrame> Encode(const Frame& frame, const NodeId& sender,
                                    const NodeId& recipient,
                                    DigestPlace digest = DigestPlace::kEnvelope);

struct DecodedFrame {
  NodeId sender;
  Frame frame;
};

// What the receiver knows before it looks.
struct FrameExpectation {
  RunId run;
  NodeId recipient;  // the receiver itself
  // Whether the connection's key is this sender's; asked before the payload is touched. Empty:
  // anybody.
  std::function<bool(const NodeId& sender)> is_sender;
  DigestPlace digest = DigestPlace::kEnvelope;  // kTransfer: proven before
};

// `payload` is the concatenation of the payload parts, null if there were none; the frame shares
// it.
//
// InvalidArgument: malformed, beyond a limit, another version. FailedPrecondition: another run or
// another recipient. PermissionDenied: is_sender said no. DataLoss: the payload's digest differs.
absl::StatusOr<DecodedFrame> Decode(std::span<const uint8_t> envelope, Payload payload,
                                    const FrameExpectation& expectation);

}  // namespace skerry
