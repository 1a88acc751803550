#include "model/token_shard.h"

#include <cstring>

#include "common/check.h"
#include "common/status.h"
#include "model/token_bytes.h"

namespace skerry {
namespace {

constexpr char kMagic[] = "SKRYTOKS";  // 8 characters
constexpr size_t kMagicBytes = 8;
constexpr uint32_t kVersion = 1;

template <typename T>
void Put(Bytes& bytes, size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof(T));
}

template <typename T>
T Get(std::span<const uint8_t> bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

}  // namespace

const char* SplitName(Split split) {
  return split == Split::kTrain ? "train" : "validation";
}

Bytes EncodeShardHeader(const ShardHeader& header) {
  Bytes bytes(kShardHeaderBytes);
  std::memcpy(bytes.data(), kMagic, kMagicBytes);
  Put(bytes, 8, kVersion);
  Put(bytes, 12, static_cast<uint32_t>(header.token_bytes));
  Put(bytes, 16, static_cast<uint64_t>(header.tokens));
  Put(bytes, 24, static_cast<uint32_t>(header.split));
  Put(bytes, 28, static_cast<uint32_t>(header.ordinal));
  return bytes;
}

absl::StatusOr<ShardHeader> DecodeShardHeader(std::span<const uint8_t> file) {
  if (static_cast<int64_t>(file.size()) < kShardHeaderBytes) {
    return InvalidArgument("truncated: %d bytes, a token shard has at least %d", file.size(),
                           kShardHeaderBytes);
  }
  if (std::memcmp(file.data(), kMagic, kMagicBytes) != 0) return InvalidArgument("no token shard");
  const auto version = Get<uint32_t>(file, 8);
  if (version != kVersion) {
    return InvalidArgument("token shard version %d, this program knows %d", version, kVersion);
  }
  const auto token_bytes = Get<uint32_t>(file, 12);
  if (token_bytes != 1 && token_bytes != 2 && token_bytes != 4) {
    return InvalidArgument("tokens of %d bytes, want 1, 2 or 4", token_bytes);
  }
  const auto tokens = Get<uint64_t>(file, 16);
  const uint64_t data_bytes = file.size() - static_cast<uint64_t>(kShardHeaderBytes);
  if (tokens > data_bytes / token_bytes || tokens * token_bytes != data_bytes) {
    return InvalidArgument("truncated or overlong: %d tokens of %d bytes in %d bytes of data",
                           tokens, token_bytes, data_bytes);
  }
  const auto split = Get<uint32_t>(file, 24);
  const auto ordinal = Get<uint32_t>(file, 28);
  if (split > 1 || ordinal > 0x7fffffff) return InvalidArgument("split %d is unknown", split);
  for (int64_t i = 32; i < kShardHeaderBytes; ++i) {
    if (file[static_cast<size_t>(i)] != 0) return InvalidArgument("its header is damaged");
  }
  return ShardHeader{static_cast<int32_t>(token_bytes), static_cast<int64_t>(tokens),
                     static_cast<Split>(split), static_cast<int32_t>(ordinal)};
}

absl::StatusOr<TokenShard> TokenShard::Open(const std::string& path) {
  TokenShard shard;
  SKERRY_ASSIGN_OR_RETURN(shard.file_, MappedFile::Open(path));
  const auto header = DecodeShardHeader(shard.file_->bytes());
  if (!header.ok()) return Annotate(header.status(), path);
  shard.header_ = *header;
  return shard;
}

void TokenShard::Read(int64_t first, std::span<int32_t> out) const {
  SKERRY_CHECK(first >= 0 && first + static_cast<int64_t>(out.size()) <= header_.tokens);
  const uint8_t* from = file_->bytes().data() + kShardHeaderBytes + first * header_.token_bytes;
  DecodeTokens(from, header_.token_bytes, out);
}

}  // namespace skerry
