#include "node/shard_directory.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>
#include <vector>

#include "common/digest.h"
#include "common/status.h"
#include "model/dataset_address.h"
#include "model/file_io.h"
#include "model/token_dataset.h"
#include "node/shard_fetcher.h"

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
  if (shard.file == kDatasetIndexFile) {
    // Kept last: who ends in the middle of this begins with it again.
    SKERRY_RETURN_IF_ERROR(Expect(shard, {bytes.begin(), bytes.end()}));
  }
  return Keep(shard, bytes);
}

Payload ShardDirectory::Read(const ShardName& shard, int64_t offset, int64_t length) {
  const auto file = PartlyReadFile::Open(ObjectPath(shard));
  Bytes bytes(static_cast<size_t>(length));
  if (!file.ok() || !(*file)->Read(offset, bytes).ok()) return nullptr;
  return MakePayload(std::move(bytes));
}

absl::Status ShardDirectory::Expect(const ShardName& index_file, const std::string& text) {
  const auto index = ParseDatasetIndex(text);
  if (!index.ok()) return absl::OkStatus();  // Open says what is wrong with it
  std::set<std::string> keeps = {index_file.digest.Hex()};
  int64_t bytes = index_file.bytes;
  for (const IndexedShard& shard : index->shards) {
    keeps.insert(shard.file.digest.Hex());
    if (!Has({shard.file.file, shard.file.digest, shard.file.bytes})) bytes += shard.file.bytes;
  }
  MakeRoom(index_file.digest.Hex(), keeps, bytes);
  const std::string base = BaseAddressOf(text);
  if (!options_.fetch || base.empty()) return absl::OkStatus();
  return FetchFrom(base, *index);
}

absl::Status ShardDirectory::Keep(const ShardName& shard, const Bytes& bytes) {
  std::error_code error;
  fs::create_directories(fs::path(root_) / "objects", error);
  if (error) return Unavailable("%s: %s [SK-disk-write]", root_, error.message());
  return WriteFileAtomically(ObjectPath(shard),
                             {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

void ShardDirectory::Say(const std::string& line) const {
  if (options_.say) options_.say(line);
}

absl::Status ShardDirectory::FetchFrom(const std::string& base, const DatasetIndex& index) {
  constexpr int kFailuresMax = 2;
  int failures = 0;
  int64_t fetched = 0;
  for (const IndexedShard& indexed : index.shards) {
    const ShardName shard{indexed.file.file, indexed.file.digest, indexed.file.bytes};
    if (shard.bytes > ShardFetcher::kShardBytesMax || Has(shard)) continue;
    auto bytes = options_.fetch(base + "/" + shard.file, shard.bytes);
    absl::Status kept = bytes.status();
    if (kept.ok() && DigestOf(*bytes) != shard.digest) {
      kept = DataLoss("%s/%s: its digest is not that of the run's data [SK-data-damaged]", base,
                      shard.file);
    }
    if (kept.ok()) kept = Keep(shard, *bytes);
    fetched += kept.ok();
    if (kept.ok()) continue;
    if (absl::IsAborted(kept)) return kept;
    Say(ErrorText(kept) + "; the coordinator has it, too");
    if (++failures == kFailuresMax) break;
  }
  if (fetched > 0) Say(absl::StrFormat("%d files of training data came from %s", fetched, base));
  return absl::OkStatus();
}

void ShardDirectory::MakeRoom(const std::string& current, const std::set<std::string>& keeps,
                              int64_t bytes) const {
  std::error_code error;
  int64_t held = bytes;
  std::vector<fs::path> objects;
  for (const auto& entry : fs::directory_iterator(fs::path(root_) / "objects", error)) {
    objects.push_back(entry.path());
    held += static_cast<int64_t>(entry.file_size(error));
  }
  std::vector<std::pair<fs::file_time_type, fs::path>> sets;
  for (const auto& entry : fs::directory_iterator(fs::path(root_) / "sets", error)) {
    if (entry.path().filename() != current) {
      sets.push_back({entry.last_write_time(error), entry.path()});
    }
  }
  std::sort(sets.begin(), sets.end());
  const auto drop_unused = [&] {
    std::erase_if(objects, [&](const fs::path& object) {
      if (keeps.contains(object.filename()) || fs::hard_link_count(object, error) != 1)
        return false;
      held -= static_cast<int64_t>(fs::file_size(object, error));
      return fs::remove(object, error);
    });
  };
  for (size_t i = 0; held > options_.bytes_max && i <= sets.size(); ++i) {
    drop_unused();
    if (held > options_.bytes_max && i < sets.size()) fs::remove_all(sets[i].second, error);
  }
}

absl::StatusOr<std::unique_ptr<TokenSource>> ShardDirectory::Open(
    const RunConfig& config, const std::vector<ShardName>& shards) {
  Digest set;
  std::set<std::string> keeps;
  for (const ShardName& shard : shards) {
    if (!IsPlainName(shard.file))
      return InvalidArgument("shard name '%s' is no plain name", shard.file);
    keeps.insert(shard.digest.Hex());
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
  // Its time of change is that of its last use.
  SKERRY_RETURN_IF_ERROR(WriteFileAtomically((directory / ".used").string(), ""));
  MakeRoom(set.Hex(), keeps, 0);
  return OpenTokenSource(config, directory.string());
}

}  // namespace skerry
