#include "model/export.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "common/check.h"
#include "common/large_memory.h"
#include "common/status.h"
#include "model/file_io.h"
#include "model/number_formats.h"
#include "model/parameter_layout.h"
#include "model/tensor_files.h"
#include "model/tokenizer.h"

namespace skerry {
namespace {

constexpr int64_t kConfigBytesMax = 1 << 20;
constexpr int64_t kTokenizerBytesMax = 256 << 20;

constexpr const char* kTokenizerFiles[] = {"tokenizer.json",
                                           "tokenizer.model",
                                           "tokenizer_config.json",
                                           "special_tokens_map.json",
                                           "added_tokens.json",
                                           "generation_config.json",
                                           "vocab.json",
                                           "merges.txt",
                                           "chat_template.jinja"};

std::string Join(const std::string& directory, const std::string& file) {
  return directory + "/" + file;
}

absl::Status CheckFinite(const TensorSlot& slot, std::span<const float> values) {
  if (AreFinite(values)) return absl::OkStatus();
  return InvalidArgument("tensor %s is not finite", slot.name);
}

// One file, or several and the index of them; each tensor whole in one.
struct WeightFiles {
  struct File {
    std::string name;
    std::vector<const TensorSlot*> tensors;
  };
  std::vector<File> files;
  int64_t bytes = 0;

  WeightFiles(const ParameterLayout& layout, const ExportOptions& options) {
    int64_t in_file = 0;
    for (const TensorSlot& slot : layout.tensors()) {
      const int64_t size = slot.size() * StoredBytes(options.type);
      if (files.empty() || in_file + size > options.file_bytes_max) {
        files.emplace_back();
        in_file = 0;
      }
      files.back().tensors.push_back(&slot);
      in_file += size;
      bytes += size;
    }
    for (size_t i = 0; i < files.size(); ++i) {
      files[i].name = files.size() == 1
                          ? kWeightsFile
                          : absl::StrFormat("model-%05d-of-%05d.safetensors", i + 1, files.size());
    }
  }

  std::string IndexText() const {
    nlohmann::ordered_json map = nlohmann::ordered_json::object();
    for (const File& file : files) {
      for (const TensorSlot* slot : file.tensors) map[slot->name] = file.name;
    }
    return nlohmann::ordered_json{{"metadata", {{"total_size", bytes}}}, {"weight_map", map}}.dump(
               2) +
           "\n";
  }
};

// Takes the stream apart into tensors and writes file after file. Commit of the last makes a single
// file readable.
class WeightWriter {
 public:
  WeightWriter(const std::string& directory, const WeightFiles& files, StoredType type)
      : directory_(directory), files_(files), type_(type) {}

  absl::Status Take(std::span<const float> values) {
    while (!values.empty()) {
      SKERRY_CHECK(file_ < files_.files.size(), "more than the layout has");
      SKERRY_RETURN_IF_ERROR(Open());
      const TensorSlot& slot = *files_.files[file_].tensors[tensor_];
      const auto part =
          static_cast<size_t>(std::min(slot.size() - within_, static_cast<int64_t>(values.size())));
      SKERRY_RETURN_IF_ERROR(CheckFinite(slot, values.first(part)));
      SKERRY_RETURN_IF_ERROR(writer_->Append(values.first(part)));
      values = values.subspan(part);
      within_ += static_cast<int64_t>(part);
      if (within_ == slot.size()) SKERRY_RETURN_IF_ERROR(EndTensor());
    }
    return absl::OkStatus();
  }

  absl::Status Finish() {
    SKERRY_CHECK(file_ + 1 == files_.files.size() && last_ != nullptr, "less than the layout has");
    return last_->Commit();
  }

 private:
  absl::Status Open() {
    if (writer_ != nullptr) return absl::OkStatus();
    std::vector<TensorHeader> headers;
    for (const TensorSlot* slot : files_.files[file_].tensors) {
      headers.push_back({slot->name, StoredShape(*slot)});
    }
    SKERRY_ASSIGN_OR_RETURN(
        writer_, SafetensorsWriter::Create(Join(directory_, files_.files[file_].name), headers,
                                           {{"format", "pt"}}, type_));
    return absl::OkStatus();
  }
  absl::Status EndTensor() {
    within_ = 0;
    if (++tensor_ < files_.files[file_].tensors.size()) return absl::OkStatus();
    tensor_ = 0;
    if (file_ + 1 == files_.files.size()) {
      last_ = std::move(writer_);
      return absl::OkStatus();
    }
    ++file_;
    const auto done = std::move(writer_);
    return done->Commit();
  }

  const std::string& directory_;
  const WeightFiles& files_;
  StoredType type_;
  size_t file_ = 0, tensor_ = 0;
  int64_t within_ = 0;
  std::unique_ptr<SafetensorsWriter> writer_, last_;
};

absl::Status WriteTokenizer(const std::string& directory, const TransformerConfig& config,
                            const ExportOptions& options) {
  if (!options.tokenizer.empty()) return CopyTokenizerFiles(options.tokenizer, directory);
  if (config.vocab != ByteTokenizer::kVocab) return absl::OkStatus();
  SKERRY_RETURN_IF_ERROR(
      WriteFileAtomically(Join(directory, "tokenizer.json"), ByteTokenizer::TokenizerJson()));
  return WriteFileAtomically(Join(directory, "tokenizer_config.json"),
                             ByteTokenizer::TokenizerConfigJson(config.context));
}

}  // namespace

ParameterStream StreamOf(std::span<const float> parameters) {
  return [parameters](const auto& take) { return take(parameters); };
}

absl::Status CopyTokenizerFiles(const std::string& from, const std::string& to) {
  SKERRY_RETURN_IF_ERROR(MakeDirectory(to));
  for (const char* name : kTokenizerFiles) {
    if (access(Join(from, name).c_str(), F_OK) != 0) continue;
    SKERRY_ASSIGN_OR_RETURN(const std::string text,
                            ReadSmallFile(Join(from, name), kTokenizerBytesMax));
    SKERRY_RETURN_IF_ERROR(WriteFileAtomically(Join(to, name), text));
  }
  return absl::OkStatus();
}

absl::Status WriteHuggingFace(const std::string& directory, const TransformerConfig& config,
                              const ParameterStream& parameters, const ExportOptions& options) {
  const ParameterLayout layout = ParameterLayout::ForModel(config);
  SKERRY_RETURN_IF_ERROR(MakeDirectory(directory));
  std::string origin;
  if (!options.tokenizer.empty()) {
    const auto text = ReadSmallFile(Join(options.tokenizer, "config.json"), kConfigBytesMax);
    if (text.ok()) origin = *text;
  }
  SKERRY_RETURN_IF_ERROR(WriteFileAtomically(Join(directory, "config.json"),
                                             HuggingFaceConfigText(config, options.type, origin)));
  SKERRY_RETURN_IF_ERROR(WriteTokenizer(directory, config, options));
  const WeightFiles files(layout, options);
  WeightWriter writer(directory, files, options.type);
  SKERRY_RETURN_IF_ERROR(
      parameters([&](std::span<const float> values) { return writer.Take(values); }));
  SKERRY_RETURN_IF_ERROR(writer.Finish());
  if (files.files.size() == 1) {
    unlink(Join(directory, kWeightsIndex).c_str());  // of a model that was here before
    return absl::OkStatus();
  }
  return WriteFileAtomically(Join(directory, kWeightsIndex), files.IndexText());
}

absl::Status WriteHuggingFace(const std::string& directory, const TransformerConfig& config,
                              std::span<const float> parameters) {
  const ParameterLayout layout = ParameterLayout::ForModel(config);
  SKERRY_CHECK(static_cast<int64_t>(parameters.size()) == layout.size());
  for (const TensorSlot& slot : layout.tensors()) {
    SKERRY_RETURN_IF_ERROR(CheckFinite(slot, parameters.subspan(static_cast<size_t>(slot.offset),
                                                                static_cast<size_t>(slot.size()))));
  }
  return WriteHuggingFace(directory, config, StreamOf(parameters), ExportOptions{});
}

absl::StatusOr<TransformerConfig> ReadHuggingFaceConfig(const std::string& directory) {
  const std::string path = Join(directory, "config.json");
  SKERRY_ASSIGN_OR_RETURN(const std::string text, ReadSmallFile(path, kConfigBytesMax));
  auto config = ParseHuggingFaceConfig(text);
  if (!config.ok()) return Annotate(config.status(), path);
  return config;
}

absl::StatusOr<HuggingFaceModel> ReadHuggingFace(
    const std::string& directory, const std::function<void(int64_t, int64_t)>& on_read) {
  SKERRY_ASSIGN_OR_RETURN(const TransformerConfig config, ReadHuggingFaceConfig(directory));
  SKERRY_ASSIGN_OR_RETURN(const auto files, TensorFiles::Open(directory));
  const ParameterLayout layout = ParameterLayout::ForModel(config);
  // Before the arena is allocated: config.json may promise more than the files hold.
  SKERRY_RETURN_IF_ERROR(files->CheckAgainst(layout));
  // Appended, not filled in: zeros first would be a second pass over all of its memory.
  HuggingFaceModel model{config, LargeReserve<float>(static_cast<size_t>(layout.size()))};
  for (const TensorSlot& slot : layout.tensors()) {
    SKERRY_CHECK(slot.offset == std::ssize(model.parameters), "one after the other");
    SKERRY_RETURN_IF_ERROR(files->ForEachPiece(slot, [&model](std::span<const float> values) {
      model.parameters.insert(model.parameters.end(), values.begin(), values.end());
      return absl::OkStatus();
    }));
    if (on_read) on_read(slot.offset + slot.size(), layout.size());
  }
  return model;
}

}  // namespace skerry
