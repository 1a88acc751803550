#include "model/parameter_layout.h"

#include <catch2/catch.hpp>
#include <numeric>

namespace skerry {
namespace {

TransformerConfig SmallModel() {
  TransformerConfig config;
  config.vocab = 10;
  config.hidden = 8;
  config.layers = 3;
  config.heads = 4;
  config.kv_heads = 2;
  config.ffn = 6;
  return config;
}

std::vector<std::string> Names(const ParameterLayout& layout) {
  std::vector<std::string> names;
  for (const TensorSlot& slot : layout.tensors()) names.push_back(slot.name);
  return names;
}

}  // namespace

TEST_CASE("ParameterLayout: a stage in the middle has its layers under Hugging Face names",
          "[model]") {
  const auto layout = ParameterLayout::ForStage(SmallModel(), 1, 2, false);

  CHECK(Names(layout) ==
        std::vector<std::string>{
            "model.layers.1.input_layernorm.weight", "model.layers.1.self_attn.q_proj.weight",
            "model.layers.1.self_attn.k_proj.weight", "model.layers.1.self_attn.v_proj.weight",
            "model.layers.1.self_attn.o_proj.weight",
            "model.layers.1.post_attention_layernorm.weight", "model.layers.1.mlp.gate_proj.weight",
            "model.layers.1.mlp.up_proj.weight", "model.layers.1.mlp.down_proj.weight"});
  // norms 2·8, q and o 2·8·8, k and v 2·4·8, gate, up and down 3·6·8
  CHECK(layout.size() == 16 + 128 + 64 + 144);
}

TEST_CASE("ParameterLayout: stage 0 begins with the embedding and ends with norm and head",
          "[model]") {
  const auto layout = ParameterLayout::ForStage(SmallModel(), 0, 0, true);

  CHECK(Names(layout) == std::vector<std::string>{"model.embed_tokens.weight", "model.norm.weight",
                                                  "lm_head.weight"});
  CHECK(layout.size() == 80 + 8 + 80);
}

TEST_CASE("ParameterLayout: a tied head has no tensor", "[model]") {
  TransformerConfig config = SmallModel();
  config.tied_head = true;

  const auto layout = ParameterLayout::ForModel(config);

  CHECK(layout.Find("lm_head.weight") == nullptr);
  CHECK(layout.tensors().back().name == "model.norm.weight");
}

TEST_CASE("ParameterLayout: tensors tile the arena, blocks too, and only matrices decay",
          "[model]") {
  const auto layout = ParameterLayout::ForModel(SmallModel());

  int64_t at = 0;
  for (const TensorSlot& slot : layout.tensors()) {
    CHECK(slot.offset == at);
    CHECK(slot.decays == (slot.name.find("norm") == std::string::npos));
    const ParameterBlock& block = layout.blocks()[static_cast<size_t>(slot.block)];
    CHECK(slot.offset >= block.offset);
    CHECK(slot.offset + slot.size() <= block.offset + block.size);
    at += slot.size();
  }
  CHECK(at == layout.size());
  at = 0;
  for (const ParameterBlock& block : layout.blocks()) {
    CHECK(block.offset == at);
    at += block.size;
  }
  CHECK(at == layout.size());
  CHECK(layout.blocks().size() == 5);
  CHECK(layout.blocks()[2].name == "layer 1");
}

TEST_CASE("ParameterLayout: what feeds the residual stream is known", "[model]") {
  const auto layout = ParameterLayout::ForModel(SmallModel());

  CHECK(layout.Find("model.layers.0.self_attn.o_proj.weight")->is_residual_output);
  CHECK(layout.Find("model.layers.2.mlp.down_proj.weight")->is_residual_output);
  CHECK_FALSE(layout.Find("model.layers.2.mlp.up_proj.weight")->is_residual_output);
  CHECK_FALSE(layout.Find("lm_head.weight")->is_residual_output);
}

TEST_CASE("CopyTensors: stages put together give the model", "[model]") {
  const TransformerConfig config = SmallModel();
  const auto model = ParameterLayout::ForModel(config);
  std::vector<float> want(static_cast<size_t>(model.size()));
  std::iota(want.begin(), want.end(), 1.0f);
  std::vector<float> got(want.size());

  int64_t copied = 0;
  for (const auto& [first, last] : {std::pair{0, 1}, std::pair{1, 3}}) {
    const auto layout = ParameterLayout::ForStage(config, first, last, first == 0);
    std::vector<float> stage(static_cast<size_t>(layout.size()));
    CopyTensors(model, want, layout, stage);
    copied += CopyTensors(layout, stage, model, got);
  }

  CHECK(copied == static_cast<int64_t>(model.tensors().size()));
  CHECK(got == want);
}

}  // namespace skerry
