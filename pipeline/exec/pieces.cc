#include "pipeline/exec/pieces.h"

#include <bit>
#include <cstring>
#include <utility>

#include "common/check.h"
#include "common/status.h"

namespace skerry {
namespace {

static_assert(std::endian::native == std::endian::little);

struct Entry {
  uint32_t index = 0;
  uint32_t length = 0;
};

template <typename T>
void Append(const T& value, Bytes* out) {
  const auto* first = reinterpret_cast<const uint8_t*>(&value);
  out->insert(out->end(), first, first + sizeof value);
}

}  // namespace

Payload PackPieces(std::span<const Piece> pieces) {
  Bytes out;
  size_t bytes = sizeof(uint32_t) + sizeof(Entry) * pieces.size();
  int64_t standing = static_cast<int64_t>(bytes);
  for (const Piece& piece : pieces) {
    bytes += View(piece.message).size();
    standing += SizeOf(piece.message);
  }
  out.reserve(bytes);
  Append(static_cast<uint32_t>(pieces.size()), &out);
  for (const Piece& piece : pieces) {
    const size_t length = View(piece.message).size();
    SKERRY_CHECK(length <= UINT32_MAX);
    Append(Entry{static_cast<uint32_t>(piece.index), static_cast<uint32_t>(length)}, &out);
  }
  for (const Piece& piece : pieces) {
    const auto message = View(piece.message);
    out.insert(out.end(), message.begin(), message.end());
  }
  return MakeHollowPayload(std::move(out), standing);
}

int32_t FirstIndexOf(const Payload& packed) {
  const auto bytes = View(packed);
  Entry first;
  if (bytes.size() < sizeof(uint32_t) + sizeof first) return -1;
  std::memcpy(&first, bytes.data() + sizeof(uint32_t), sizeof first);
  return first.index < static_cast<uint32_t>(kPiecesMax) ? static_cast<int32_t>(first.index) : -1;
}

absl::StatusOr<std::vector<Piece>> UnpackPieces(const Payload& packed) {
  const auto bytes = View(packed);
  uint32_t count = 0;
  if (bytes.size() < sizeof count) return InvalidArgument("pieces: %d bytes", bytes.size());
  std::memcpy(&count, bytes.data(), sizeof count);
  size_t at = sizeof count + sizeof(Entry) * size_t{count};
  if (count > kPiecesMax || at > bytes.size()) {
    return InvalidArgument("pieces: %d of them in %d bytes", count, bytes.size());
  }
  std::vector<Piece> pieces;
  pieces.reserve(count);
  for (uint32_t i = 0; i < count; ++i) {
    Entry entry;
    std::memcpy(&entry, bytes.data() + sizeof count + sizeof(Entry) * i, sizeof entry);
    const bool ascends = pieces.empty() || static_cast<int64_t>(entry.index) > pieces.back().index;
    if (entry.index >= kPiecesMax || !ascends || entry.length > bytes.size() - at) {
      return InvalidArgument("pieces: the entry of number %d is wrong", i);
    }
    const auto message = bytes.subspan(at, entry.length);
    pieces.push_back(
        {static_cast<int32_t>(entry.index), MakePayload(Bytes(message.begin(), message.end()))});
    at += entry.length;
  }
  if (at != bytes.size()) return InvalidArgument("pieces: %d bytes too many", bytes.size() - at);
  return pieces;
}

}  // namespace skerry
