#include "model/prepare_state.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "common/digest.h"
#include "common/status.h"
#include "model/file_io.h"

namespace skerry {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr char kFile[] = "prepare.state";
constexpr char kFormat[] = "skerry-prepare 1";

std::string PathIn(const std::string& directory) {
  return directory + "/" + kFile;
}

std::span<const uint8_t> BytesOf(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// A line of JSON, then the bytes of the open shards.
absl::StatusOr<PrepareState> Parse(std::span<const uint8_t> file) {
  const auto end = std::find(file.begin(), file.end(), uint8_t{'\n'});
  const auto json = Json::parse(file.begin(), end, nullptr, false);
  if (!json.is_object() || json.value("format", "") != kFormat || end == file.end()) {
    return DataLoss("not the state of a preparation");
  }
  PrepareState state;
  state.request = json.value("request", "");
  const Json numbers = json.value("numbers", Json::object());
  for (const auto& [name, values] : numbers.items()) {
    for (const Json& value : values) {
      if (!value.is_number_integer()) return DataLoss("'%s' are no numbers", name);
      state.numbers[name].push_back(value.get<int64_t>());
    }
  }
  SKERRY_ASSIGN_OR_RETURN(state.written.index, ParseDatasetIndex(json.value("index", "")));
  auto rest = file.subspan(static_cast<size_t>(end - file.begin()) + 1);
  const auto first = json.value("open", uint64_t{0});
  if (first > rest.size()) return DataLoss("cut short");
  const auto open = rest.first(first);
  rest = rest.subspan(first);
  state.written.open[0].assign(open.begin(), open.end());
  state.written.open[1].assign(rest.begin(), rest.end());
  return state;
}

}  // namespace

absl::Status SavePrepareState(const std::string& directory, const PrepareState& state) {
  Json json;
  json["format"] = kFormat;
  json["request"] = state.request;
  json["numbers"] = state.numbers;
  json["index"] = DatasetIndexText(state.written.index);
  json["open"] = state.written.open[0].size();
  SKERRY_ASSIGN_OR_RETURN(const auto file, AtomicFile::Create(PathIn(directory)));
  SKERRY_RETURN_IF_ERROR(file->Write(json.dump() + "\n"));
  for (const Bytes& open : state.written.open) SKERRY_RETURN_IF_ERROR(file->Write(open));
  return file->Commit();
}

absl::StatusOr<std::optional<PrepareState>> LoadPrepareState(const std::string& directory,
                                                             const std::string& request) {
  const std::string path = PathIn(directory);
  std::error_code error;
  if (!fs::exists(path, error)) return std::nullopt;
  SKERRY_ASSIGN_OR_RETURN(const auto map, MappedFile::Open(path));
  auto state = Parse(map->bytes());
  if (!state.ok()) {
    return DataLoss("%s: %s; remove %s and begin again", path, ErrorText(state.status()),
                    directory);
  }
  if (state->request != request) {
    return FailedPrecondition(
        "%s: a data set is half made here, of other inputs or options, or the inputs changed; "
        "remove it or choose another directory [SK-data-exists]",
        directory);
  }
  return std::optional(*std::move(state));
}

void RemovePrepareState(const std::string& directory) {
  std::error_code ignored;
  fs::remove(PathIn(directory), ignored);
}

std::string RequestDigest(const std::vector<std::string>& words,
                          const std::vector<std::string>& files) {
  DigestStream digest;
  const auto add = [&digest](const std::string& word) {
    digest.Add(BytesOf(std::to_string(word.size()) + ":" + word));
  };
  for (const std::string& word : words) add(word);
  for (const std::string& file : files) {
    std::error_code error;
    add(fs::absolute(file, error).string());
    add(std::to_string(fs::file_size(file, error)));
    add(std::to_string(fs::last_write_time(file, error).time_since_epoch().count()));
  }
  return digest.Finish().Hex();
}

}  // namespace skerry
