#include "model/token_dataset_writer.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "common/check.h"
#include "common/digest.h"
#include "common/status.h"
#include "model/token_bytes.h"

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

absl::StatusOr<std::unique_ptr<TokenDatasetWriter>> TokenDatasetWriter::Resume(
    const std::string& directory, int64_t shard_tokens, Standing standing) {
  const DatasetIndex& index = standing.index;
  SKERRY_ASSIGN_OR_RETURN(auto writer,
                          Create(directory, index.vocab, shard_tokens, index.tokenizer));
  for (const IndexedShard& shard : index.shards) {
    const std::string path = directory + "/" + shard.file.file;
    struct stat facts {};
    if (stat(path.c_str(), &facts) != 0 || facts.st_size != shard.file.bytes) {
      return DataLoss("%s: is not as it was written; remove %s and begin again [SK-data-damaged]",
                      path, directory);
    }
    ++writer->open_[static_cast<size_t>(shard.split)].ordinal;
  }
  for (size_t split = 0; split < 2; ++split) {
    const auto held = static_cast<int64_t>(standing.open[split].size());
    if (held % index.token_bytes != 0 || held / index.token_bytes >= shard_tokens) {
      return DataLoss("%s: a shard of %d bytes was under way; remove it and begin again", directory,
                      held);
    }
    writer->open_[split].tokens = std::move(standing.open[split]);
  }
  writer->index_ = std::move(standing.index);
  return writer;
}

absl::Status TokenDatasetWriter::Append(Split split, std::span<const int32_t> tokens) {
  const auto outside = std::find_if(tokens.begin(), tokens.end(), [this](int32_t token) {
    return token < 0 || token >= index_.vocab;
  });
  if (outside != tokens.end()) {
    return InvalidArgument("token %d is outside the vocabulary of %d", *outside, index_.vocab);
  }
  Bytes& open = open_[static_cast<size_t>(split)].tokens;
  while (!tokens.empty()) {
    const int64_t held = static_cast<int64_t>(open.size()) / index_.token_bytes;
    const auto fits = static_cast<size_t>(shard_tokens_ - held);
    AppendEncoded(tokens.first(std::min(fits, tokens.size())), index_.token_bytes, open);
    if (fits > tokens.size()) return absl::OkStatus();
    tokens = tokens.subspan(fits);
    SKERRY_RETURN_IF_ERROR(CloseShard(split));
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
