// Puts units of tokens into an order by chance, however many there are, with bounded memory: each
// gets a key of 64 bits, a pure function of a seed and of how many came before, and they come out
// by key. On the way they lie in 256 files by the first byte of the key, and what of them is too
// long for the memory in 256 more by the next; so the order does not depend on the memory.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/bytes.h"
#include "model/unit_source.h"

namespace skerry {

// One thread owns it.
class TokenShuffle {
 public:
  static constexpr int kBuckets = 256;
  static constexpr int64_t kBucketBytesMaxDefault = 256 << 20;  // mapped at a time

  // Files go into `directory`, which is made.
  TokenShuffle(std::string directory, uint64_t seed, int32_t token_bytes,
               int64_t bucket_bytes_max = kBucketBytesMaxDefault);

  absl::Status Add(const TokenUnit& unit);
  int64_t units() const { return units_; }

  // Makes durable what was added; the lengths of the files.
  absl::StatusOr<std::vector<int64_t>> Flush();
  // Goes back to what Flush said, in another process. DataLoss if the files are shorter.
  absl::Status GoTo(int64_t units, const std::vector<int64_t>& lengths);

  // The units of a bucket in order, bucket after bucket; after Flush.
  using TakeTokens = std::function<absl::Status(Split split, std::span<const int32_t> tokens)>;
  absl::Status Emit(int bucket, const TakeTokens& take) const;
  void Remove(int bucket) const;
  void RemoveAll() const;

 private:
  std::string PathOf(int bucket) const;
  absl::Status EmitFile(const std::string& path, int depth, const TakeTokens& take) const;
  absl::Status EmitSorted(std::span<const uint8_t> file, const TakeTokens& take) const;

  std::string directory_;
  uint64_t seed_;
  int32_t token_bytes_;
  int64_t bucket_bytes_max_;
  int64_t units_ = 0;
  std::array<Bytes, kBuckets> pending_;
  std::array<int64_t, kBuckets> lengths_ = {};
  std::array<bool, kBuckets> is_dirty_ = {};
};

}  // namespace skerry
