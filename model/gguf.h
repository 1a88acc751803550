// A model as one GGUF file (version 3), as the llama.cpp family of programs opens it.
//
//   "GGUF" · version u32 · tensors u64 · keys u64 · keys · what each tensor is · data, each tensor
//   from a multiple of 32 bytes on                                        all little-endian
//
// Architecture `llama`, or `qwen2` where q, k and v have biases. The former's programs rotate
// neighbouring values of a head where safetensors' LLaMA rotates its halves: rows of q and k are
// put in that order. Vectors stay float32; so does not a matrix, which is of the wished type, or
// F16 where Q8_0 is wished and its rows are no multiple of 32 values.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "common/run_config.h"
#include "model/export.h"

namespace skerry {

enum class GgufType : uint8_t { kF32, kF16, kBf16, kQ8_0 };

struct GgufOptions {
  GgufType type = GgufType::kF16;
  std::string name = "skerry";
  // A directory with tokenizer.json, and the special tokens in config.json; "" for the byte
  // tokenizer where the vocabulary is that, and none where it is another.
  std::string tokenizer;
};

// The file is there whole or not at all. InvalidArgument: a value is not finite (names the tensor),
// the model has a ladder, which no program that reads GGUF knows (TransformerConfig::ladder), or
// the tokenizer is of a kind that GGUF has no name for. Memory: a piece of the stream and, for
// `llama`, one matrix of q.
absl::Status WriteGguf(const std::string& path, const TransformerConfig& config,
                       const ParameterStream& parameters, const GgufOptions& options);

}  // namespace skerry
