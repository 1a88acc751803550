// A model as a Hugging Face directory: config.json (LlamaForCausalLM, or Qwen2ForCausalLM where q,
// k and v have biases), the weights in one or more safetensors files, and a tokenizer.
// `transformers` loads it as it is; those of LLaMA 2 and 3, Mistral, Qwen2, SmolLM and TinyLlama
// are read. A model with a ladder (TransformerConfig::ladder) has the same tensors but is of a
// model_type of our own, skerry_ladder, which only this program reads: as a LLaMA it would compute
// something else.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/run_config.h"
#include "model/safetensors.h"

namespace skerry {

// Gives all parameters, in the order of ParameterLayout::ForModel, in pieces of any size.
using ParameterStream =
    std::function<absl::Status(const std::function<absl::Status(std::span<const float>)>& take)>;
ParameterStream StreamOf(std::span<const float> parameters);

struct ExportOptions {
  StoredType type = StoredType::kF32;
  // A directory whose tokenizer files go along, with the special tokens of its config.json; "" for
  // those of the byte tokenizer, where the vocabulary is that.
  std::string tokenizer;
  int64_t file_bytes_max = int64_t{5} << 30;  // of weights; more become several files and an index
};

// Every file is replaced atomically, the one that makes the weights readable last: a directory with
// model.safetensors or its index is complete. Creates the directory. A value that is not finite is
// InvalidArgument naming the tensor. Memory stays bounded by a piece of the stream.
absl::Status WriteHuggingFace(const std::string& directory, const TransformerConfig& config,
                              const ParameterStream& parameters, const ExportOptions& options);

// The same of parameters in memory, in float32. Nothing is written where one is not finite.
absl::Status WriteHuggingFace(const std::string& directory, const TransformerConfig& config,
                              std::span<const float> parameters);

struct HuggingFaceModel {
  TransformerConfig config;       // `context` is as far as the model reaches
  std::vector<float> parameters;  // ParameterLayout::ForModel(config)
};

// InvalidArgument or NotFound names the file and the key or tensor that does not fit.
// `on_read` is told how many of how many values are read.
absl::StatusOr<HuggingFaceModel> ReadHuggingFace(
    const std::string& directory,
    const std::function<void(int64_t done, int64_t all)>& on_read = {});
absl::StatusOr<TransformerConfig> ReadHuggingFaceConfig(const std::string& directory);

// Of tokenizers: tokenizer.json, tokenizer.model and what stands beside them. Copies those that
// are there.
absl::Status CopyTokenizerFiles(const std::string& from, const std::string& to);

// config.json as text, and back. `origin`: text of the config.json that the model came with, of
// which the special tokens are kept, or "".
std::string HuggingFaceConfigText(const TransformerConfig& config,
                                  StoredType type = StoredType::kF32,
                                  const std::string& origin = "");
absl::StatusOr<TransformerConfig> ParseHuggingFaceConfig(const std::string& text);

}  // namespace skerry
