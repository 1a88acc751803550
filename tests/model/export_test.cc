#include "model/export.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "common/status.h"
#include "model/parameter_layout.h"
#include "model/safetensors.h"
#include "tests/model/temporary_directory.h"

namespace skerry {
namespace {

TransformerConfig SmallModel(bool tied) {
  TransformerConfig config;
  config.hidden = 8;
  config.layers = 2;
  config.heads = 4;
  config.kv_heads = 2;
  config.ffn = 6;
  config.context = 32;
  config.rope_base = 500000.0f;
  config.norm_epsilon = 1e-5f;
  config.tied_head = tied;
  return config;
}

std::vector<float> Numbered(const TransformerConfig& config) {
  std::vector<float> values(static_cast<size_t>(ParameterLayout::ForModel(config).size()));
  std::iota(values.begin(), values.end(), -100.0f);
  return values;
}

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("Export: a model read back is the same model", "[model]") {
  const TransformerConfig config = SmallModel(GENERATE(true, false));
  const std::vector<float> parameters = Numbered(config);
  const TemporaryDirectory directory;

  REQUIRE(WriteHuggingFace(directory.Join("model"), config, parameters).ok());
  const auto model = ReadHuggingFace(directory.Join("model"));

  REQUIRE(model.ok());
  TransformerConfig as_declared = config;
  as_declared.positions = config.context;
  CHECK(model->config == as_declared);
  CHECK(model->parameters == parameters);
}

TEST_CASE("Export: several files and their index are read back as one model", "[model]") {
  const TransformerConfig config = SmallModel(true);
  const std::vector<float> parameters = Numbered(config);
  const TemporaryDirectory directory;
  ExportOptions options;
  options.file_bytes_max = 4000;

  REQUIRE(WriteHuggingFace(directory.path(), config, StreamOf(parameters), options).ok());

  CHECK(std::filesystem::exists(directory.Join("model.safetensors.index.json")));
  CHECK_FALSE(std::filesystem::exists(directory.Join("model.safetensors")));
  CHECK(ReadHuggingFace(directory.path())->parameters == parameters);
}

TEST_CASE("Export: bf16 and f16 round to nearest", "[model]") {
  const TransformerConfig config = SmallModel(false);
  const StoredType type = GENERATE(StoredType::kBf16, StoredType::kF16);
  std::vector<float> parameters = Numbered(config);
  const std::vector<float> few = {1 + 0x1.8p-8f, 1 + 0x1p-8f, 0x1p-20f, 65504.0f, -0x1.002p3f};
  std::copy(few.begin(), few.end(), parameters.begin());
  ExportOptions options;
  options.type = type;
  const TemporaryDirectory directory;

  REQUIRE(WriteHuggingFace(directory.path(), config, StreamOf(parameters), options).ok());

  const auto read = ReadHuggingFace(directory.path())->parameters;
  const std::vector<float> got(read.begin(), read.begin() + 5);
  const std::vector<float> bf16 = {1 + 0x1p-7f, 1, 0x1p-20f, 65536.0f, -8.0f};
  const std::vector<float> f16 = {1 + 0x1.8p-8f, 1 + 0x1p-8f, 0x1p-20f, 65504.0f, -8.0f};
  CHECK(got == (type == StoredType::kBf16 ? bf16 : f16));
}

TEST_CASE("Export: special tokens and tokenizer files go along with the model", "[model]") {
  const TransformerConfig config = SmallModel(false);
  const TemporaryDirectory directory;
  std::filesystem::create_directory(directory.Join("tokenizer"));
  WriteFile(directory.Join("tokenizer/config.json"), R"({"bos_token_id": 5, "eos_token_id": [6]})");
  WriteFile(directory.Join("tokenizer/tokenizer.json"), "{}");
  ExportOptions options;
  options.tokenizer = directory.Join("tokenizer");

  REQUIRE(WriteHuggingFace(directory.Join("m"), config, StreamOf(Numbered(config)), options).ok());

  CHECK(ReadFile(directory.Join("m/config.json")).find("\"bos_token_id\": 5") != std::string::npos);
  CHECK(ReadFile(directory.Join("m/tokenizer.json")) == "{}");
}

TEST_CASE("Export: config.json says what transformers wants to know", "[model]") {
  const std::string text = HuggingFaceConfigText(SmallModel(false));

  for (const char* line :
       {"\"LlamaForCausalLM\"", "\"model_type\": \"llama\"", "\"num_key_value_heads\": 2",
        "\"head_dim\": 2", "\"rms_norm_eps\": 1e-05", "\"rope_theta\": 500000.0",
        "\"tie_word_embeddings\": false", "\"intermediate_size\": 6"}) {
    INFO(line);
    CHECK(text.find(line) != std::string::npos);
  }
}

TEST_CASE("Export: a model with a ladder is of a type of its own, and read back as it was",
          "[model][ladder]") {
  TransformerConfig config = SmallModel(false);
  config.ladder = GENERATE(1, 2);
  config.qkv_bias = GENERATE(false, true);
  const std::vector<float> parameters = Numbered(config);
  const TemporaryDirectory directory;
  REQUIRE(WriteHuggingFace(directory.Join("model"), config, parameters).ok());
  const std::string text = ReadFile(directory.Join("model/config.json"));
  CHECK(text.find("\"model_type\": \"skerry_ladder\"") != std::string::npos);
  CHECK(text.find("Llama") == std::string::npos);
  CHECK(text.find("Qwen2") == std::string::npos);
  const auto model = ReadHuggingFace(directory.Join("model"));
  REQUIRE(model.ok());
  config.positions = config.context;
  CHECK(model->config == config);
  CHECK(model->parameters == parameters);
}

TEST_CASE("Export: a ladder that does not fit is refused, and so is a LLaMA that claims one",
          "[model][ladder][error]") {
  TransformerConfig config = SmallModel(false);
  config.ladder = 2;
  const std::string text = HuggingFaceConfigText(config);
  const std::string layers = "\"num_hidden_layers\": 2";
  CHECK(ErrorText(
            ParseHuggingFaceConfig(Replaced(text, layers, "\"num_hidden_layers\": 3")).status()) ==
        "ladder_layers: 2 does not divide num_hidden_layers (3)");
  const std::string ladder = "\"ladder_layers\": 2";
  CHECK(ErrorText(ParseHuggingFaceConfig(Replaced(text, ladder, "\"ladder_layers\": 0")).status())
            .find("ladder_layers: want a whole number from 1 to 2") == 0);
  const auto claimed = ParseHuggingFaceConfig(Replaced(text, "skerry_ladder", "llama"));
  CHECK(ErrorText(claimed.status())
            .find("ladder_layers: this program does not know what it does to the model") == 0);
}

TEST_CASE("Export: norms are vectors and matrices [out, in]", "[model]") {
  const TransformerConfig config = SmallModel(false);
  const TemporaryDirectory directory;
  REQUIRE(WriteHuggingFace(directory.path(), config, Numbered(config)).ok());

  const auto file = *SafetensorsFile::Open(directory.Join("model.safetensors"));

  CHECK(file->CheckShape("model.norm.weight", {8}).ok());
  CHECK(file->CheckShape("model.layers.1.self_attn.k_proj.weight", {4, 8}).ok());
  CHECK(file->CheckShape("model.layers.1.mlp.down_proj.weight", {8, 6}).ok());
}

TEST_CASE("Export: a model that is not finite is not written", "[model][error]") {
  const TransformerConfig config = SmallModel(false);
  std::vector<float> parameters = Numbered(config);
  parameters[parameters.size() - 1] = NAN;
  const TemporaryDirectory directory;

  const absl::Status status = WriteHuggingFace(directory.Join("model"), config, parameters);

  CHECK(absl::IsInvalidArgument(status));
  CHECK(ErrorText(status).find("lm_head.weight") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(directory.Join("model")));
}

TEST_CASE("Export: weights that do not fit config.json are refused by name", "[model][error]") {
  const TransformerConfig config = SmallModel(false);
  const TemporaryDirectory directory;
  REQUIRE(WriteHuggingFace(directory.path(), config, Numbered(config)).ok());
  const std::string text = HuggingFaceConfigText(config);
  struct Case {
    std::string from, to, names;
  };
  const Case wrong =
      GENERATE(Case{"\"intermediate_size\": 6", "\"intermediate_size\": 7", "mlp.gate_proj"},
               Case{"\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3", "model.layers.2"},
               Case{"\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1", "model.layers.1"},
               Case{"\"tie_word_embeddings\": false", "\"tie_word_embeddings\": true", "lm_head"});
  INFO(wrong.to);
  WriteFile(directory.Join("config.json"), Replaced(text, wrong.from, wrong.to));

  const auto model = ReadHuggingFace(directory.path());

  REQUIRE_FALSE(model.ok());
  CHECK(ErrorText(model.status()).find(wrong.names) != std::string::npos);
}

TEST_CASE("Export: a config of another architecture is refused by key", "[model][error]") {
  const std::string text = HuggingFaceConfigText(SmallModel(false));
  struct Case {
    std::string from, to, key;
  };
  const Case wrong = GENERATE(
      Case{"\"model_type\": \"llama\"", "\"model_type\": \"gpt2\"", "model_type"},
      Case{"\"attention_bias\": false", "\"attention_bias\": true", "attention_bias"},
      Case{"\"mlp_bias\": false", "\"rope_scaling\": {\"factor\": 8}", "rope_scaling"},
      Case{"\"hidden_size\": 8", "\"hidden_size\": -8", "hidden_size"},
      Case{"\"hidden_size\": 8", "\"hidden_size\": 9", "hidden_size"},
      Case{"\"hidden_size\": 8", "\"hidden_size\": 99999999999999999999", "hidden_size"},
      Case{"\"vocab_size\": 256", "\"vocab_size\": \"256\"", "vocab_size"},
      Case{"\"rope_theta\": 500000.0", "\"rope_theta\": -1", "rope_theta"},
      Case{"\"mlp_bias\": false", "\"logit_scale\": 0.5", "logit_scale"},
      Case{"\"mlp_bias\": false", "\"rope_scaling\": {\"rope_type\": \"yarn\"}", "yarn"},
      Case{"\"mlp_bias\": false", "\"rope_scaling\": {\"type\": \"linear\"}", "factor"},
      Case{"\"mlp_bias\": false", "\"attention_dropout\": 0.1", "attention_dropout"},
      Case{"\"mlp_bias\": false", "\"layer_types\": [\"linear_attention\"]", "layer_types"},
      Case{"\"mlp_bias\": false", "\"quantization_config\": {\"bits\": 4}", "quantization"},
      Case{"\"head_dim\": 2", "\"head_dim\": 4", "heads of 4"});
  INFO(wrong.to);

  const auto config = ParseHuggingFaceConfig(Replaced(text, wrong.from, wrong.to));

  REQUIRE_FALSE(config.ok());
  CHECK(ErrorText(config.status()).find(wrong.key) != std::string::npos);
}

}  // namespace skerry
