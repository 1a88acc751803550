// The training data that a node keeps, and where it may fetch it from.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "node/home_lock_program.h"
#include "node/shard_directory.h"

namespace skerry {

struct CacheWish {
  std::string directory;  // "": SHARDS in the home
  double gib = 32;        // of the disk for data of earlier runs
};

// A node's cache: a directory of its own, one process at a time.
class ShardCache {
 public:
  // `coordinator`: the endpoints of its ticket. Only where all of them are within a private network
  // may data come from such a one, too: whoever serves a run must not lead volunteers' machines to
  // what only they reach. FailedPrecondition: another node uses the directory.
  static absl::StatusOr<std::unique_ptr<ShardCache>> Open(const CacheWish& wish,
                                                          const std::filesystem::path& home,
                                                          const std::string& coordinator);

  ShardDirectory& shards() { return *shards_; }
  // Any thread. What is being fetched from elsewhere is given up, until Begin.
  void Stop() { stops_ = true; }
  void Begin() { stops_ = false, bytes_ = 0; }
  // Fetched from elsewhere since Begin.
  int64_t bytes() const { return bytes_; }

 private:
  ShardCache() = default;

  std::atomic<bool> stops_ = false;
  std::atomic<int64_t> bytes_ = 0;
  std::unique_ptr<HomeLock> lock_;
  std::unique_ptr<ShardDirectory> shards_;
};

}  // namespace skerry
