#include "coordinator/stage_writer.h"

#include <algorithm>
#include <utility>

#include "common/digests.h"
#include "common/status.h"

namespace skerry {

absl::Status StageWriter::Add(std::span<const uint8_t> bytes) {
  digest_.Add(bytes);
  return Append(bytes);
}

absl::Status StageWriter::Finish(CheckpointStage* stage) {
  const Digest sum = digest_.Finish();
  SKERRY_RETURN_IF_ERROR(Append(sum.bytes));
  SKERRY_RETURN_IF_ERROR(PutFilled());
  stage->bytes = bytes_;
  stage->chunks = std::move(chunks_);
  return absl::OkStatus();
}

absl::Status StageWriter::Append(std::span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    if (filled_.empty() || std::ssize(filled_.back()) == kCheckpointChunkBytes) {
      if (filled_.size() == kChunksTogether) SKERRY_RETURN_IF_ERROR(PutFilled());
      filled_.emplace_back().reserve(static_cast<size_t>(kCheckpointChunkBytes));
    }
    Bytes& chunk = filled_.back();
    const size_t room = static_cast<size_t>(kCheckpointChunkBytes) - chunk.size();
    const auto part = bytes.first(std::min(room, bytes.size()));
    chunk.insert(chunk.end(), part.begin(), part.end());
    bytes = bytes.subspan(part.size());
    bytes_ += std::ssize(part);
  }
  return absl::OkStatus();
}

absl::Status StageWriter::PutFilled() {
  const std::vector<Digest> digests =
      DigestsOf(std::vector<std::span<const uint8_t>>(filled_.begin(), filled_.end()));
  std::vector<NamedChunk> named;
  for (size_t i = 0; i < digests.size(); ++i) {
    named.push_back({digests[i], MakePayload(std::move(filled_[i]))});
  }
  filled_.clear();
  chunks_.insert(chunks_.end(), digests.begin(), digests.end());
  return archive_.PutVerified(named);
}

}  // namespace skerry
