// The manifest of a generation: JSON, and its digest on the last line.

#include <nlohmann/json.hpp>

#include "common/digest.h"
#include "common/status.h"
#include "coordinator/checkpoint_archive.h"
#include "coordinator/record_json.h"
#include "model/stage_state.h"

namespace skerry {

// What was added since the format began may be missing.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(TransformerConfig, vocab, hidden, layers, heads,
                                                kv_heads, ffn, context, rope_base, norm_epsilon,
                                                tied_head, qkv_bias, rope_scaling, rope_factor,
                                                rope_low_frequency, rope_high_frequency,
                                                rope_original_context, positions, ladder)

namespace {

using Json = nlohmann::json;

constexpr int kFormat = 1;
// Of a model with a ladder, which programs of format 1 would take for one without.
constexpr int kFormatOfLadder = 2;

std::string DigestOfText(const std::string& text) {
  return DigestOf(std::span(reinterpret_cast<const uint8_t*>(text.data()), text.size())).Hex();
}

ParameterLayout LayoutOf(const Checkpoint& checkpoint, const CheckpointStage& stage) {
  return ParameterLayout::ForStage(checkpoint.model, stage.first_layer, stage.last_layer,
                                   stage.holds_ends);
}

Json StageJson(const Checkpoint& checkpoint, const CheckpointStage& stage) {
  Json tensors = Json::array();
  const ParameterLayout layout = LayoutOf(checkpoint, stage);
  for (const TensorSlot& tensor : layout.tensors()) {
    tensors.push_back({{"name", tensor.name}, {"offset", tensor.offset}, {"size", tensor.size()}});
  }
  return {{"first_layer", stage.first_layer}, {"last_layer", stage.last_layer},
          {"holds_ends", stage.holds_ends},   {"bytes", stage.bytes},
          {"chunks", stage.chunks},           {"tensors", std::move(tensors)}};
}

CheckpointStage StageFrom(const Json& json) {
  return {json.at("first_layer"), json.at("last_layer"), json.at("holds_ends"), json.at("bytes"),
          json.at("chunks").get<std::vector<Digest>>()};
}

}  // namespace

std::string ManifestText(const Checkpoint& checkpoint) {
  Json stages = Json::array();
  for (const CheckpointStage& stage : checkpoint.stages) {
    stages.push_back(StageJson(checkpoint, stage));
  }
  const std::string text = Json{
      {"format", checkpoint.model.ladder > 0 ? kFormatOfLadder : kFormat},
      {"run", checkpoint.run},
      {"generation", checkpoint.generation},
      {"round", checkpoint.round},
      {"step", checkpoint.step},
      {"tokens", checkpoint.tokens},
      {"bytes", checkpoint.bytes},
      {"new_bytes", checkpoint.new_bytes},
      {"chunk_bytes", kCheckpointChunkBytes},
      {"arrays", {"base", "outer momentum", "first moment", "second moment"}},
      {"model", checkpoint.model},
      {"config", checkpoint.config},
      {"remade", checkpoint.remade},
      {"stages",
       std::move(stages)}}.dump(1);
  return text + "\n" + DigestOfText(text) + "\n";
}

absl::StatusOr<Checkpoint> ParseManifest(const std::string& text) {
  const size_t end = text.size() < 2 ? std::string::npos : text.rfind('\n', text.size() - 2);
  if (end == std::string::npos) return DataLoss("the manifest is cut short");
  const std::string body = text.substr(0, end);
  if (text.substr(end + 1) != DigestOfText(body) + "\n") {
    return DataLoss("the manifest does not match its digest");
  }
  try {
    const Json json = Json::parse(body);
    const bool is_known = json.at("format") == kFormat || json.at("format") == kFormatOfLadder;
    if (!is_known || json.at("chunk_bytes") != kCheckpointChunkBytes) {
      return DataLoss("the manifest is of another format; it was written by a newer version");
    }
    Checkpoint checkpoint;
    json.at("run").get_to(checkpoint.run);
    json.at("generation").get_to(checkpoint.generation);
    json.at("round").get_to(checkpoint.round);
    json.at("step").get_to(checkpoint.step);
    json.at("tokens").get_to(checkpoint.tokens);
    json.at("bytes").get_to(checkpoint.bytes);
    json.at("new_bytes").get_to(checkpoint.new_bytes);
    json.at("model").get_to(checkpoint.model);
    json.at("config").get_to(checkpoint.config);
    checkpoint.remade = json.value("remade", checkpoint.remade);
    for (const Json& stage : json.at("stages")) checkpoint.stages.push_back(StageFrom(stage));
    return checkpoint;
  } catch (const Json::exception& error) {
    return DataLoss("the manifest is damaged (%s)", error.what());
  }
}

// The first tensor that begins before the chunk's end, of the array in which the chunk begins.
std::string DescribeChunk(const Checkpoint& checkpoint, size_t stage, size_t chunk) {
  const CheckpointStage& of = checkpoint.stages[stage];
  const ParameterLayout layout = LayoutOf(checkpoint, of);
  static constexpr const char* kArrays[] = {"the base", "the outer momentum", "the first moment",
                                            "the second moment"};
  const int64_t at = std::max<int64_t>(
      0, (static_cast<int64_t>(chunk) * kCheckpointChunkBytes - kStateHeaderBytes) / 4);
  const int64_t array = layout.size() > 0 ? at / layout.size() : 4;
  std::string tensor;
  for (const TensorSlot& slot : layout.tensors()) {
    if (array < 4 && slot.offset <= at % layout.size()) tensor = slot.name;
  }
  const std::string where =
      tensor.empty() ? "" : absl::StrFormat(": from %s of %s on", tensor, kArrays[array]);
  return absl::StrFormat("chunk %d of stage %d (layers %d to %d%s)", chunk, stage, of.first_layer,
                         of.last_layer - 1, where);
}

}  // namespace skerry
