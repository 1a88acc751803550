#include "wire/transport/hole_punch.h"

#include <arpa/inet.h>
#include <sodium.h>

#include <cstring>

#include "absl/strings/str_format.h"

namespace skerry {
namespace {

constexpr uint16_t kFirstPort = 20'000;
constexpr uint16_t kPairs = 335;  // 38 ports each
constexpr char kLabel[] = "skerry punched ports, 1";

static_assert(kFirstPort + kPairs * 2 * (kStripesMax + 1) < 32'768);

bool IsElsewhere(uint32_t v4) {  // host byte order
  const bool loopback = v4 >> 24 == 127, link_local = v4 >> 16 == 0xa9fe;
  return v4 >> 24 != 0 && !loopback && !link_local && v4 >> 28 < 0xe;
}

}  // namespace

bool HolePunch::WantsMeeting(Instant now) {
  if (!asks_ || state_ != State::kNone || (next_ask_ && now < *next_ask_)) return false;
  next_ask_ = now + kAgain;
  return true;
}

bool HolePunch::OnMeet(Instant now) {
  if (state_ != State::kNone || (met_ && now - *met_ < kMeetings)) return false;
  met_ = heard_ = now;
  knocked_ = now - kKnockEvery;
  state_ = State::kDialling;
  return true;
}

bool HolePunch::OnHeard(Instant now) {
  if (state_ == State::kNone) return false;
  heard_ = now;
  if (state_ == State::kStands) return false;
  state_ = State::kStands;
  return true;
}

bool HolePunch::Tick(Instant now) {
  if (state_ == State::kDialling && now - *met_ > kPatience) {
    state_ = State::kNone;
    return true;
  }
  return state_ == State::kStands && now - heard_ > kSilent && OnStalled(now);
}

bool HolePunch::OnStalled(Instant now) {
  if (state_ != State::kStands) return false;
  state_ = State::kNone;
  next_ask_ = now + kSoon;
  return true;
}

bool HolePunch::KnocksNow(Instant now) {
  if (state_ == State::kNone || now - knocked_ < kKnockEvery) return false;
  knocked_ = now;
  return true;
}

uint16_t PunchPort(const NodeId& from, const NodeId& to, StripeId stripe) {
  const bool is_first = from < to;
  const NodeId& first = is_first ? from : to;
  const NodeId& second = is_first ? to : from;
  uint32_t drawn = 0;
  uint8_t digest[16];
  crypto_generichash_state state;
  crypto_generichash_init(&state, nullptr, 0, sizeof digest);
  crypto_generichash_update(&state, reinterpret_cast<const uint8_t*>(kLabel), sizeof kLabel);
  crypto_generichash_update(&state, first.bytes.data(), first.bytes.size());
  crypto_generichash_update(&state, second.bytes.data(), second.bytes.size());
  crypto_generichash_final(&state, digest, sizeof digest);
  std::memcpy(&drawn, digest, sizeof drawn);
  const auto pair = static_cast<uint16_t>(drawn % kPairs);
  return static_cast<uint16_t>(kFirstPort + 2 * (pair * (kStripesMax + 1) + stripe) +
                               (is_first ? 0 : 1));
}

std::optional<std::string> PunchEndpoint(const std::string& seen, uint16_t own_port,
                                         uint16_t peer_port) {
  in_addr v4{};
  if (inet_pton(AF_INET, seen.c_str(), &v4) == 1) {
    if (!IsElsewhere(ntohl(v4.s_addr))) return std::nullopt;
    return absl::StrFormat("tcp://0.0.0.0:%d;%s:%d", own_port, seen, peer_port);
  }
  in6_addr v6{};
  if (inet_pton(AF_INET6, seen.c_str(), &v6) != 1) return std::nullopt;
  // As the system writes the address of who came by IPv4 to a socket of both families.
  if (IN6_IS_ADDR_V4MAPPED(&v6)) {
    char text[INET_ADDRSTRLEN] = {};
    inet_ntop(AF_INET, &v6.s6_addr[12], text, sizeof text);
    return PunchEndpoint(text, own_port, peer_port);
  }
  if (IN6_IS_ADDR_LOOPBACK(&v6) || IN6_IS_ADDR_UNSPECIFIED(&v6) || IN6_IS_ADDR_LINKLOCAL(&v6) ||
      IN6_IS_ADDR_MULTICAST(&v6)) {
    return std::nullopt;
  }
  return absl::StrFormat("tcp://[::]:%d;[%s]:%d", own_port, seen, peer_port);
}

}  // namespace skerry
