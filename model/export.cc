#include "model/export.h"

#include <cmath>
#include <set>

#include "common/check.h"
#include "common/status.h"
#include "model/file_io.h"
#include "model/parameter_layout.h"
#include "model/safetensors.h"
#include "model/tokenizer.h"

namespace skerry {
namespace {

constexpr int64_t kConfigBytesMax = 1 << 20;

std::string Join(const std::string& directory, const std::string& file) {
  return directory + "/" + file;
}

// Norms are vectors there, one-column matrices here.
std::vector<int64_t> StoredShape(const TensorSlot& slot) {
  return slot.columns == 1 ? std::vector<int64_t>{slot.rows}
                           : std::vector<int64_t>{slot.rows, slot.columns};
}

absl::Status CheckFinite(const ParameterLayout& layout, std::span<const float> parameters) {
  for (const TensorSlot& slot : layout.tensors()) {
    for (const float value :
         parameters.subspan(static_cast<size_t>(slot.offset), static_cast<size_t>(slot.size()))) {
      if (!std::isfinite(value)) return InvalidArgument("tensor %s is not finite", slot.name);
    }
  }
  return absl::OkStatus();
}

absl::Status WriteWeights(const std::string& path, const ParameterLayout& layout,
                          std::span<const float> parameters) {
  std::vector<TensorHeader> headers;
  for (const TensorSlot& slot : layout.tensors()) {
    headers.push_back({slot.name, StoredShape(slot)});
  }
  SKERRY_ASSIGN_OR_RETURN(const auto writer,
                          SafetensorsWriter::Create(path, headers, {{"format", "pt"}}));
  SKERRY_RETURN_IF_ERROR(writer->Append(parameters));
  return writer->Commit();
}

// The file holds the layout's tensors in their shapes and no others.
absl::Status CheckTensors(const SafetensorsFile& file, const ParameterLayout& layout) {
  std::set<std::string> wanted;
  for (const TensorSlot& slot : layout.tensors()) {
    SKERRY_RETURN_IF_ERROR(file.CheckShape(slot.name, StoredShape(slot)));
    wanted.insert(slot.name);
  }
  for (const auto& [name, tensor] : file.tensors()) {
    if (wanted.count(name) != 0) continue;
    return InvalidArgument("%s: tensor %s does not belong to this architecture", file.path(), name);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status WriteHuggingFace(const std::string& directory, const TransformerConfig& config,
                              std::span<const float> parameters) {
  const ParameterLayout layout = ParameterLayout::ForModel(config);
  SKERRY_CHECK(static_cast<int64_t>(parameters.size()) == layout.size());
  SKERRY_RETURN_IF_ERROR(CheckFinite(layout, parameters));
  SKERRY_RETURN_IF_ERROR(MakeDirectory(directory));
  SKERRY_RETURN_IF_ERROR(
      WriteFileAtomically(Join(directory, "config.json"), HuggingFaceConfigText(config)));
  if (config.vocab == ByteTokenizer::kVocab) {
    SKERRY_RETURN_IF_ERROR(
        WriteFileAtomically(Join(directory, "tokenizer.json"), ByteTokenizer::TokenizerJson()));
    SKERRY_RETURN_IF_ERROR(WriteFileAtomically(Join(directory, "tokenizer_config.json"),
                                               ByteTokenizer::TokenizerConfigJson(config.context)));
  }
  return WriteWeights(Join(directory, "model.safetensors"), layout, parameters);
}

absl::StatusOr<HuggingFaceModel> ReadHuggingFace(const std::string& directory) {
  const std::string config_path = Join(directory, "config.json");
  SKERRY_ASSIGN_OR_RETURN(const std::string text, ReadSmallFile(config_path, kConfigBytesMax));
  const auto config = ParseHuggingFaceConfig(text);
  if (!config.ok()) return Annotate(config.status(), config_path);
  const std::string weights_path = Join(directory, "model.safetensors");
  SKERRY_ASSIGN_OR_RETURN(const auto file, SafetensorsFile::Open(weights_path));
  const ParameterLayout layout = ParameterLayout::ForModel(*config);
  // Before the arena is allocated: config.json may promise more than the file holds.
  SKERRY_RETURN_IF_ERROR(CheckTensors(*file, layout));
  HuggingFaceModel model{*config, std::vector<float>(static_cast<size_t>(layout.size()))};
  for (const TensorSlot& slot : layout.tensors()) {
    const auto values =
        std::span(model.parameters)
            .subspan(static_cast<size_t>(slot.offset), static_cast<size_t>(slot.size()));
    SKERRY_RETURN_IF_ERROR(file->Read(slot.name, StoredShape(slot), values));
  }
  return model;
}

}  // namespace skerry
