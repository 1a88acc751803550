#include "model/token_dataset_writer.h"

#include <unistd.h>

#include <algorithm>

#include "common/check.h"
#include "common/digest.h"
#include "common/status.h"

namespace skerry {

TokenDatasetWriter::TokenDatasetWriter(std::string directory, int32_t vocab, int64_t shard_tokens)
    : directory_(std::move(directory)), shard_tokens_(shard_tokens) {
  index_.vocab = vocab;
  index_.token_bytes = vocab <= 256 ? 1 : vocab <= 65536 ? 2 : 4;
}

absl::StatusOr<std::unique_ptr<TokenDatasetWriter>> TokenDatasetWriter::Create(
    const std::string& directory, int32_t vocab, int64_t shard_tokens,
    const std::string& tokenizer) {
  SKERRY_CHECK(vocab >= 1 && vocab <= (1 << 24) && shard_tokens >= 1);
  SKERRY_RETURN_IF_ERROR(MakeDirectory(directory));
  const std::string index = directory + "/" + kDatasetIndexFile;
  if (access(index.c_str(), F_OK) == 0) {
    return AlreadyExists(
        "%s: there is a data set here; remove it or choose another directory [SK-data-exists]",
        index);
  }
  std::unique_ptr<TokenDatasetWriter> writer(
      new TokenDatasetWriter(directory, vocab, shard_tokens));
  writer->index_.tokenizer = tokenizer;
  return writer;
}

absl::Status TokenDatasetWriter::Append(Split split, std::span<const int32_t> tokens) {
  OpenShard& shard = open_[static_cast<size_t>(split)];
  const int64_t full_bytes = shard_tokens_ * index_.token_bytes;
  for (const int32_t token : tokens) {
    if (token < 0 || token >= index_.vocab) {
      return InvalidArgument("token %d is outside the vocabulary of %d", token, index_.vocab);
    }
    for (int32_t byte = 0; byte < index_.token_bytes; ++byte) {
      shard.tokens.push_back(static_cast<uint8_t>(token >> (8 * byte)));
    }
    if (static_cast<int64_t>(shard.tokens.size()) == full_bytes) {
      SKERRY_RETURN_IF_ERROR(CloseShard(split));
    }
  }
  return absl::OkStatus();
}

absl::Status TokenDatasetWriter::CloseShard(Split split) {
  OpenShard& open = open_[static_cast<size_t>(split)];
  IndexedShard shard;
  shard.split = split;
  shard.tokens = static_cast<int64_t>(open.tokens.size()) / index_.token_bytes;
  shard.file.file = absl::StrFormat("%s-%05d.tok", SplitName(split), open.ordinal);
  Bytes bytes = EncodeShardHeader({index_.token_bytes, shard.tokens, split, open.ordinal});
  bytes.insert(bytes.end(), open.tokens.begin(), open.tokens.end());
  shard.file.bytes = static_cast<int64_t>(bytes.size());
  shard.file.digest = DigestOf(bytes);
  SKERRY_ASSIGN_OR_RETURN(const auto file, AtomicFile::Create(directory_ + "/" + shard.file.file));
  SKERRY_RETURN_IF_ERROR(file->Write(bytes));
  SKERRY_RETURN_IF_ERROR(file->Commit());
  index_.shards.push_back(std::move(shard));
  open.tokens.clear();
  ++open.ordinal;
  return absl::OkStatus();
}

absl::Status TokenDatasetWriter::Finish() {
  for (const Split split : {Split::kTrain, Split::kValidation}) {
    if (open_[static_cast<size_t>(split)].tokens.empty()) continue;
    SKERRY_RETURN_IF_ERROR(CloseShard(split));
  }
  std::stable_sort(index_.shards.begin(), index_.shards.end(),
                   [](const auto& a, const auto& b) { return a.split < b.split; });
  return WriteFileAtomically(directory_ + "/" + kDatasetIndexFile, DatasetIndexText(index_));
}

}  // namespace skerry
