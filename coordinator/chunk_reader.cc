#include "coordinator/chunk_reader.h"

#include <algorithm>

#include "common/digests.h"
#include "common/large_memory.h"
#include "common/parallel.h"
#include "common/status.h"
#include "coordinator/checkpoint_archive.h"

namespace skerry {

std::string ChunkPath(const Digest& digest) {
  return "chunks/" + digest.Hex();
}

namespace {

size_t RoundedUp(size_t bytes) {
  return (bytes + kReadAlignment - 1) / kReadAlignment * kReadAlignment;
}

}  // namespace

void ChunkGroup::Read(CheckpointFiles& files, std::span<const Digest> digests) {
  std::array<size_t, kChunksTogether> sizes{};
  size_t all = kReadAlignment;
  for (size_t i = 0; i < digests.size(); ++i) {
    const int64_t size = files.SizeOf(ChunkPath(digests[i]));
    sizes[i] =
        RoundedUp(static_cast<size_t>(std::clamp<int64_t>(size, 0, kCheckpointChunkBytes + 1)));
    all += sizes[i];
  }
  if (memory_.size() < all) memory_ = LargeVector<uint8_t>(all);
  const size_t address = reinterpret_cast<uintptr_t>(memory_.data());
  auto rest = std::span(memory_).subspan(RoundedUp(address) - address);
  for (size_t i = 0; i < digests.size(); ++i) {
    const auto read = files.ReadInto(ChunkPath(digests[i]), rest.first(sizes[i]));
    faults_[i] = read.ok() ? ChunkFault::kNone : ChunkFault::kMissing;
    parts_[i] = rest.first(read.ok() ? static_cast<size_t>(*read) : 0);
    rest = rest.subspan(sizes[i]);
  }
  const std::vector<Digest> found = DigestsOf(std::span(parts_).first(digests.size()));
  for (size_t i = 0; i < digests.size(); ++i) {
    if (faults_[i] == ChunkFault::kNone && found[i] != digests[i]) {
      faults_[i] = ChunkFault::kDamaged;
    }
  }
}

std::vector<Digest> DigestsOnThreads(std::span<const std::span<const uint8_t>> inputs,
                                     size_t threads) {
  const auto lanes = static_cast<size_t>(std::max(RunnableDigestLanes()[0].lanes, 1));
  std::vector<Digest> digests(inputs.size());
  InParallel((inputs.size() + lanes - 1) / lanes, threads, [&](size_t group) {
    const size_t first = group * lanes;
    const auto some = inputs.subspan(first, std::min(lanes, inputs.size() - first));
    std::ranges::copy(DigestsOf(some), digests.begin() + static_cast<ptrdiff_t>(first));
  });
  return digests;
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
    const std::span<const Digest> all = checkpoint_.stages[stage].chunks;
    if (chunk >= all.size()) {
      return DataLoss("checkpoint %d: stage %d is short", checkpoint_.generation, stage);
    }
    const auto behind = all.subspan(chunk);
    count_ = std::min(together, behind.size());
    stage_ = stage;
    first_ = chunk;
    group_.Read(files_, behind.first(count_));
  }
  const size_t i = chunk - first_;
  if (group_.fault(i) == ChunkFault::kNone) return group_.bytes(i);
  return DataLoss("%s", FaultText(checkpoint_, stage, chunk, group_.fault(i)));
}

}  // namespace skerry
