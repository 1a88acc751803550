#include "wire/transport/link_message.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>
#include <utility>

namespace skerry {
namespace {

static_assert(std::endian::native == std::endian::little);

enum class Kind : uint8_t { kAttach = 1, kWant, kChunk, kAcks, kProbe, kTimedEcho, kShortChunk };

constexpr int64_t kWantsArrival = int64_t{1} << 62, kAsksShort = int64_t{1} << 61;
constexpr uint8_t kHasDigest = 0x80;  // beside the class of a short chunk

class LinkWriter {
 public:
  explicit LinkWriter(Kind kind) {
    Put(kLinkMagic);
    Put(kind);
  }
  template <typename T>
  LinkWriter& Put(T value) {
    static_assert(std::is_integral_v<T> || std::is_enum_v<T>);
    text_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  LinkWriter& PutShort(uint64_t value) {
    for (; value >= 0x80; value >>= 7) Put(static_cast<uint8_t>(value | 0x80));
    return Put(static_cast<uint8_t>(value));
  }
  void Put(std::span<const uint8_t> bytes) {
    text_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  Bytes Take() const { return Bytes(text_.begin(), text_.end()); }

 private:
  std::string text_;
};

class LinkReader {
 public:
  explicit LinkReader(std::span<const uint8_t> bytes) : bytes_(bytes) {}

  template <typename T>
  T Get() {
    T value{};
    if (bytes_.size() < sizeof value) {
      ok_ = false;
      return value;
    }
    std::memcpy(&value, bytes_.data(), sizeof value);
    bytes_ = bytes_.subspan(sizeof value);
    return value;
  }
  bool GetBool() {
    const auto value = Get<uint8_t>();
    ok_ = ok_ && value <= 1;
    return value == 1;
  }
  // 0 … 2^62: so that sums of two do not overflow.
  int64_t GetCount() {
    const auto value = Get<int64_t>();
    ok_ = ok_ && value >= 0 && value <= (int64_t{1} << 62);
    return value;
  }
  // The shortest form only, so that one header has one encoding.
  uint64_t GetShort() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = Get<uint8_t>();
      const uint64_t bits = byte & 0x7f;
      if (shift == 63 && bits > 1) break;
      value |= bits << shift;
      if (byte < 0x80) {
        ok_ = ok_ && (byte != 0 || shift == 0);
        return value;
      }
    }
    ok_ = false;
    return 0;
  }
  int64_t GetShortCount() {
    const uint64_t value = GetShort();
    ok_ = ok_ && value <= uint64_t{1} << 62;
    return ok_ ? static_cast<int64_t>(value) : 0;
  }
  void Fail() { ok_ = false; }
  bool ok() const { return ok_; }
  std::span<const uint8_t> rest() const { return bytes_; }

 private:
  std::span<const uint8_t> bytes_;
  bool ok_ = true;
};

TrafficClass ReadBulkClass(LinkReader& in, uint8_t traffic) {
  if (traffic == 0 || traffic >= kTrafficClasses) in.Fail();
  return static_cast<TrafficClass>(traffic);
}

std::optional<LinkMessage> FinishChunk(LinkReader& in, DecodedChunk chunk, bool has_digest) {
  if (has_digest) {
    for (uint8_t& byte : chunk.header.digest.emplace().bytes) byte = in.Get<uint8_t>();
  }
  if (!in.ok()) return std::nullopt;
  chunk.bytes = in.rest();
  return chunk;
}

std::optional<LinkMessage> ReadChunk(LinkReader& in) {
  DecodedChunk chunk;
  ChunkHeader& header = chunk.header;
  header.session = in.Get<uint64_t>();
  header.serial = in.Get<uint64_t>();
  header.transfer = in.Get<uint64_t>();
  header.traffic = ReadBulkClass(in, in.Get<uint8_t>());
  header.envelope_bytes = in.GetCount();
  header.total_bytes = in.GetCount();
  header.offset = in.GetCount();
  return FinishChunk(in, std::move(chunk), in.GetBool());
}

std::optional<LinkMessage> ReadShortChunk(LinkReader& in) {
  DecodedChunk chunk;
  ChunkHeader& header = chunk.header;
  header.session = in.Get<uint64_t>();
  const auto traffic = in.Get<uint8_t>();
  header.traffic = ReadBulkClass(in, traffic & ~kHasDigest);
  header.serial = in.GetShort();
  header.transfer = in.GetShort();
  header.envelope_bytes = in.GetShortCount();
  header.total_bytes = in.GetShortCount();
  header.offset = in.GetShortCount();
  return FinishChunk(in, std::move(chunk), (traffic & kHasDigest) != 0);
}

std::optional<LinkMessage> ReadAcks(LinkReader& in) {
  AcksMessage acks;
  acks.session = in.Get<uint64_t>();
  acks.credit_bytes = in.GetCount();
  acks.received_bytes = in.GetCount();
  acks.at_nanos = in.GetCount();
  const auto count = in.Get<uint16_t>();
  if (!in.ok() || count > kAcksAtOnce || in.rest().size() != count * sizeof(uint64_t))
    return std::nullopt;
  for (uint16_t i = 0; i < count; ++i) acks.serials.push_back(in.Get<uint64_t>());
  return acks;
}

}  // namespace

bool IsLinkMessage(std::span<const uint8_t> part) {
  return part.size() >= sizeof kLinkMagic &&
         std::memcmp(part.data(), &kLinkMagic, sizeof kLinkMagic) == 0;
}

Bytes EncodeLink(const AttachMessage& m) {
  return LinkWriter(Kind::kAttach).Put(m.stripe).Put(static_cast<uint8_t>(m.is_answer)).Take();
}
Bytes EncodeLink(const WantMessage& m) {
  return LinkWriter(Kind::kWant).Put(m.stripes).Take();
}
Bytes EncodeLink(const ProbeMessage& m) {
  if (m.arrived_nanos >= 0)
    return LinkWriter(Kind::kTimedEcho).Put(m.sent_nanos).Put(m.arrived_nanos).Take();
  int64_t sent = m.sent_nanos;
  if (m.wants_arrival) sent |= kWantsArrival;
  if (m.asks_short) sent |= kAsksShort;
  return LinkWriter(Kind::kProbe).Put(sent).Put(static_cast<uint8_t>(m.is_echo)).Take();
}

ProbeMessage EchoOf(const ProbeMessage& probe, int64_t arrived_nanos) {
  if (!probe.wants_arrival) return {probe.sent_nanos, true};
  return {probe.sent_nanos, true, false, arrived_nanos};
}

Bytes EncodeLink(const AcksMessage& m) {
  LinkWriter out(Kind::kAcks);
  out.Put(m.session).Put(m.credit_bytes).Put(m.received_bytes).Put(m.at_nanos);
  out.Put(static_cast<uint16_t>(m.serials.size()));
  for (const uint64_t serial : m.serials) out.Put(serial);
  return out.Take();
}

Bytes EncodeLink(const ChunkHeader& m) {
  LinkWriter out(Kind::kChunk);
  out.Put(m.session).Put(m.serial).Put(m.transfer).Put(m.traffic);
  out.Put(m.envelope_bytes).Put(m.total_bytes).Put(m.offset);
  out.Put(static_cast<uint8_t>(m.digest.has_value()));
  if (m.digest) out.Put(std::span<const uint8_t>(m.digest->bytes));
  return out.Take();
}

Bytes EncodeShort(const ChunkHeader& m) {
  const auto traffic = static_cast<uint8_t>(m.traffic);
  LinkWriter out(Kind::kShortChunk);
  out.Put(m.session).Put(m.digest ? static_cast<uint8_t>(traffic | kHasDigest) : traffic);
  out.PutShort(m.serial).PutShort(m.transfer);
  for (const int64_t count : {m.envelope_bytes, m.total_bytes, m.offset})
    out.PutShort(static_cast<uint64_t>(count));
  if (m.digest) out.Put(std::span<const uint8_t>(m.digest->bytes));
  return out.Take();
}

std::optional<LinkMessage> DecodeLink(std::span<const uint8_t> part) {
  if (!IsLinkMessage(part)) return std::nullopt;
  LinkReader in(part.subspan(sizeof kLinkMagic));
  const auto kind = in.Get<Kind>();
  if (kind == Kind::kChunk) return ReadChunk(in);
  if (kind == Kind::kShortChunk) return ReadShortChunk(in);
  if (kind == Kind::kAcks) return ReadAcks(in);
  std::optional<LinkMessage> message;
  if (kind == Kind::kAttach) {
    const auto stripe = in.Get<uint16_t>();
    message = AttachMessage{stripe, in.GetBool()};
    if (stripe >= kStripesMax) in.Fail();
  } else if (kind == Kind::kWant) {
    message = WantMessage{in.Get<uint16_t>()};
  } else if (kind == Kind::kProbe) {
    const auto sent = in.Get<int64_t>();
    const bool is_echo = in.GetBool(), wants_arrival = (sent & kWantsArrival) != 0;
    message = ProbeMessage{sent & ~(kWantsArrival | kAsksShort), is_echo, !is_echo && wants_arrival,
                           -1, (sent & kAsksShort) != 0};
  } else if (kind == Kind::kTimedEcho) {
    const int64_t sent = in.GetCount();
    message =
        ProbeMessage{sent & ~kAsksShort, true, false, in.GetCount(), (sent & kAsksShort) != 0};
  }
  if (!in.ok() || !in.rest().empty()) return std::nullopt;
  return message;
}

}  // namespace skerry
