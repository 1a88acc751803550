#include "wire/transport/relay_message.h"

#include <bit>
#include <cstring>
#include <type_traits>

namespace skerry {
namespace {

static_assert(std::endian::native == std::endian::little);

enum class Kind : uint8_t { kAttach = 1, kState, kCall, kData, kGot, kReach, kMeet };

template <typename T>
void Put(Bytes& out, T value) {
  static_assert(std::is_integral_v<T> || std::is_enum_v<T>);
  const size_t at = out.size();
  out.resize(at + sizeof value);
  std::memcpy(out.data() + at, &value, sizeof value);
}

Bytes Begin(Kind kind) {
  Bytes out;
  Put(out, kRelayMagic);
  Put(out, kind);
  return out;
}
Bytes Begin(Kind kind, const NodeId& peer, uint16_t stripe) {
  Bytes out = Begin(kind);
  out.insert(out.end(), peer.bytes.begin(), peer.bytes.end());
  Put(out, stripe);
  return out;
}

struct Reader {
  std::span<const uint8_t> rest;
  bool ok = true;

  void Take(void* to, size_t bytes) {
    ok = ok && rest.size() >= bytes;
    if (!ok) return;
    std::memcpy(to, rest.data(), bytes);
    rest = rest.subspan(bytes);
  }
  template <typename T>
  T Get() {
    T value{};
    Take(&value, sizeof value);
    return value;
  }
  NodeId Peer() {
    NodeId id;
    Take(id.bytes.data(), id.bytes.size());
    ok = ok && !id.IsZero();
    return id;
  }
  uint16_t Stripe() {
    const auto stripe = Get<uint16_t>();
    ok = ok && stripe <= kControlWire;
    return stripe;
  }
};

}  // namespace

bool IsRelayMessage(std::span<const uint8_t> part) {
  return part.size() > sizeof kRelayMagic &&
         std::memcmp(part.data(), &kRelayMagic, sizeof kRelayMagic) == 0;
}

Bytes EncodeRelay(const RelayAttach& m) {
  return Begin(Kind::kAttach, m.peer, m.stripe);
}
Bytes EncodeRelay(const RelayState& m) {
  Bytes out = Begin(Kind::kState, m.peer, m.stripe);
  Put(out, m.is);
  return out;
}
Bytes EncodeRelay(const RelayCall& m) {
  return Begin(Kind::kCall, m.peer, m.stripe);
}
Bytes EncodeRelay(const RelayGot& m) {
  Bytes out = Begin(Kind::kGot);
  Put(out, m.bytes);
  return out;
}
Bytes EncodeRelay(const RelayMeet& m) {
  Bytes out = Begin(Kind::kMeet);
  out.insert(out.end(), m.peer.bytes.begin(), m.peer.bytes.end());
  out.insert(out.end(), m.seen.begin(), m.seen.end());
  return out;
}
Bytes EncodeRelay(const ReachNonce& m) {
  Bytes out = Begin(Kind::kReach);
  Put(out, m.nonce);
  Put(out, static_cast<uint8_t>(m.is_answer));
  out.resize(out.size() + m.padding);
  return out;
}
Bytes EncodeRelay(const RelayData& m) {
  Bytes out = Begin(Kind::kData, m.peer, m.stripe);
  out.insert(out.end(), m.sealed.begin(), m.sealed.end());
  return out;
}

std::optional<RelayMessage> DecodeRelay(std::span<const uint8_t> part) {
  if (!IsRelayMessage(part)) return std::nullopt;
  Reader in{part.subspan(sizeof kRelayMagic)};
  const auto kind = in.Get<Kind>();
  std::optional<RelayMessage> message;
  if (kind == Kind::kData) {
    RelayData data;
    data.peer = in.Peer();
    data.stripe = in.Stripe();
    data.sealed = in.rest;
    if (!in.ok || data.sealed.empty() || data.sealed.size() > kSealedBytesMax) return std::nullopt;
    return data;
  }
  if (kind == Kind::kAttach || kind == Kind::kCall || kind == Kind::kState) {
    const NodeId peer = in.Peer();
    const uint16_t stripe = in.Stripe();
    if (kind == Kind::kAttach) message = RelayAttach{peer, stripe};
    if (kind == Kind::kCall) message = RelayCall{peer, stripe};
    if (kind == Kind::kState) {
      const auto is = in.Get<RelayState::Is>();
      in.ok = in.ok && is <= RelayState::Is::kLast;
      message = RelayState{peer, stripe, is};
    }
  } else if (kind == Kind::kGot) {
    message = RelayGot{in.Get<int64_t>()};
    in.ok = in.ok && std::get<RelayGot>(*message).bytes >= 0;
  } else if (kind == Kind::kMeet) {
    RelayMeet meet;
    meet.peer = in.Peer();
    meet.seen = {reinterpret_cast<const char*>(in.rest.data()), in.rest.size()};
    if (!in.ok || meet.seen.size() > kSeenBytesMax) return std::nullopt;
    return meet;
  } else if (kind == Kind::kReach) {
    const auto nonce = in.Get<uint64_t>();
    const auto answer = in.Get<uint8_t>();
    if (!in.ok || answer > 1 || in.rest.size() > kReachPaddingMax) return std::nullopt;
    return ReachNonce{nonce, answer == 1, in.rest.size()};
  }
  if (!in.ok || !in.rest.empty()) return std::nullopt;
  return message;
}

}  // namespace skerry
