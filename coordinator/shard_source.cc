#include "coordinator/shard_source.h"

#include <algorithm>
#include <filesystem>

#include "common/status.h"
#include "model/token_dataset.h"

namespace skerry {

absl::StatusOr<std::unique_ptr<ShardSource>> ShardSource::Open(const std::string& directory,
                                                               const RunConfig& config) {
  if (!std::filesystem::exists(directory + "/" + kDatasetIndexFile)) {
    return NotFound(
        "%s: no training data is there; make it: skerry-coordinator data prepare TEXT --out %s "
        "[SK-config-file]",
        directory, directory);
  }
  SKERRY_ASSIGN_OR_RETURN(const auto data, TokenDataset::Open(directory, Verify::kSizes));
  SKERRY_RETURN_IF_ERROR(data->CheckFits(config));
  auto source = std::make_unique<ShardSource>();
  SKERRY_ASSIGN_OR_RETURN(const auto files, ListDatasetFiles(directory));
  for (const DatasetFile& file : files) {
    SKERRY_ASSIGN_OR_RETURN(source->files_["shard/" + file.file],
                            MappedFile::Open(directory + "/" + file.file));
    source->names_.push_back({file.file, file.digest, file.bytes});
  }
  return source;
}

ObjectChunk ShardSource::Read(const ObjectRequest& request) {
  const auto it = files_.find(request.object);
  if (it == files_.end()) return {request.object, request.offset, -1, nullptr};
  const auto bytes = it->second->bytes();
  const auto total = static_cast<int64_t>(bytes.size());
  const int64_t begin = std::min(request.offset, total);
  const int64_t length = std::min(request.length, total - begin);
  const auto part = bytes.subspan(static_cast<size_t>(begin), static_cast<size_t>(length));
  return {request.object, request.offset, total, MakePayload(Bytes(part.begin(), part.end()))};
}

}  // namespace skerry
