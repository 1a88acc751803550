// One file of tokens. Little-endian:
//
//   0  magic "SKRYTOKS"     12  token bytes u32: 1, 2 or 4   24  split u32: 0 train, 1 validation
//   8  version u32: 1       16  tokens u64                  28  ordinal u32 within its split
//   32 … 63 zero            64  tokens × (uint8 | uint16 | uint32)
//
// A file is exactly 64 + tokens · token_bytes long.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/bytes.h"
#include "model/file_io.h"

namespace skerry {

enum class Split : uint8_t { kTrain, kValidation };
const char* SplitName(Split split);  // "train", "validation"

inline constexpr int64_t kShardHeaderBytes = 64;

struct ShardHeader {
  int32_t token_bytes = 1;
  int64_t tokens = 0;
  Split split = Split::kTrain;
  int32_t ordinal = 0;
  bool operator==(const ShardHeader&) const = default;
};

Bytes EncodeShardHeader(const ShardHeader& header);
// `file` is the whole file; InvalidArgument says what is wrong, without the path.
absl::StatusOr<ShardHeader> DecodeShardHeader(std::span<const uint8_t> file);

// A shard mapped into memory. Any thread may read.
class TokenShard {
 public:
  static absl::StatusOr<TokenShard> Open(const std::string& path);
  const ShardHeader& header() const { return header_; }
  std::span<const uint8_t> file_bytes() const { return file_->bytes(); }
  const std::string& path() const { return file_->path(); }

  // Tokens [first, first + out.size()); the range is within the shard.
  void Read(int64_t first, std::span<int32_t> out) const;

 private:
  TokenShard() = default;
  std::unique_ptr<MappedFile> file_;
  ShardHeader header_;
};

}  // namespace skerry
