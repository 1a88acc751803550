#include "model/parameter_layout.h"

#include <algorithm>

#include "common/check.h"

namespace skerry {

std::string LayerTensorName(int32_t layer, const std::string& part) {
  return "model.layers." + std::to_string(layer) + "." + part + ".weight";
}

std::string LayerBiasName(int32_t layer, const std::string& part) {
  return "model.layers." + std::to_string(layer) + "." + part + ".bias";
}

std::string LayerBlockName(int32_t layer) {
  return "layer " + std::to_string(layer);
}

void ParameterLayout::BeginBlock(const std::string& name) {
  blocks_.push_back({name, size_, 0});
}

void ParameterLayout::Add(const std::string& name, int64_t rows, int64_t columns) {
  TensorSlot slot;
  slot.name = name;
  slot.rows = rows;
  slot.columns = columns;
  slot.offset = size_;
  slot.block = static_cast<int32_t>(blocks_.size()) - 1;
  slot.is_bias = name.ends_with(".bias");
  // By name: a matrix that is split may have one column.
  slot.decays = !slot.is_bias && !name.ends_with("norm.weight");
  slot.is_hidden_matrix = slot.decays && name.starts_with("model.layers.");
  slot.is_residual_output = name.ends_with(".o_proj.weight") || name.ends_with(".down_proj.weight");
  size_ += slot.size();
  blocks_.back().size += slot.size();
  tensors_.push_back(std::move(slot));
}

void ParameterLayout::AddLayer(const TransformerConfig& config, int32_t layer, int32_t shards) {
  const int64_t d = config.hidden;
  const int64_t q = d / shards;
  const int64_t kv = int64_t{config.kv_heads} * config.head_size() / shards;
  const int64_t ffn = config.ffn / shards;
  BeginBlock(LayerBlockName(layer));
  Add(LayerTensorName(layer, "input_layernorm"), d, 1);
  Add(LayerTensorName(layer, "self_attn.q_proj"), q, d);
  Add(LayerTensorName(layer, "self_attn.k_proj"), kv, d);
  Add(LayerTensorName(layer, "self_attn.v_proj"), kv, d);
  if (config.qkv_bias) {
    Add(LayerBiasName(layer, "self_attn.q_proj"), q, 1);
    Add(LayerBiasName(layer, "self_attn.k_proj"), kv, 1);
    Add(LayerBiasName(layer, "self_attn.v_proj"), kv, 1);
  }
  Add(LayerTensorName(layer, "self_attn.o_proj"), d, q);
  Add(LayerTensorName(layer, "post_attention_layernorm"), d, 1);
  Add(LayerTensorName(layer, "mlp.gate_proj"), ffn, d);
  Add(LayerTensorName(layer, "mlp.up_proj"), ffn, d);
  Add(LayerTensorName(layer, "mlp.down_proj"), d, ffn);
}

ParameterLayout ParameterLayout::ForStage(const TransformerConfig& config, int32_t first_layer,
                                          int32_t last_layer, bool holds_ends,
                                          const TensorShard& shard) {
  SKERRY_CHECK(0 <= first_layer && first_layer <= last_layer && last_layer <= config.layers,
               "a stage is a range of the model's layers");
  ParameterLayout layout;
  const int64_t rows = VocabRowsOf(config.vocab, shard).size;
  if (holds_ends) {
    layout.BeginBlock("embedding");
    layout.Add("model.embed_tokens.weight", rows, config.hidden);
  }
  for (int32_t layer = first_layer; layer < last_layer; ++layer)
    layout.AddLayer(config, layer, shard.devices);
  if (holds_ends) {
    layout.BeginBlock("head");
    layout.Add("model.norm.weight", config.hidden, 1);
    if (!config.tied_head) layout.Add("lm_head.weight", rows, config.hidden);
  }
  return layout;
}

ParameterLayout ParameterLayout::ForModel(const TransformerConfig& config) {
  return ForStage(config, 0, config.layers, true);
}

const TensorSlot* ParameterLayout::Find(const std::string& name) const {
  const auto it = std::find_if(tensors_.begin(), tensors_.end(),
                               [&](const TensorSlot& slot) { return slot.name == name; });
  return it == tensors_.end() ? nullptr : &*it;
}

int64_t CopyTensors(const ParameterLayout& from_layout, std::span<const float> from,
                    const ParameterLayout& to_layout, std::span<float> to) {
  SKERRY_CHECK(static_cast<int64_t>(from.size()) == from_layout.size());
  SKERRY_CHECK(static_cast<int64_t>(to.size()) == to_layout.size());
  int64_t copied = 0;
  for (const TensorSlot& slot : from_layout.tensors()) {
    const TensorSlot* target = to_layout.Find(slot.name);
    if (target == nullptr) continue;
    SKERRY_CHECK(target->rows == slot.rows && target->columns == slot.columns,
                 "layouts of one configuration");
    std::copy_n(from.begin() + slot.offset, slot.size(), to.begin() + target->offset);
    ++copied;
  }
  return copied;
}

}  // namespace skerry
