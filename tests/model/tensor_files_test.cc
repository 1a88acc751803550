// A directory of tensors from elsewhere: whole and as announced, or refused by the tensor's name.
#include "model/tensor_files.h"

#include <catch2/catch.hpp>

#include "common/status.h"
#include "model/export.h"
#include "tests/model/temporary_directory.h"

namespace skerry {
namespace {

TransformerConfig Tiny(bool tied = false) {
  TransformerConfig config;
  config.vocab = 4;
  config.hidden = 4;
  config.layers = 1;
  config.heads = 2;
  config.kv_heads = 1;
  config.ffn = 3;
  config.context = 8;
  config.tied_head = tied;
  return config;
}

// Several files, a tensor or two in each.
void WriteSharded(const std::string& directory) {
  const auto layout = ParameterLayout::ForModel(Tiny());
  const std::vector<float> ones(static_cast<size_t>(layout.size()), 1.0f);
  ExportOptions options;
  options.file_bytes_max = 100;
  REQUIRE(WriteHuggingFace(directory, Tiny(), StreamOf(ones), options).ok());
}

std::string Refusal(const std::string& directory) {
  const auto files = TensorFiles::Open(directory);
  if (!files.ok()) return ErrorText(files.status());
  return ErrorText((*files)->CheckAgainst(ParameterLayout::ForModel(Tiny())));
}

// A file of the layout's tensors and one more.
void WriteWith(const std::string& path, const ParameterLayout& layout, const std::string& name,
               float value) {
  std::vector<TensorHeader> headers;
  for (const TensorSlot& slot : layout.tensors()) {
    headers.push_back({slot.name, StoredShape(slot)});
  }
  headers.push_back({name, {4, 4}});
  const auto writer = *SafetensorsWriter::Create(path, headers, {});
  REQUIRE(writer->Append(std::vector<float>(static_cast<size_t>(layout.size()), 1.0f)).ok());
  REQUIRE(writer->Append(std::vector<float>(16, value)).ok());
  REQUIRE(writer->Commit().ok());
}

}  // namespace

TEST_CASE("TensorFiles: an index that lies is refused by the tensor's name", "[model][error]") {
  const TemporaryDirectory directory;
  WriteSharded(directory.path());
  REQUIRE(Refusal(directory.path()).empty());
  const std::string index = directory.Join(kWeightsIndex), text = ReadFile(index);
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    const size_t at = changed.find(from);
    REQUIRE(at != std::string::npos);
    WriteFile(index, changed.replace(at, from.size(), to));
    return Refusal(directory.path());
  };

  CHECK(with("\"model.norm.weight\"", "\"model.morn.weight\"").find("model.morn.weight") !=
        std::string::npos);
  CHECK(with("\"model-00001-of", "\"../model-00001-of").find("no plain file") != std::string::npos);
  CHECK(with("\"model-00001-of", "\"model-00009-of").find("model-00009") != std::string::npos);
  CHECK(with("\"weight_map\"", "\"weights\"").find("weight_map") != std::string::npos);
  CHECK(with("{", "").find("weight_map") != std::string::npos);
}

TEST_CASE("TensorFiles: a missing or cut file is refused", "[model][error]") {
  const TemporaryDirectory directory;
  WriteSharded(directory.path());
  for (const auto& entry : std::filesystem::directory_iterator(directory.path())) {
    if (entry.path().filename().string().starts_with("model-00002")) {
      const std::string path = entry.path().string(), bytes = ReadFile(path);
      WriteFile(path, bytes.substr(0, bytes.size() - 1));
      CHECK(Refusal(directory.path()).find("model-00002") != std::string::npos);
      std::filesystem::remove(path);
      CHECK(Refusal(directory.path()).find("model-00002") != std::string::npos);
      break;
    }
  }
}

TEST_CASE("TensorFiles: left-overs that carry nothing are let pass, others not", "[model]") {
  const TemporaryDirectory directory;
  const auto layout = ParameterLayout::ForModel(Tiny(true));
  const auto check = [&](const std::string& name, float value) {
    WriteWith(directory.Join(kWeightsFile), layout, name, value);
    return (*TensorFiles::Open(directory.path()))->CheckAgainst(layout);
  };

  CHECK(check("lm_head.weight", 1.0f).ok());
  CHECK(check("model.layers.0.self_attn.rotary_emb.inv_freq", 2.0f).ok());
  CHECK(ErrorText(check("lm_head.weight", 2.0f)).find("lm_head.weight") != std::string::npos);
  CHECK(ErrorText(check("model.layers.0.extra", 1.0f)).find("extra") != std::string::npos);
}

TEST_CASE("TensorFiles: a value that is not finite is refused by the tensor's name",
          "[model][error]") {
  const TemporaryDirectory directory;
  const auto layout = ParameterLayout::ForModel(Tiny());
  std::vector<TensorHeader> headers;
  for (const TensorSlot& slot : layout.tensors()) {
    headers.push_back({slot.name, StoredShape(slot)});
  }
  std::vector<float> values(static_cast<size_t>(layout.size()), 1.0f);
  values.back() = INFINITY;
  const auto writer = *SafetensorsWriter::Create(directory.Join(kWeightsFile), headers, {});
  REQUIRE(writer->Append(values).ok());
  REQUIRE(writer->Commit().ok());
  REQUIRE(WriteFileAtomically(directory.Join("config.json"), HuggingFaceConfigText(Tiny())).ok());

  const auto model = ReadHuggingFace(directory.path());

  REQUIRE_FALSE(model.ok());
  CHECK(ErrorText(model.status()).find("lm_head.weight is not finite") != std::string::npos);
}

}  // namespace skerry
