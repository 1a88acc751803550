// Chunks of checkpoints, read and verified several at a time: the digests of some are hardly more
// work than that of one (common/digests.h).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/checkpoint_files.h"
#include "coordinator/checkpoint_store.h"

namespace skerry {

inline constexpr size_t kReadersMax = 4;  // threads, each with so much memory

enum class ChunkFault : uint8_t { kNone, kMissing, kDamaged };

std::string ChunkPath(const Digest& digest);

// Up to kChunksTogether chunks, in memory that is used again. One thread owns it.
class ChunkGroup {
 public:
  void Read(CheckpointFiles& files, std::span<const Digest> digests);
  ChunkFault fault(size_t i) const { return faults_[i]; }
  std::span<const uint8_t> bytes(size_t i) const { return parts_[i]; }

 private:
  Bytes memory_;
  std::array<std::span<const uint8_t>, kChunksTogether> parts_;
  std::array<ChunkFault, kChunksTogether> faults_{};
};

// DigestsOf on up to so many threads, each as many as the processor has lanes for.
std::vector<Digest> DigestsOnThreads(std::span<const std::span<const uint8_t>> inputs,
                                     size_t threads);

// Reads every byte of them, on several threads.
std::vector<ChunkFault> FaultsOf(CheckpointFiles& files, std::span<const Digest> digests);

// "checkpoint 3: chunk 3 of stage 1 (…) is damaged".
std::string FaultText(const Checkpoint& checkpoint, size_t stage, size_t chunk, ChunkFault fault);

// Chunks of one generation in the order in which its states hold them. Both arguments outlive it;
// one thread owns it.
class ChunkReader {
 public:
  ChunkReader(CheckpointFiles& files, const Checkpoint& checkpoint)
      : files_(files), checkpoint_(checkpoint) {}

  // Verified; valid until the next call. `together`: it and those behind it that are read along.
  // DataLoss names the chunk.
  absl::StatusOr<std::span<const uint8_t>> Get(size_t stage, size_t chunk,
                                               size_t together = kChunksTogether);

 private:
  CheckpointFiles& files_;
  const Checkpoint& checkpoint_;
  ChunkGroup group_;
  size_t stage_ = 0, first_ = 0, count_ = 0;  // what is in `group_`
};

}  // namespace skerry
