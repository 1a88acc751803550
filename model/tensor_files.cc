#include "model/tensor_files.h"

#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "common/check.h"
#include "common/status.h"
#include "model/number_formats.h"

namespace skerry {
namespace {

using Json = nlohmann::json;

constexpr int64_t kIndexBytesMax = 64 << 20;
constexpr int64_t kPieceValues = 1 << 18;
constexpr size_t kFilesMax = 4096;

bool IsPlainName(const std::string& name) {
  return !name.empty() && name[0] != '.' && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos && name.ends_with(".safetensors");
}

absl::Status ReadPiece(const SafetensorsFile& file, const TensorSlot& slot, int64_t first,
                       std::span<float> out) {
  SKERRY_RETURN_IF_ERROR(file.ReadPart(file.tensors().at(slot.name), first, out));
  if (AreFinite(out)) return absl::OkStatus();
  return InvalidArgument("%s: tensor %s is not finite", file.path(), slot.name);
}

}  // namespace

std::vector<int64_t> StoredShape(const TensorSlot& slot) {
  return slot.columns == 1 ? std::vector<int64_t>{slot.rows}
                           : std::vector<int64_t>{slot.rows, slot.columns};
}

absl::StatusOr<std::unique_ptr<TensorFiles>> TensorFiles::Open(const std::string& directory) {
  std::unique_ptr<TensorFiles> opened(new TensorFiles);
  opened->path_ = directory + "/" + kWeightsIndex;
  if (access(opened->path_.c_str(), F_OK) == 0) {
    SKERRY_RETURN_IF_ERROR(opened->AddListed(directory));
  } else {
    opened->path_ = directory + "/" + kWeightsFile;
    SKERRY_RETURN_IF_ERROR(opened->Add(directory, kWeightsFile));
  }
  return opened;
}

absl::Status TensorFiles::Add(const std::string& directory, const std::string& name) {
  SKERRY_ASSIGN_OR_RETURN(auto file, SafetensorsFile::Open(directory + "/" + name));
  for (const auto& [tensor, stored] : file->tensors()) {
    if (!holder_.emplace(tensor, file.get()).second) {
      return InvalidArgument("%s: tensor %s is in %s as well", file->path(), tensor,
                             holder_.at(tensor)->path());
    }
  }
  files_.push_back(std::move(file));
  return absl::OkStatus();
}

absl::Status TensorFiles::AddListed(const std::string& directory) {
  SKERRY_ASSIGN_OR_RETURN(const std::string text, ReadSmallFile(path_, kIndexBytesMax));
  const Json json = Json::parse(text, nullptr, false);
  const auto map = json.is_object() ? json.find("weight_map") : json.end();
  if (!json.is_object() || map == json.end() || !map->is_object()) {
    return InvalidArgument("%s: has no weight_map", path_);
  }
  std::set<std::string> names;
  for (const auto& [tensor, file] : map->items()) {
    if (!file.is_string() || !IsPlainName(file.get<std::string>())) {
      return InvalidArgument("%s: tensor %s is in no plain file of this directory", path_, tensor);
    }
    names.insert(file.get<std::string>());
  }
  if (names.size() > kFilesMax) {
    return InvalidArgument("%s: %d files, at most %d", path_, names.size(), kFilesMax);
  }
  for (const std::string& name : names) SKERRY_RETURN_IF_ERROR(Add(directory, name));
  for (const auto& [tensor, file] : map->items()) {
    const auto at = holder_.find(tensor);
    if (at == holder_.end() || at->second->path() != directory + "/" + file.get<std::string>()) {
      return InvalidArgument("%s: tensor %s is not in %s, where it is listed", path_, tensor,
                             file.get<std::string>());
    }
  }
  for (const auto& [tensor, file] : holder_) {
    if (!map->contains(tensor)) {
      return InvalidArgument("%s: tensor %s is not listed in %s", file->path(), tensor, path_);
    }
  }
  return absl::OkStatus();
}

bool TensorFiles::CarriesNothing(const std::string& name, const StoredTensor& tensor,
                                 const ParameterLayout& layout) const {
  if (name.ends_with(".rotary_emb.inv_freq")) return true;
  const TensorSlot* embedding = layout.Find("model.embed_tokens.weight");
  if (name != "lm_head.weight" || embedding == nullptr) return false;
  if (tensor.shape != StoredShape(*embedding)) return false;
  const SafetensorsFile& other = *holder_.at(embedding->name);
  const StoredTensor& tied = other.tensors().at(embedding->name);
  std::vector<float> a, b;
  for (int64_t first = 0; first < tensor.elements; first += kPieceValues) {
    a.resize(static_cast<size_t>(std::min(kPieceValues, tensor.elements - first)));
    b.resize(a.size());
    const bool are_read =
        holder_.at(name)->ReadPart(tensor, first, a).ok() && other.ReadPart(tied, first, b).ok();
    if (!are_read || a != b) return false;
  }
  return true;
}

absl::Status TensorFiles::CheckAgainst(const ParameterLayout& layout) const {
  for (const TensorSlot& slot : layout.tensors()) {
    const auto at = holder_.find(slot.name);
    if (at == holder_.end()) return NotFound("%s: lacks tensor %s", path_, slot.name);
    SKERRY_RETURN_IF_ERROR(at->second->CheckShape(slot.name, StoredShape(slot)));
  }
  for (const auto& [name, file] : holder_) {
    if (layout.Find(name) != nullptr) continue;
    if (CarriesNothing(name, file->tensors().at(name), layout)) continue;
    return InvalidArgument("%s: tensor %s does not belong to this architecture", file->path(),
                           name);
  }
  return absl::OkStatus();
}

absl::Status TensorFiles::ForEachPiece(
    const TensorSlot& slot, const std::function<absl::Status(std::span<const float>)>& take) const {
  const SafetensorsFile& file = *holder_.at(slot.name);
  const StoredTensor& tensor = file.tensors().at(slot.name);
  SKERRY_CHECK(tensor.elements == slot.size(), "after CheckAgainst");
  std::vector<float> piece;
  for (int64_t first = 0; first < tensor.elements; first += kPieceValues) {
    piece.resize(static_cast<size_t>(std::min(kPieceValues, tensor.elements - first)));
    SKERRY_RETURN_IF_ERROR(ReadPiece(file, slot, first, piece));
    SKERRY_RETURN_IF_ERROR(take(piece));
  }
  return absl::OkStatus();
}

}  // namespace skerry
