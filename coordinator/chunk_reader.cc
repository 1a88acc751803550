#include "coordinator/chunk_reader.h"

#include <algorithm>

#include "common/digests.h"
#include "common/parallel.h"
#include "common/status.h"
#include "coordinator/checkpoint_archive.h"

namespace skerry {

std::string ChunkPath(const Digest& digest) {
  return "chunks/" + digest.Hex();
}

void ChunkGroup::Read(CheckpointFiles& files, std::span<const Digest> digests) {
  if (digests.size() > 1) {
    for (const Digest& digest : digests) files.WillRead(ChunkPath(digest));
  }
  for (size_t i = 0; i < digests.size(); ++i) {
    const std::string path = ChunkPath(digests[i]);
    const auto size = std::clamp<int64_t>(files.SizeOf(path), 0, kCheckpointChunkBytes + 1);
    if (std::ssize(memory_[i]) < size) memory_[i].resize(static_cast<size_t>(size));
    const auto read = files.ReadInto(path, std::span(memory_[i]).first(static_cast<size_t>(size)));
    faults_[i] = read.ok() ? ChunkFault::kNone : ChunkFault::kMissing;
    parts_[i] = std::span(memory_[i]).first(read.ok() ? static_cast<size_t>(*read) : 0);
  }
  const std::vector<Digest> found = DigestsOf(std::span(parts_).first(digests.size()));
  for (size_t i = 0; i < digests.size(); ++i) {
    if (faults_[i] == ChunkFault::kNone && found[i] != digests[i]) {
      faults_[i] = ChunkFault::kDamaged;
    }
  }
}

std::vector<ChunkFault> FaultsOf(CheckpointFiles& files, std::span<const Digest> digests) {
  std::vector<ChunkFault> faults(digests.size());
  const size_t groups = (digests.size() + kChunksTogether - 1) / kChunksTogether;
  // As many memories as threads, each taken from group to group.
  const size_t members = std::min(groups, kReadersMax);
  InParallel(members, kReadersMax, [&](size_t member) {
    ChunkGroup group;
    for (size_t g = member; g < groups; g += members) {
      const size_t first = g * kChunksTogether;
      const auto some = digests.subspan(first, std::min(kChunksTogether, digests.size() - first));
      group.Read(files, some);
      for (size_t i = 0; i < some.size(); ++i) faults[first + i] = group.fault(i);
    }
  });
  return faults;
}

std::string FaultText(const Checkpoint& checkpoint, size_t stage, size_t chunk, ChunkFault fault) {
  return absl::StrFormat("checkpoint %d: %s is %s", checkpoint.generation,
                         DescribeChunk(checkpoint, stage, chunk),
                         fault == ChunkFault::kMissing ? "missing" : "damaged");
}

absl::StatusOr<std::span<const uint8_t>> ChunkReader::Get(size_t stage, size_t chunk,
                                                          size_t together) {
  if (stage != stage_ || chunk < first_ || chunk >= first_ + count_) {
    const auto behind = std::span(checkpoint_.stages[stage].chunks).subspan(chunk);
    count_ = std::min(together, behind.size());
    stage_ = stage;
    first_ = chunk;
    group_.Read(files_, behind.first(count_));
    const auto next = behind.subspan(count_);
    if (together > 1) {
      for (size_t i = 0; i < std::min(together, next.size()); ++i) {
        files_.WillRead(ChunkPath(next[i]));
      }
    }
  }
  const size_t i = chunk - first_;
  if (group_.fault(i) == ChunkFault::kNone) return group_.bytes(i);
  return DataLoss("%s", FaultText(checkpoint_, stage, chunk, group_.fault(i)));
}

}  // namespace skerry
