#include "coordinator/model_writer.h"

#include <cstring>
#include <nlohmann/json.hpp>

#include "common/status.h"
#include "model/export.h"
#include "model/file_io.h"

namespace skerry {

ModelWriter::ModelWriter(TransformerConfig config, std::string directory, std::string tokenizer)
    : config_(config),
      directory_(std::move(directory)),
      tokenizer_(std::move(tokenizer)),
      layout_(ParameterLayout::ForModel(config)) {}

absl::Status ModelWriter::AddStage(const StageAssignment& stage, bool holds_ends,
                                   const Bytes& base) {
  const auto layout =
      ParameterLayout::ForStage(config_, stage.first_layer, stage.last_layer, holds_ends);
  if (base.size() != static_cast<size_t>(layout.size()) * sizeof(float)) {
    return DataLoss("layers %d to %d: want %d bytes of parameters, got %d [SK-model-write]",
                    stage.first_layer, stage.last_layer, layout.size() * 4, base.size());
  }
  std::vector<float> values(static_cast<size_t>(layout.size()));
  std::memcpy(values.data(), base.data(), base.size());
  parameters_.resize(static_cast<size_t>(layout_.size()));
  if (holds_ends) {  // it comes first; what came before is of a collection given up
    tensors_ = 0;
    remade_.clear();
  }
  remade_.insert(stage.remade.begin(), stage.remade.end());
  tensors_ += CopyTensors(layout, values, layout_, parameters_);
  return absl::OkStatus();
}

absl::StatusOr<std::string> ModelWriter::Finish() {
  if (tensors_ != static_cast<int64_t>(layout_.tensors().size())) {
    return DataLoss("want %d tensors from the stages, got %d [SK-model-write]",
                    layout_.tensors().size(), tensors_);
  }
  SKERRY_RETURN_IF_ERROR(
      WriteHuggingFace(directory_, config_, StreamOf(parameters_), {StoredType::kF32, tokenizer_}));
  nlohmann::json told = {
      {"path", directory_}, {"parameters", layout_.size()}, {"bytes", layout_.size() * 4}};
  if (!remade_.empty()) {
    told["remade_layers"] = remade_;
    const nlohmann::json notes = {
        {"remade_layers", remade_},
        {"note",
         "while it was trained these layers lost everybody who held them and were made again from "
         "the means of their neighbours (CheckFree); what they had learnt before is gone"}};
    SKERRY_RETURN_IF_ERROR(WriteFileAtomically(directory_ + "/notes.json", notes.dump(2) + "\n"));
  }
  const std::string fields = told.dump();
  return fields.substr(1, fields.size() - 2);
}

}  // namespace skerry
