#include "common/tree_digest.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "common/digests.h"

namespace skerry {
namespace {

// As many pieces as the widest vectors have lanes; they stay in the cache of a core.
constexpr size_t kGroupBytes = kDigestLanesMax * kTreePieceBytes;

}  // namespace

void TreeDigestStream::AddPieces(std::span<const uint8_t> bytes) {
  std::vector<std::span<const uint8_t>> pieces;
  for (size_t at = 0; at < bytes.size(); at += kTreePieceBytes) {
    pieces.push_back(bytes.subspan(at, std::min(kTreePieceBytes, bytes.size() - at)));
  }
  for (const Digest& digest : DigestsOf(pieces)) root_.Add(digest.bytes);
}

void TreeDigestStream::Add(std::span<const uint8_t> bytes) {
  length_ += bytes.size();
  while (!bytes.empty()) {
    if (pending_.empty() && bytes.size() >= kGroupBytes) {
      AddPieces(bytes.first(kGroupBytes));
      bytes = bytes.subspan(kGroupBytes);
      continue;
    }
    pending_.reserve(kGroupBytes);
    const auto part = bytes.first(std::min(kGroupBytes - pending_.size(), bytes.size()));
    pending_.insert(pending_.end(), part.begin(), part.end());
    bytes = bytes.subspan(part.size());
    if (pending_.size() < kGroupBytes) return;
    AddPieces(pending_);
    pending_.clear();
  }
}

Digest TreeDigestStream::Finish() {
  AddPieces(pending_);
  uint8_t length[sizeof(length_)];
  std::memcpy(length, &length_, sizeof(length_));
  root_.Add(length);
  return root_.Finish();
}

Digest TreeDigestOf(std::span<const uint8_t> bytes) {
  TreeDigestStream stream;
  stream.Add(bytes);
  return stream.Finish();
}

}  // namespace skerry
