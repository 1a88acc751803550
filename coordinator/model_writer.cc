#include "coordinator/model_writer.h"

#include <cstring>
#include <nlohmann/json.hpp>

#include "common/status.h"
#include "model/export.h"

namespace skerry {

ModelWriter::ModelWriter(TransformerConfig config, std::string directory)
    : config_(config),
      directory_(std::move(directory)),
      layout_(ParameterLayout::ForModel(config)) {}

absl::Status ModelWriter::AddStage(const StageAssignment& stage, bool holds_ends,
                                   const Bytes& base) {
  const auto layout =
      ParameterLayout::ForStage(config_, stage.first_layer, stage.last_layer, holds_ends);
  if (base.size() != static_cast<size_t>(layout.size()) * sizeof(float)) {
    return DataLoss("layers %d to %d: want %d bytes of parameters, got %d", stage.first_layer,
                    stage.last_layer, layout.size() * 4, base.size());
  }
  std::vector<float> values(static_cast<size_t>(layout.size()));
  std::memcpy(values.data(), base.data(), base.size());
  parameters_.resize(static_cast<size_t>(layout_.size()));
  tensors_ += CopyTensors(layout, values, layout_, parameters_);
  return absl::OkStatus();
}

absl::StatusOr<std::string> ModelWriter::Finish() {
  if (tensors_ != static_cast<int64_t>(layout_.tensors().size())) {
    return DataLoss("want %d tensors from the stages, got %d", layout_.tensors().size(), tensors_);
  }
  SKERRY_RETURN_IF_ERROR(WriteHuggingFace(directory_, config_, parameters_));
  const std::string fields = nlohmann::json{
      {"path", directory_},
      {"parameters", layout_.size()},
      {"bytes",
       layout_.size() * 4}}.dump();
  return fields.substr(1, fields.size() - 2);
}

}  // namespace skerry
