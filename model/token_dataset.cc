#include "model/token_dataset.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "common/check.h"
#include "common/digest.h"
#include "common/status.h"
#include "model/sample_order.h"

namespace skerry {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kIndexBytesMax = 64 << 20;
constexpr int64_t kTokensMax = int64_t{1} << 48;
constexpr int32_t kVocabMax = 1 << 24;
constexpr char kFormat[] = "skerry-tokens";

bool IsPlainName(const std::string& name) {
  constexpr size_t kNameMax = 128;
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  return !name.empty() && name.size() <= kNameMax && name[0] != '.' && name != kDatasetIndexFile &&
         std::all_of(name.begin(), name.end(), plain);
}

bool ParseHex(const std::string& text, Digest& digest) {
  const auto nibble = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  };
  if (text.size() != 2 * digest.bytes.size()) return false;
  for (size_t i = 0; i < digest.bytes.size(); ++i) {
    const int high = nibble(text[2 * i]);
    const int low = nibble(text[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    digest.bytes[i] = static_cast<uint8_t>(high << 4 | low);
  }
  return true;
}

std::string TextOf(const Json& json, const char* key) {
  const auto it = json.find(key);
  return it != json.end() && it->is_string() ? it->get<std::string>() : std::string();
}

// −1 if it is no whole number in [0, max].
int64_t CountOf(const Json& json, const char* key, int64_t max) {
  const auto it = json.find(key);
  if (it == json.end() || !it->is_number_unsigned()) return -1;
  const auto value = it->get<uint64_t>();
  return value <= static_cast<uint64_t>(max) ? static_cast<int64_t>(value) : -1;
}

absl::StatusOr<IndexedShard> ParseShard(const Json& json, int32_t token_bytes) {
  IndexedShard shard;
  shard.file.file = json.is_object() ? TextOf(json, "file") : "";
  if (!IsPlainName(shard.file.file)) return InvalidArgument("a shard without a plain file name");
  const std::string split = TextOf(json, "split");
  if (split != "train" && split != "validation") {
    return InvalidArgument("%s: split must be train or validation", shard.file.file);
  }
  shard.split = split == "train" ? Split::kTrain : Split::kValidation;
  shard.tokens = CountOf(json, "tokens", kTokensMax);
  shard.file.bytes = CountOf(json, "bytes", 4 * kTokensMax + kShardHeaderBytes);
  if (shard.tokens < 0 || shard.file.bytes != kShardHeaderBytes + shard.tokens * token_bytes) {
    return InvalidArgument("%s: tokens and bytes do not agree", shard.file.file);
  }
  if (!ParseHex(TextOf(json, "digest"), shard.file.digest)) {
    return InvalidArgument("%s: digest must be 64 hexadecimal digits", shard.file.file);
  }
  return shard;
}

std::string Join(const std::string& directory, const std::string& file) {
  return directory + "/" + file;
}

absl::StatusOr<DatasetIndex> ReadIndex(const std::string& directory) {
  const std::string path = Join(directory, kDatasetIndexFile);
  SKERRY_ASSIGN_OR_RETURN(const std::string text, ReadSmallFile(path, kIndexBytesMax));
  auto index = ParseDatasetIndex(text);
  if (!index.ok()) return Annotate(index.status(), path);
  return index;
}

}  // namespace

std::string DatasetIndexText(const DatasetIndex& index) {
  Json json;
  json["format"] = kFormat;
  json["version"] = 1;
  json["vocab"] = index.vocab;
  json["token_bytes"] = index.token_bytes;
  if (!index.tokenizer.empty()) json["tokenizer"] = index.tokenizer;
  json["shards"] = Json::array();
  for (const IndexedShard& shard : index.shards) {
    json["shards"].push_back({{"file", shard.file.file},
                              {"split", SplitName(shard.split)},
                              {"tokens", shard.tokens},
                              {"bytes", shard.file.bytes},
                              {"digest", shard.file.digest.Hex()}});
  }
  return json.dump(2) + "\n";
}

absl::StatusOr<DatasetIndex> ParseDatasetIndex(const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object() || TextOf(json, "format") != kFormat) {
    return InvalidArgument("not the index of a token data set [SK-data-damaged]");
  }
  if (CountOf(json, "version", 1) != 1) return InvalidArgument("version must be 1");
  DatasetIndex index;
  index.vocab = static_cast<int32_t>(CountOf(json, "vocab", kVocabMax));
  index.token_bytes = static_cast<int32_t>(CountOf(json, "token_bytes", 4));
  if (index.vocab < 1 || index.token_bytes < 1 || index.token_bytes == 3) {
    return InvalidArgument("vocab must be 1 to %d, token_bytes 1, 2 or 4", kVocabMax);
  }
  if (index.token_bytes < 4 && index.vocab > 1 << (8 * index.token_bytes)) {
    return InvalidArgument("a vocabulary of %d does not fit into token_bytes %d", index.vocab,
                           index.token_bytes);
  }
  index.tokenizer = TextOf(json, "tokenizer");
  const auto shards = json.find("shards");
  if (shards == json.end() || !shards->is_array()) return InvalidArgument("shards must be a list");
  std::set<std::string> names;
  for (const Json& entry : *shards) {
    SKERRY_ASSIGN_OR_RETURN(IndexedShard shard, ParseShard(entry, index.token_bytes));
    if (!names.insert(shard.file.file).second) {
      return InvalidArgument("%s: listed twice", shard.file.file);
    }
    index.shards.push_back(std::move(shard));
  }
  return index;
}

absl::StatusOr<std::vector<DatasetFile>> ListDatasetFiles(const std::string& directory) {
  SKERRY_ASSIGN_OR_RETURN(const DatasetIndex index, ReadIndex(directory));
  std::vector<DatasetFile> files;
  for (const IndexedShard& shard : index.shards) files.push_back(shard.file);
  SKERRY_ASSIGN_OR_RETURN(const auto map, MappedFile::Open(Join(directory, kDatasetIndexFile)));
  const int64_t bytes = static_cast<int64_t>(map->bytes().size());
  files.push_back({kDatasetIndexFile, DigestOf(map->bytes()), bytes});
  return files;
}

absl::StatusOr<std::unique_ptr<TokenDataset>> TokenDataset::Open(const std::string& directory,
                                                                 Verify verify) {
  std::unique_ptr<TokenDataset> dataset(new TokenDataset);
  SKERRY_ASSIGN_OR_RETURN(dataset->index_, ReadIndex(directory));
  for (const IndexedShard& shard : dataset->index_.shards) {
    SKERRY_RETURN_IF_ERROR(dataset->AddShard(directory, shard, verify));
  }
  return dataset;
}

absl::Status TokenDataset::AddShard(const std::string& directory, const IndexedShard& indexed,
                                    Verify verify) {
  SKERRY_ASSIGN_OR_RETURN(TokenShard shard, TokenShard::Open(Join(directory, indexed.file.file)));
  Stream& stream = streams_[static_cast<size_t>(indexed.split)];
  const ShardHeader want{index_.token_bytes, indexed.tokens, indexed.split,
                         static_cast<int32_t>(stream.shards.size())};
  if (!(shard.header() == want)) {
    return DataLoss(
        "%s: is another shard than index.json lists; prepare or fetch the data again "
        "[SK-data-damaged]",
        shard.path());
  }
  if (verify == Verify::kDigests && DigestOf(shard.file_bytes()) != indexed.file.digest) {
    return DataLoss(
        "%s: damaged, its digest differs from index.json; prepare or fetch it again "
        "[SK-data-damaged]",
        shard.path());
  }
  stream.begins.push_back(stream.tokens);
  stream.tokens += indexed.tokens;
  stream.shards.push_back(std::move(shard));
  return absl::OkStatus();
}

int64_t TokenDataset::tokens(Split split) const {
  return stream(split).tokens;
}

int64_t TokenDataset::windows(Split split, int32_t context) const {
  SKERRY_CHECK(context >= 1);
  return std::max<int64_t>(0, (tokens(split) - 1) / context);
}

absl::Status TokenDataset::Read(Split split, int64_t first, std::span<int32_t> out) const {
  const Stream& from = stream(split);
  const auto after = std::upper_bound(from.begins.begin(), from.begins.end(), first);
  auto index = static_cast<size_t>(after - from.begins.begin()) - 1;
  while (!out.empty()) {
    const TokenShard& shard = from.shards[index];
    const int64_t at = first - from.begins[index++];
    const auto count =
        std::min<int64_t>(static_cast<int64_t>(out.size()), shard.header().tokens - at);
    const auto part = out.first(static_cast<size_t>(count));
    shard.Read(at, part);
    for (const int32_t token : part) {
      if (token >= index_.vocab) {
        return DataLoss("%s: token %d is outside the vocabulary of %d [SK-data-damaged]",
                        shard.path(), token, index_.vocab);
      }
    }
    out = out.subspan(part.size());
    first += count;
  }
  return absl::OkStatus();
}

absl::Status TokenDataset::CheckFits(const RunConfig& config) const {
  const int64_t available = windows(Split::kTrain, config.model.context);
  if (available >= 1 && vocab() <= config.model.vocab) return absl::OkStatus();
  return FailedPrecondition(
      "the data has %d training windows of %d tokens and a vocabulary of %d; the model wants one "
      "and %d [SK-data-model]",
      available, config.model.context, vocab(), config.model.vocab);
}

absl::Status TokenDataset::ReadWindow(Split split, int64_t window,
                                      std::span<int32_t> tokens) const {
  const auto context = static_cast<int32_t>(tokens.size()) - 1;
  SKERRY_CHECK(window >= 0 && window < windows(split, context));
  return Read(split, window * context, tokens);
}

absl::Status TokenDataset::ReadMicrobatch(const RunConfig& config, int64_t step, int32_t microbatch,
                                          std::span<int32_t> tokens,
                                          std::span<int32_t> targets) const {
  const auto context = static_cast<size_t>(config.model.context);
  const int32_t sequences = config.pipeline.sequences_per_microbatch;
  SKERRY_CHECK(tokens.size() == static_cast<size_t>(sequences) * context);
  SKERRY_CHECK(targets.size() == tokens.size());
  SKERRY_RETURN_IF_ERROR(CheckFits(config));
  const SampleOrder order(config.seed, windows(Split::kTrain, config.model.context),
                          config.pipeline.microbatches_per_step, sequences);
  std::vector<int32_t> window(context + 1);
  for (int32_t s = 0; s < sequences; ++s) {
    SKERRY_RETURN_IF_ERROR(
        ReadWindow(Split::kTrain, order.WindowOf({step, microbatch, s}), window));
    const auto at = static_cast<int64_t>(static_cast<size_t>(s) * context);
    std::copy(window.begin(), window.end() - 1, tokens.begin() + at);
    std::copy(window.begin() + 1, window.end(), targets.begin() + at);
  }
  return absl::OkStatus();
}

}  // namespace skerry
