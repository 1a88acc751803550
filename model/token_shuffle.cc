#include "model/token_shuffle.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <utility>

#include "common/check.h"
#include "common/rng.h"
#include "common/status.h"
#include "model/appended_file.h"
#include "model/file_io.h"
#include "model/token_bytes.h"

namespace skerry {
namespace {

namespace fs = std::filesystem;

constexpr size_t kPendingBytesMax = 64 << 10;
constexpr size_t kHeaderBytes = 16;

// A record: key, tokens · 2 + (1 of validation), then the tokens; little-endian.
struct RecordHeader {
  uint64_t key = 0, tokens_and_split = 0;
  size_t tokens() const { return static_cast<size_t>(tokens_and_split >> 1); }
  Split split() const { return static_cast<Split>(tokens_and_split & 1); }
};

int BucketOf(uint64_t key, int depth) {
  return static_cast<int>(key >> (56 - 8 * depth) & 0xff);
}

// `visit(header, record)` for each record of a file that this program wrote.
template <typename Visit>
absl::Status ForEach(std::span<const uint8_t> file, int32_t token_bytes, const Visit& visit) {
  while (!file.empty()) {
    RecordHeader header;
    if (file.size() >= kHeaderBytes) std::memcpy(&header, file.data(), kHeaderBytes);
    const size_t room =
        (file.size() - std::min(file.size(), kHeaderBytes)) / static_cast<size_t>(token_bytes);
    if (file.size() < kHeaderBytes || header.tokens() > room) {
      return DataLoss("the shuffled texts on the disk are damaged; begin again");
    }
    const size_t length = kHeaderBytes + header.tokens() * static_cast<size_t>(token_bytes);
    SKERRY_RETURN_IF_ERROR(visit(header, file.first(length)));
    file = file.subspan(length);
  }
  return absl::OkStatus();
}

}  // namespace

TokenShuffle::TokenShuffle(std::string directory, uint64_t seed, int32_t token_bytes,
                           int64_t bucket_bytes_max)
    : directory_(std::move(directory)),
      seed_(seed),
      token_bytes_(token_bytes),
      bucket_bytes_max_(bucket_bytes_max) {
  static_assert(sizeof(RecordHeader) == kHeaderBytes);
}

std::string TokenShuffle::PathOf(int bucket) const {
  return directory_ + "/" + std::to_string(bucket);
}

absl::Status TokenShuffle::Add(const TokenUnit& unit) {
  const uint64_t key = Rng(seed_, "shuffle", static_cast<uint64_t>(units_++)).Next();
  const auto bucket = static_cast<size_t>(BucketOf(key, 0));
  const RecordHeader header{key, unit.tokens.size() << 1 | static_cast<uint64_t>(unit.split)};
  Bytes& pending = pending_[bucket];
  const auto* bytes = reinterpret_cast<const uint8_t*>(&header);
  pending.insert(pending.end(), bytes, bytes + kHeaderBytes);
  AppendEncoded(unit.tokens, token_bytes_, pending);
  if (pending.size() < kPendingBytesMax) return absl::OkStatus();
  if (lengths_[bucket] == 0) SKERRY_RETURN_IF_ERROR(MakeDirectory(directory_));
  lengths_[bucket] += static_cast<int64_t>(pending.size());
  is_dirty_[bucket] = true;
  SKERRY_RETURN_IF_ERROR(AppendToFile(PathOf(static_cast<int>(bucket)), pending, Durable::kNo));
  pending.clear();
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int64_t>> TokenShuffle::Flush() {
  SKERRY_RETURN_IF_ERROR(MakeDirectory(directory_));
  for (size_t bucket = 0; bucket < kBuckets; ++bucket) {
    Bytes& pending = pending_[bucket];
    if (pending.empty() && !is_dirty_[bucket]) continue;
    lengths_[bucket] += static_cast<int64_t>(pending.size());
    SKERRY_RETURN_IF_ERROR(AppendToFile(PathOf(static_cast<int>(bucket)), pending, Durable::kYes));
    pending.clear();
    is_dirty_[bucket] = false;
  }
  return std::vector<int64_t>(lengths_.begin(), lengths_.end());
}

absl::Status TokenShuffle::GoTo(int64_t units, const std::vector<int64_t>& lengths) {
  if (lengths.size() != kBuckets || units < 0) return DataLoss("no state of a shuffle");
  units_ = units;
  for (int bucket = 0; bucket < kBuckets; ++bucket) {
    const auto at = static_cast<size_t>(bucket);
    const std::string path = PathOf(bucket);
    std::error_code error;
    const auto size = fs::file_size(path, error);
    const int64_t found = error ? 0 : static_cast<int64_t>(size);
    if (found < lengths[at]) {
      return DataLoss("%s: %d bytes, there were %d; begin again", path, found, lengths[at]);
    }
    lengths_[at] = lengths[at];
    if (found > lengths[at]) fs::resize_file(path, static_cast<uintmax_t>(lengths[at]), error);
    if (error && found > 0) return Unavailable("%s: %s [SK-disk-write]", path, error.message());
  }
  return absl::OkStatus();
}

absl::Status TokenShuffle::Emit(int bucket, const TakeTokens& take) const {
  if (lengths_[static_cast<size_t>(bucket)] == 0) return absl::OkStatus();
  return EmitFile(PathOf(bucket), 1, take);
}

absl::Status TokenShuffle::EmitFile(const std::string& path, int depth,
                                    const TakeTokens& take) const {
  SKERRY_ASSIGN_OR_RETURN(const auto map, MappedFile::Open(path));
  constexpr int kDepthMax = 8;  // bytes of a key
  if (static_cast<int64_t>(map->bytes().size()) <= bucket_bytes_max_ || depth == kDepthMax) {
    return EmitSorted(map->bytes(), take);
  }
  const auto part = [&path](int bucket) { return path + "." + std::to_string(bucket); };
  std::error_code ignored;
  for (int bucket = 0; bucket < kBuckets; ++bucket) fs::remove(part(bucket), ignored);
  std::vector<Bytes> pending(kBuckets);
  const auto write = [&](int bucket) {
    Bytes& bytes = pending[static_cast<size_t>(bucket)];
    const absl::Status written = AppendToFile(part(bucket), bytes, Durable::kNo);
    bytes.clear();
    return written;
  };
  SKERRY_RETURN_IF_ERROR(
      ForEach(map->bytes(), token_bytes_,
              [&](const RecordHeader& header, std::span<const uint8_t> record) -> absl::Status {
                const int bucket = BucketOf(header.key, depth);
                Bytes& bytes = pending[static_cast<size_t>(bucket)];
                bytes.insert(bytes.end(), record.begin(), record.end());
                return bytes.size() < kPendingBytesMax ? absl::OkStatus() : write(bucket);
              }));
  for (int bucket = 0; bucket < kBuckets; ++bucket) {
    SKERRY_RETURN_IF_ERROR(write(bucket));
    SKERRY_RETURN_IF_ERROR(EmitFile(part(bucket), depth + 1, take));
    fs::remove(part(bucket), ignored);
  }
  return absl::OkStatus();
}

absl::Status TokenShuffle::EmitSorted(std::span<const uint8_t> file, const TakeTokens& take) const {
  std::vector<std::pair<RecordHeader, const uint8_t*>> records;
  SKERRY_RETURN_IF_ERROR(
      ForEach(file, token_bytes_, [&](const RecordHeader& header, std::span<const uint8_t> record) {
        records.push_back({header, record.data() + kHeaderBytes});
        return absl::OkStatus();
      }));
  // Stable: the files hold them in the order in which they came.
  std::stable_sort(records.begin(), records.end(),
                   [](const auto& a, const auto& b) { return a.first.key < b.first.key; });
  std::vector<int32_t> tokens;
  for (const auto& [header, encoded] : records) {
    tokens.resize(header.tokens());
    DecodeTokens(encoded, token_bytes_, tokens);
    SKERRY_RETURN_IF_ERROR(take(header.split(), tokens));
  }
  return absl::OkStatus();
}

void TokenShuffle::Remove(int bucket) const {
  std::error_code ignored;
  fs::remove(PathOf(bucket), ignored);
}

void TokenShuffle::RemoveAll() const {
  std::error_code ignored;
  fs::remove_all(directory_, ignored);
}

}  // namespace skerry
