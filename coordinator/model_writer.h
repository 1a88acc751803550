// Puts the model together from the stages' base parameters and writes it as a Hugging Face
// directory.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "coordinator/coordinator_actor.h"
#include "model/parameter_layout.h"

namespace skerry {

class ModelWriter final : public ExportSink {
 public:
  // `tokenizer`: the directory of its files, or "".
  ModelWriter(TransformerConfig config, std::string directory, std::string tokenizer = "");
  absl::Status AddStage(const StageAssignment& stage, bool holds_ends, const Bytes& base) override;
  absl::StatusOr<std::string> Finish() override;

 private:
  TransformerConfig config_;
  std::string directory_, tokenizer_;
  ParameterLayout layout_;
  std::vector<float> parameters_;
  int64_t tensors_ = 0;
  std::set<int32_t> remade_;  // layers, of the stages that are here
};

}  // namespace skerry
