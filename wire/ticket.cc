#include "wire/ticket.h"

#include <sodium.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <ctime>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "common/bytes.h"
#include "common/digest.h"
#include "common/status.h"
#include "wire/coordinator_route.h"

namespace skerry {
namespace {

constexpr char kPrefix[] = "skerry1-";
constexpr std::string_view kSignatureContext = "skerry ticket 1";
constexpr size_t kChecksumBytes = 4;
constexpr size_t kFixedBytes = 2 + 32 + 32 + 16 + 8 + 4 + 1 + 1;  // before the endpoint
constexpr size_t kTailBytes = 64 + kChecksumBytes;
constexpr size_t kTicketBytesMin = kFixedBytes + 1 + kTailBytes;
constexpr size_t kTicketBytesMax = kFixedBytes + kTicketEndpointBytesMax + kTailBytes;

template <typename T>
void Put(Bytes& out, T value) {
  for (size_t i = 0; i < sizeof(T); ++i)
    out.push_back(static_cast<uint8_t>(static_cast<uint64_t>(value) >> (8 * i)));
}

template <size_t N>
void Put(Bytes& out, const std::array<uint8_t, N>& bytes) {
  out.insert(out.end(), bytes.begin(), bytes.end());
}

// Reads forward; the caller has checked that the bytes are there.
class Cursor {
 public:
  explicit Cursor(std::span<const uint8_t> bytes) : bytes_(bytes) {}
  template <typename T>
  T Number() {
    uint64_t value = 0;
    for (size_t i = 0; i < sizeof(T); ++i) value |= uint64_t{bytes_[at_++]} << (8 * i);
    return static_cast<T>(value);
  }
  template <size_t N>
  void Take(std::array<uint8_t, N>& out) {
    std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(at_), N, out.begin());
    at_ += N;
  }
  std::string Text(size_t size) {
    std::string text(bytes_.begin() + static_cast<std::ptrdiff_t>(at_),
                     bytes_.begin() + static_cast<std::ptrdiff_t>(at_ + size));
    at_ += size;
    return text;
  }

 private:
  std::span<const uint8_t> bytes_;
  size_t at_ = 0;
};

Bytes Signed(std::span<const uint8_t> body) {
  Bytes bytes(kSignatureContext.size() + body.size());
  std::copy(body.begin(), body.end(),
            std::copy(kSignatureContext.begin(), kSignatureContext.end(), bytes.begin()));
  return bytes;
}

bool IsTcpEndpoint(const std::string& endpoint) {
  const size_t colon = endpoint.rfind(':');
  if (endpoint.rfind("tcp://", 0) != 0 || colon == std::string::npos || colon <= 6) return false;
  int port = 0;
  const char* end = endpoint.data() + endpoint.size();
  const auto [stop, error] = std::from_chars(endpoint.data() + colon + 1, end, port);
  const bool printable =
      std::all_of(endpoint.begin(), endpoint.end(), [](char c) { return c > ' ' && c < 0x7f; });
  return error == std::errc() && stop == end && port >= 1 && port <= 65535 && printable;
}

bool AreTcpEndpoints(const std::string& endpoints) {
  const auto all = SplitEndpoints(endpoints);
  return !all.empty() && std::all_of(all.begin(), all.end(), IsTcpEndpoint);
}

// What a mail or a terminal broke into lines is whole again.
std::string WithoutSpaces(std::string text) {
  std::erase_if(text, [](unsigned char c) { return absl::ascii_isspace(c); });
  return text;
}

// "skerry2-…"
bool IsOfOtherVersion(const std::string& text) {
  constexpr std::string_view kName = "skerry";
  const size_t end = text.find_first_not_of("0123456789", kName.size());
  return text.starts_with(kName) && end != std::string::npos && end > kName.size() &&
         text[end] == '-';
}

// The bytes of the base64url part, with their length and checksum found right.
absl::StatusOr<Bytes> Unwrap(const std::string& text) {
  const std::string prefix = kPrefix;
  if (text.rfind(prefix, 0) != 0) {
    if (IsOfOtherVersion(text)) {
      return InvalidArgument(
          "this ticket is of version '%s', this program reads %s: update the "
          "older of coordinator and node [SK-ticket-version]",
          text.substr(0, text.find('-')), "'skerry1'");
    }
    return InvalidArgument("not a ticket: a ticket begins with '%s' [SK-ticket-mistyped]", prefix);
  }
  const std::string body = text.substr(prefix.size());
  for (size_t i = 0; i < body.size(); ++i) {
    const char c = body[i];
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '-' && c != '_') {
      return InvalidArgument(
          "ticket: character %d is not one a ticket has; copy it again [SK-ticket-mistyped]",
          static_cast<int>(prefix.size() + i + 1));
    }
  }
  std::string raw;
  const bool whole = absl::WebSafeBase64Unescape(body, &raw);
  if (body.size() > 3 && !whole) raw = "";
  if (raw.size() < 2 && body.size() > 3) absl::WebSafeBase64Unescape(body.substr(0, 4), &raw);
  if (raw.size() < 2)
    return InvalidArgument("the ticket is cut off; copy it whole [SK-ticket-mistyped]");
  const size_t want = static_cast<uint8_t>(raw[0]) + (size_t{static_cast<uint8_t>(raw[1])} << 8);
  const size_t want_characters = prefix.size() + (want * 8 + 5) / 6;
  if (want < kTicketBytesMin || want > kTicketBytesMax)
    return InvalidArgument(
        "the ticket is mistyped near its beginning; copy it again [SK-ticket-mistyped]");
  if (text.size() < want_characters) {
    return InvalidArgument(
        "the ticket is cut off: %d of %d characters; copy it whole [SK-ticket-mistyped]",
        static_cast<int>(text.size()), static_cast<int>(want_characters));
  }
  if (text.size() > want_characters) {
    return InvalidArgument(
        "the ticket has %d characters too many; copy it alone [SK-ticket-mistyped]",
        static_cast<int>(text.size() - want_characters));
  }
  Bytes bytes(raw.begin(), raw.end());
  const auto covered =
      std::span(bytes).first(bytes.size() > kChecksumBytes ? bytes.size() - kChecksumBytes : 0);
  const Digest digest = DigestOf(covered);
  if (!whole || bytes.size() != want ||
      !std::equal(bytes.end() - kChecksumBytes, bytes.end(), digest.bytes.begin())) {
    return InvalidArgument(
        "the ticket is mistyped: its checksum differs; copy it again [SK-ticket-mistyped]");
  }
  return bytes;
}

}  // namespace

std::string Ticket::IdHex() const {
  std::string hex;
  for (const uint8_t b : id) hex += absl::StrFormat("%02x", b);
  return hex;
}

absl::Status CheckTicketEndpoint(const std::string& endpoint) {
  if (AreTcpEndpoints(endpoint) && endpoint.size() <= kTicketEndpointBytesMax) {
    return absl::OkStatus();
  }
  return InvalidArgument(
      "a ticket needs an endpoint like tcp://host:port, or several with commas between, of at most "
      "%d bytes, not '%s' [SK-ticket-address]",
      kTicketEndpointBytesMax, endpoint);
}

absl::Status CheckNamesMachine(const std::string& endpoint) {
  for (const std::string& one : SplitEndpoints(endpoint)) {
    for (const char* anywhere : {"tcp://0.0.0.0:", "tcp://*:", "tcp://[::]:"}) {
      if (!one.starts_with(anywhere)) continue;
      return FailedPrecondition(
          "%s names no machine that a volunteer could dial; give --advertise tcp://HOST:%s "
          "[SK-ticket-address]",
          one, one.substr(one.rfind(':') + 1));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckListens(const std::string& endpoint) {
  for (const std::string& one : SplitEndpoints(endpoint)) {
    std::string numbered = one;
    if (one.ends_with(":*") || one.ends_with(":0")) numbered.back() = '1';
    if (IsTcpEndpoint(numbered)) continue;
    return InvalidArgument(
        "nobody can listen at '%s'; want tcp://*:7701 or tcp://address:port, several with commas "
        "between",
        one);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> IssueTicket(const Identity& coordinator, const TicketOrder& order) {
  SKERRY_RETURN_IF_ERROR(CheckTicketEndpoint(order.endpoint));
  if (order.uses == 0) return InvalidArgument("a ticket needs at least one use");
  TicketId id;
  randombytes_buf(id.data(), id.size());

  Bytes bytes;
  Put(bytes, static_cast<uint16_t>(kFixedBytes + order.endpoint.size() + kTailBytes));
  Put(bytes, coordinator.id().bytes);
  Put(bytes, order.run.bytes);
  Put(bytes, id);
  Put(bytes, static_cast<uint64_t>(order.expires_unix));
  Put(bytes, order.uses);
  Put(bytes, static_cast<uint8_t>(order.role));
  Put(bytes, static_cast<uint8_t>(order.endpoint.size()));
  bytes.insert(bytes.end(), order.endpoint.begin(), order.endpoint.end());
  Put(bytes, coordinator.Sign(Signed(bytes)));
  const Digest digest = DigestOf(std::span<const uint8_t>(bytes));
  bytes.insert(bytes.end(), digest.bytes.begin(), digest.bytes.begin() + kChecksumBytes);

  const std::string raw(bytes.begin(), bytes.end());
  return kPrefix + absl::WebSafeBase64Escape(raw);
}

absl::StatusOr<Bytes> TicketBytes(const std::string& text) {
  return Unwrap(WithoutSpaces(text));
}

absl::StatusOr<Ticket> DecodeTicket(const std::string& text) {
  SKERRY_ASSIGN_OR_RETURN(const Bytes bytes, TicketBytes(text));
  return DecodeTicketBytes(bytes);
}

absl::StatusOr<Ticket> DecodeTicketBytes(const Bytes& bytes) {
  if (bytes.size() < kTicketBytesMin || bytes.size() > kTicketBytesMax)
    return InvalidArgument("%d bytes are no ticket", static_cast<int>(bytes.size()));
  Cursor cursor(bytes);
  Ticket ticket;
  cursor.Number<uint16_t>();
  cursor.Take(ticket.coordinator.bytes);
  cursor.Take(ticket.run.bytes);
  cursor.Take(ticket.id);
  ticket.expires_unix = cursor.Number<int64_t>();
  ticket.uses = cursor.Number<uint32_t>();
  const auto role = cursor.Number<uint8_t>();
  const auto endpoint_bytes = cursor.Number<uint8_t>();
  if (kFixedBytes + endpoint_bytes + kTailBytes != bytes.size())
    return InvalidArgument(
        "the ticket is malformed: its endpoint has another length [SK-ticket-mistyped]");
  ticket.endpoint = cursor.Text(endpoint_bytes);
  Signature signature;
  cursor.Take(signature);
  const auto body = std::span<const uint8_t>(bytes).first(bytes.size() - kTailBytes);
  if (!IsSignedBy(ticket.coordinator, Signed(body), signature)) {
    return PermissionDenied(
        "the ticket is forged: its signature is not that of coordinator %s [SK-ticket-forged]",
        ticket.coordinator.Short());
  }
  if (role < static_cast<uint8_t>(TicketRole::kNode) ||
      role > static_cast<uint8_t>(TicketRole::kGuest))
    return InvalidArgument(
        "the ticket is for role %d, which this program does not know [SK-ticket-version]", role);
  if (!AreTcpEndpoints(ticket.endpoint))
    return InvalidArgument("the ticket's endpoint '%s' is not tcp://host:port [SK-ticket-address]",
                           ticket.endpoint);
  ticket.role = static_cast<TicketRole>(role);
  return ticket;
}

absl::StatusOr<Ticket> VerifyTicket(const std::string& text, int64_t now_unix) {
  SKERRY_ASSIGN_OR_RETURN(Ticket ticket, DecodeTicket(text));
  if (now_unix >= ticket.expires_unix) {
    std::tm utc{};
    const std::time_t expired = ticket.expires_unix;
    char when[64] = "long ago";
    if (gmtime_r(&expired, &utc) != nullptr)
      std::strftime(when, sizeof when, "%Y-%m-%d %H:%M UTC", &utc);
    return FailedPrecondition(
        "the ticket expired at %s; ask the operator for a new one [SK-ticket-expired]", when);
  }
  return ticket;
}

}  // namespace skerry
