// Which tensors a stage holds, under their Hugging Face LLaMA names, and where each lies in the
// stage's flat arena of float32.
//
// Order: embedding, layers ascending, final norm, head. Within a layer: input norm, q, k, v, their
// biases where the model has them, o, post norm, gate, up, down. So gate and up are one contiguous
// [2·ffn, hidden] matrix, and q, k, v one [hidden + 2·kv, hidden] matrix. Weights are [out, in].
// The arena of a stage is a sub-sequence of the whole model's, tensor by tensor, so that a model is
// put together by names alone.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/device_split.h"
#include "common/run_config.h"

namespace skerry {

struct TensorSlot {
  std::string name;  // "model.layers.3.self_attn.q_proj.weight"
  int64_t rows = 0;
  int64_t columns = 0;              // 1 for the vectors (norms, biases)
  int64_t offset = 0;               // floats from the arena's start
  int32_t block = 0;                // index into ParameterLayout::blocks()
  bool decays = false;              // weight decay applies: matrices only
  bool is_hidden_matrix = false;    // of a layer: neither norm, embedding nor head
  bool is_residual_output = false;  // o_proj, down_proj: write into the residual stream
  bool is_bias = false;             // begins at zero, where a norm begins at one
  int64_t size() const { return rows * columns; }
};

// What is clipped together, whatever the split into stages: the embedding, one layer, or the head
// with the final norm.
struct ParameterBlock {
  std::string name;  // "embedding", "layer 3", "head"
  int64_t offset = 0;
  int64_t size = 0;
};

// Immutable after construction; any thread.
class ParameterLayout {
 public:
  // Layers [first_layer, last_layer) of the model; `holds_ends` adds embedding, final norm and head
  // (the head has no tensor of its own when it is tied). With a `shard` what one of several devices
  // has of them (model/tensor_split.h).
  static ParameterLayout ForStage(const TransformerConfig& config, int32_t first_layer,
                                  int32_t last_layer, bool holds_ends,
                                  const TensorShard& shard = {});
  static ParameterLayout ForModel(const TransformerConfig& config);

  const std::vector<TensorSlot>& tensors() const { return tensors_; }
  const std::vector<ParameterBlock>& blocks() const { return blocks_; }
  int64_t size() const { return size_; }                  // floats
  const TensorSlot* Find(const std::string& name) const;  // nullptr: the stage does not hold it

 private:
  void BeginBlock(const std::string& name);
  void Add(const std::string& name, int64_t rows, int64_t columns);
  void AddLayer(const TransformerConfig& config, int32_t layer, int32_t shards);

  std::vector<TensorSlot> tensors_;
  std::vector<ParameterBlock> blocks_;
  int64_t size_ = 0;
};

// "layer LAYER"
std::string LayerBlockName(int32_t layer);

// "model.layers.LAYER.PART.weight"
std::string LayerTensorName(int32_t layer, const std::string& part);
std::string LayerBiasName(int32_t layer, const std::string& part);  // "….bias"

// Copies every tensor that both layouts hold; returns how many. Spans have their layout's size.
// Puts a model together from stages, or cuts a stage out of a model.
int64_t CopyTensors(const ParameterLayout& from_layout, std::span<const float> from,
                    const ParameterLayout& to_layout, std::span<float> to);

}  // namespace skerry
