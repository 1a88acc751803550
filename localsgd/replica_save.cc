// OuterReplica::Save and Restore. Layout, little-endian, without padding:
//
//   Header · tables in force from the pending message's round on: first round i64, length u64,
//   bytes · base [n] f32 · momentum [n] f32 · residual [n] f32 (kBuffer) · when pending: theta_sent
//   [n] f32 (kBuffer without restart), message [the rest] · of a sharded stage: the ends of the
//   pieces in the message, u64 each, before it · when two are pending (restart): length of the
//   first message u64, both [the rest] · BLAKE2b-256 of all before
//
// Without tables the format is 1, which has no place for them.
#include <cstring>
#include <limits>
#include <map>
#include <type_traits>
#include <utility>

#include "common/check.h"
#include "common/digest.h"
#include "common/status.h"
#include "localsgd/replica.h"

namespace skerry {
namespace {

constexpr uint32_t kMagic = 0x524f4b53;  // "SKOR"
constexpr uint32_t kFormat = 1;
constexpr uint32_t kFormatWithTables = 2;
constexpr size_t kTableHeadBytes = 16;
constexpr int64_t kParametersMax = int64_t{1} << 40;

struct Header {
  uint32_t magic = kMagic;
  uint32_t format = kFormat;
  float learning_rate = 0;
  float momentum = 0;
  uint8_t codec = 0;
  uint8_t residual = 0;
  uint8_t pending = 0;
  uint8_t restart = 0;
  uint8_t ahead = 0;
  uint8_t next_pending = 0;
  uint8_t tables = 0;  // how many follow
  uint8_t reserved = 0;
  int64_t parameters = 0;
  int64_t version = 0;
};
static_assert(sizeof(Header) == 40 && std::is_trivially_copyable_v<Header>);

Header HeaderOf(const OuterConfig& config, const OuterReplicaOptions& options) {
  Header header;
  header.learning_rate = config.learning_rate;
  header.momentum = config.momentum;
  header.codec = static_cast<uint8_t>(config.codec);
  header.residual = static_cast<uint8_t>(config.residual);
  header.restart = options.restart ? 1 : 0;
  return header;
}

// Without messages.
int64_t SavedSize(const Header& header, const OuterConfig& config, const PieceCut& cut) {
  const bool buffer = config.residual == ResidualPlace::kBuffer;
  const bool snapshot = buffer && header.restart == 0 && header.pending != 0;
  const int64_t arrays = 2 + (buffer ? 1 : 0) + (snapshot ? 1 : 0);
  const int64_t ends = cut.piece > 0 && header.pending != 0 ? 8 * cut.count() : 0;
  return static_cast<int64_t>(sizeof(Header) + sizeof(Digest)) + 4 * header.parameters * arrays +
         ends +
         (header.next_pending && header.pending ? static_cast<int64_t>(sizeof(uint64_t)) : 0);
}

// Whether so many bytes, tables left out, can be what such a header announces. What messages of
// tables and pieces take is found when they are looked at.
bool FitsHeader(const Header& header, const OuterConfig& config, const PieceCut& cut,
                size_t bytes) {
  const int64_t messages = static_cast<int64_t>(bytes) - SavedSize(header, config, cut);
  const int64_t count = header.pending + header.next_pending;
  if (cut.piece > 0) return messages >= 0 && header.parameters == cut.parameters;
  if (header.tables > 0 || config.codec == DeltaCodec::kLowRank) return messages >= 0;
  const Codec& codec = CodecFor(config.codec);
  return messages >= count * codec.EncodedSizeMin(header.parameters) &&
         messages <= count * codec.EncodedSizeMax(header.parameters);
}

bool FlagsFit(const Header& header) {
  const bool binary = header.pending <= 1 && header.ahead <= 1 && header.next_pending <= 1;
  return binary && header.next_pending <= header.ahead && header.ahead <= header.restart;
}

void Append(const void* data, size_t bytes, Bytes* out) {
  if (bytes == 0) return;
  const size_t at = out->size();
  out->resize(at + bytes);
  std::memcpy(out->data() + at, data, bytes);
}
void Append(std::span<const float> values, Bytes* out) {
  Append(values.data(), values.size_bytes(), out);
}

// Consumes the front of `rest`; SavedSize has been checked.
std::vector<float> TakeFloats(int64_t n, std::span<const uint8_t>* rest) {
  std::vector<float> values(static_cast<size_t>(n));
  const size_t bytes = values.size() * sizeof(float);
  if (bytes > 0) std::memcpy(values.data(), rest->data(), bytes);
  *rest = rest->subspan(bytes);
  return values;
}

// The ends of the pieces; SavedSize has been checked.
std::vector<size_t> TakeEnds(const PieceCut& cut, std::span<const uint8_t>* rest) {
  std::vector<size_t> ends(static_cast<size_t>(cut.count()));
  const size_t bytes = ends.size() * sizeof(uint64_t);
  static_assert(sizeof(size_t) == sizeof(uint64_t));
  if (bytes > 0) std::memcpy(ends.data(), rest->data(), bytes);
  *rest = rest->subspan(bytes);
  return ends;
}

// The first message off the front of `rest`, when another follows it.
absl::Status TakeFirstMessage(std::span<const uint8_t>* rest, Bytes* message) {
  uint64_t length = 0;
  std::memcpy(&length, rest->data(), sizeof(length));
  *rest = rest->subspan(sizeof(length));
  if (length > rest->size()) return DataLoss("saved replica: a message of %d bytes", length);
  message->assign(rest->begin(), rest->begin() + static_cast<std::ptrdiff_t>(length));
  *rest = rest->subspan(length);
  return absl::OkStatus();
}

struct SavedTables {
  std::map<int64_t, Bytes> tables;  // by first round
  size_t bytes = 0;                 // all that they take
};

absl::StatusOr<SavedTables> ReadTables(const Header& header, std::span<const uint8_t> saved) {
  SavedTables read;
  auto rest = saved.subspan(sizeof(Header), saved.size() - sizeof(Header) - sizeof(Digest));
  for (int i = 0; i < header.tables; ++i) {
    int64_t first_round = 0;
    uint64_t length = 0;
    if (rest.size() < kTableHeadBytes) return DataLoss("saved replica: table %d is cut off", i);
    std::memcpy(&first_round, rest.data(), 8);
    std::memcpy(&length, rest.data() + 8, 8);
    rest = rest.subspan(kTableHeadBytes);
    if (length > rest.size()) return DataLoss("saved replica: a table of %d bytes", length);
    read.tables[first_round].assign(rest.begin(),
                                    rest.begin() + static_cast<std::ptrdiff_t>(length));
    rest = rest.subspan(length);
    read.bytes += kTableHeadBytes + length;
  }
  return read;
}

absl::StatusOr<Header> CheckSaved(const OuterConfig& config, std::span<const uint8_t> saved,
                                  const OuterReplicaOptions& options) {
  Header header;
  if (saved.size() < sizeof(header) + sizeof(Digest)) {
    return DataLoss("saved replica: %d bytes are too few", saved.size());
  }
  std::memcpy(&header, saved.data(), sizeof(header));
  const uint32_t format = header.tables > 0 ? kFormatWithTables : kFormat;
  if (header.magic != kMagic || header.format != format) {
    return DataLoss("saved replica: not one of format %d or %d", kFormat, kFormatWithTables);
  }
  SKERRY_ASSIGN_OR_RETURN(const SavedTables tables, ReadTables(header, saved));
  const Header want = HeaderOf(config, options);
  if (header.codec != want.codec || header.residual != want.residual ||
      header.restart != want.restart || header.learning_rate != want.learning_rate ||
      header.momentum != want.momentum) {
    return FailedPrecondition("saved replica: it was saved under another outer configuration");
  }
  if (header.parameters < 0 || header.parameters > kParametersMax || header.version < 0 ||
      !FlagsFit(header) || !FitsHeader(header, config, options.cut, saved.size() - tables.bytes)) {
    return DataLoss("saved replica: %d bytes do not fit its header", saved.size());
  }
  const auto body = saved.first(saved.size() - sizeof(Digest));
  if (std::memcmp(DigestOf(body).bytes.data(), saved.data() + body.size(), sizeof(Digest)) != 0) {
    return DataLoss("saved replica: digest mismatch; the bytes are damaged");
  }
  return header;
}

}  // namespace

Bytes OuterReplica::Save() const {
  Header header = HeaderOf(config_, options_);
  header.pending = pending_ ? 1 : 0;
  header.ahead = ahead_ ? 1 : 0;
  header.next_pending = next_pending_ ? 1 : 0;
  header.parameters = size();
  header.version = version();
  const std::map<int64_t, Bytes> tables = codecs().TablesFrom(version());
  SKERRY_CHECK(tables.size() <= std::numeric_limits<uint8_t>::max());
  header.tables = static_cast<uint8_t>(tables.size());
  if (header.tables > 0) header.format = kFormatWithTables;
  Bytes out;
  out.reserve(static_cast<size_t>(SavedSize(header, config_, options_.cut)) +
              (pending_ ? message_.size() : 0) + (next_pending_ ? next_message_.size() : 0));
  Append(&header, sizeof(header), &out);
  for (const auto& [first_round, table] : tables) {
    const uint64_t length = table.size();
    Append(&first_round, sizeof(first_round), &out);
    Append(&length, sizeof(length), &out);
    Append(table.data(), table.size(), &out);
  }
  Append(base_, &out);
  Append(optimizer_.velocity(), &out);
  Append(residual_, &out);
  if (pending_) {
    if (KeepsSnapshot()) Append(theta_sent_, &out);
    const uint64_t length = message_.size();
    if (next_pending_) Append(&length, sizeof(length), &out);
    if (options_.cut.piece > 0) Append(piece_ends_.data(), 8 * piece_ends_.size(), &out);
    Append(message_.data(), message_.size(), &out);
  }
  if (next_pending_) Append(next_message_.data(), next_message_.size(), &out);
  const Digest digest = DigestOf(std::span<const uint8_t>(out));
  Append(digest.bytes.data(), digest.bytes.size(), &out);
  return out;
}

absl::Status OuterReplica::CheckPieces() const {
  size_t begin = 0;
  for (int32_t i = 0; pending_ && i < options_.cut.count(); ++i) {
    const size_t end = piece_ends_[static_cast<size_t>(i)];
    if (end < begin || end > message_.size()) return DataLoss("saved replica: piece %d", i);
    begin = end;
    SKERRY_RETURN_IF_ERROR(
        codecs().OfPiece(version(), i)->Check(OwnPiece(i), options_.cut.Size(i)));
  }
  if (pending_ && begin != message_.size()) return DataLoss("saved replica: bytes of no piece");
  return absl::OkStatus();
}

absl::StatusOr<OuterReplica> OuterReplica::Restore(const OuterConfig& config,
                                                   std::span<const uint8_t> saved,
                                                   const OuterReplicaOptions& options) {
  SKERRY_ASSIGN_OR_RETURN(const Header header, CheckSaved(config, saved, options));
  const int64_t n = header.parameters;
  SKERRY_ASSIGN_OR_RETURN(const SavedTables tables, ReadTables(header, saved));
  auto rest = saved.subspan(sizeof(Header) + tables.bytes,
                            saved.size() - sizeof(Header) - tables.bytes - sizeof(Digest));
  OuterReplica replica(config, TakeFloats(n, &rest), options);
  for (const auto& [first_round, table] : tables.tables) {
    SKERRY_RETURN_IF_ERROR(replica.codecs().SetTable(first_round, table));
  }
  replica.optimizer_.Resume(header.version, TakeFloats(n, &rest));
  if (replica.UsesBuffer()) replica.residual_ = TakeFloats(n, &rest);
  replica.pending_ = header.pending != 0;
  replica.ahead_ = header.ahead != 0;
  replica.next_pending_ = header.next_pending != 0;
  if (replica.pending_ && replica.KeepsSnapshot()) replica.theta_sent_ = TakeFloats(n, &rest);
  if (replica.pending_ && replica.next_pending_) {
    SKERRY_RETURN_IF_ERROR(TakeFirstMessage(&rest, &replica.message_));
  } else if (replica.pending_) {
    if (options.cut.piece > 0) replica.piece_ends_ = TakeEnds(options.cut, &rest);
    replica.message_.assign(rest.begin(), rest.end());
  }
  if (options.cut.piece > 0) {
    SKERRY_RETURN_IF_ERROR(replica.CheckPieces());
    return replica;
  }
  if (replica.next_pending_) replica.next_message_.assign(rest.begin(), rest.end());
  const int64_t version = replica.version();
  if (replica.pending_) {
    SKERRY_RETURN_IF_ERROR(replica.codecs().Of(version)->Check(replica.message_, n));
  }
  if (replica.next_pending_) {
    SKERRY_RETURN_IF_ERROR(replica.codecs().Of(version + 1)->Check(replica.next_message_, n));
  }
  return replica;
}

}  // namespace skerry
