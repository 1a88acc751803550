#include "node/shard_directory.h"

#include <filesystem>
#include <fstream>
#include <utility>

#include "common/digest.h"
#include "common/status.h"
#include "model/file_io.h"
#include "model/token_dataset.h"

namespace skerry {
namespace {

namespace fs = std::filesystem;

class DatasetTokens final : public TokenSource {
 public:
  DatasetTokens(RunConfig config, std::unique_ptr<TokenDataset> dataset)
      : config_(std::move(config)), dataset_(std::move(dataset)) {}
  absl::Status Read(int64_t step, int32_t microbatch, std::span<int32_t> tokens,
                    std::span<int32_t> targets) override {
    return dataset_->ReadMicrobatch(config_, step, microbatch, tokens, targets);
  }

 private:
  RunConfig config_;
  std::unique_ptr<TokenDataset> dataset_;
};

bool IsPlainName(const std::string& file) {
  return !file.empty() && file[0] != '.' && file.find('/') == std::string::npos;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TokenSource>> OpenTokenSource(const RunConfig& config,
                                                             const std::string& directory) {
  SKERRY_ASSIGN_OR_RETURN(auto dataset, TokenDataset::Open(directory, Verify::kSizes));
  return std::make_unique<DatasetTokens>(config, std::move(dataset));
}

std::string ShardDirectory::ObjectPath(const ShardName& shard) const {
  return (fs::path(root_) / "objects" / shard.digest.Hex()).string();
}

bool ShardDirectory::Has(const ShardName& shard) {
  std::error_code error;
  const auto size = fs::file_size(ObjectPath(shard), error);
  return !error && static_cast<int64_t>(size) == shard.bytes;
}

absl::Status ShardDirectory::Put(const ShardName& shard, const Bytes& bytes) {
  if (DigestOf(bytes) != shard.digest) {
    return DataLoss("shard %s: its digest is not the announced one [SK-data-damaged]", shard.file);
  }
  std::error_code error;
  fs::create_directories(fs::path(root_) / "objects", error);
  if (error) return Unavailable("%s: %s [SK-disk-write]", root_, error.message());
  return WriteFileAtomically(ObjectPath(shard),
                             {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

absl::StatusOr<std::unique_ptr<TokenSource>> ShardDirectory::Open(
    const RunConfig& config, const std::vector<ShardName>& shards) {
  Digest set;
  for (const ShardName& shard : shards) {
    if (!IsPlainName(shard.file))
      return InvalidArgument("shard name '%s' is no plain name", shard.file);
    if (shard.file == kDatasetIndexFile) set = shard.digest;
  }
  if (set.IsZero()) return InvalidArgument("the run's shards lack %s", kDatasetIndexFile);
  const fs::path directory = fs::path(root_) / "sets" / set.Hex();
  std::error_code error;
  fs::create_directories(directory, error);
  for (const ShardName& shard : shards) {
    if (error) break;
    if (fs::exists(directory / shard.file)) continue;
    fs::create_hard_link(ObjectPath(shard), directory / shard.file, error);
  }
  if (error) return Unavailable("%s: %s [SK-disk-write]", directory.string(), error.message());
  return OpenTokenSource(config, directory.string());
}

}  // namespace skerry
