// A ticket is all a volunteer needs to join: who the coordinator is (its key, pinned), where it
// listens, which run, for how long. The coordinator signs it, so it can be checked before dialling;
// how many of its uses are left only the coordinator's journal knows.
//
// Text: "skerry1-" + base64url without padding of
//   length u16 | coordinator 32 | run 32 | ticket id 16 | expiry u64 | uses u32 | role u8
//   | endpoint length u8 | endpoint | Ed25519 signature 64 | checksum 4
// Numbers are little-endian; `length` counts all bytes; the checksum is BLAKE2b over all before it;
// the signature covers "skerry ticket 1" and all bytes before it.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "common/bytes.h"
#include "common/ids.h"
#include "wire/identity.h"

namespace skerry {

using TicketId = std::array<uint8_t, 16>;

// A guest's bearer is admitted when the operator has approved of it.
enum class TicketRole : uint8_t { kNode = 1, kOperator = 2, kGuest = 3 };

inline constexpr size_t kTicketEndpointBytesMax = 200;

struct Ticket {
  NodeId coordinator;
  // "tcp://host:port", or several with commas between: where it may be (wire/coordinator_route.h);
  // 1 … kTicketEndpointBytesMax bytes.
  std::string endpoint;
  RunId run;
  TicketId id{};             // random; the coordinator counts uses by it
  int64_t expires_unix = 0;  // seconds; the ticket is void from this second on
  uint32_t uses = 1;         // how many nodes it admits, at least 1
  TicketRole role = TicketRole::kNode;
  bool operator==(const Ticket&) const = default;

  std::string IdHex() const;
};

struct TicketOrder {
  std::string endpoint;
  RunId run;
  int64_t expires_unix = 0;
  uint32_t uses = 1;
  TicketRole role = TicketRole::kNode;
};

// InvalidArgument: no ticket could name it, which is one "tcp://host:port" or several.
absl::Status CheckTicketEndpoint(const std::string& endpoint);
// FailedPrecondition: one of them is every address of whoever dials it, as tcp://0.0.0.0:7700.
absl::Status CheckNamesMachine(const std::string& endpoint);
// InvalidArgument: nobody could listen there: "tcp://address:port" or several; the port may be *.
absl::Status CheckListens(const std::string& endpoint);
// Draws a ticket id, signs, returns the text. `coordinator` is the coordinator's identity.
// InvalidArgument for an endpoint that is empty, too long or not "tcp://…:port", or no uses.
absl::StatusOr<std::string> IssueTicket(const Identity& coordinator, const TicketOrder& order);

// Reads the text and checks its signature, not its expiry. White space around it is ignored.
//
// InvalidArgument: not a ticket, cut off, mistyped (the checksum differs), of another version.
// PermissionDenied: the signature is not the named coordinator's.
absl::StatusOr<Ticket> DecodeTicket(const std::string& text);

// The two halves of DecodeTicket: the bytes that the text stands for, with length and checksum
// found right; what they say, and whether it is signed.
absl::StatusOr<Bytes> TicketBytes(const std::string& text);
absl::StatusOr<Ticket> DecodeTicketBytes(const Bytes& bytes);

// DecodeTicket, then FailedPrecondition if it has expired at `now_unix` (seconds).
absl::StatusOr<Ticket> VerifyTicket(const std::string& text, int64_t now_unix);

}  // namespace skerry
