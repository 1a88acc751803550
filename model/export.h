// A model as a Hugging Face directory: model.safetensors, config.json (LlamaForCausalLM), and the
// byte tokenizer as tokenizer.json and tokenizer_config.json. `transformers` loads it as it is.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/run_config.h"

namespace skerry {

// `parameters` in the order of ParameterLayout::ForModel(config). Every file is replaced
// atomically, the weights last: a directory with model.safetensors is complete. Creates the
// directory. A value that is not finite is InvalidArgument naming the tensor, and nothing is
// written.
absl::Status WriteHuggingFace(const std::string& directory, const TransformerConfig& config,
                              std::span<const float> parameters);

struct HuggingFaceModel {
  TransformerConfig config;
  std::vector<float> parameters;  // ParameterLayout::ForModel(config)
};

// Reads what WriteHuggingFace wrote, or any single-file LLaMA checkpoint without biases and RoPE
// scaling. InvalidArgument or NotFound names the file and the key or tensor that does not fit.
absl::StatusOr<HuggingFaceModel> ReadHuggingFace(const std::string& directory);

// config.json as text, and back.
std::string HuggingFaceConfigText(const TransformerConfig& config);
absl::StatusOr<TransformerConfig> ParseHuggingFaceConfig(const std::string& text);

}  // namespace skerry
