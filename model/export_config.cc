#include <charconv>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "common/status.h"
#include "model/export.h"

namespace skerry {
namespace {

using Json = nlohmann::ordered_json;

// 1e-05f as 1e-05, not as 9.999999747378752e-06: the shortest text that reads back as this float.
double Shortest(float value) {
  char text[32];
  const auto result = std::to_chars(text, text + sizeof(text) - 1, value);
  *result.ptr = '\0';
  return std::strtod(text, nullptr);
}

// Reads keys and remembers the first that does not fit.
class ConfigReader {
 public:
  explicit ConfigReader(const Json& json) : json_(json) {}

  int32_t Size(const char* key, int32_t max, int32_t fallback = 0) {
    if (!Has(key) && fallback > 0) return fallback;
    const Json value = Has(key) ? json_[key] : Json();
    if (value.is_number_unsigned() && value.get<uint64_t>() >= 1 &&
        value.get<uint64_t>() <= static_cast<uint64_t>(max)) {
      return value.get<int32_t>();
    }
    Fail(InvalidArgument("%s: want a whole number from 1 to %d", key, max));
    return 1;
  }

  float Positive(const char* key, float fallback) {
    if (!Has(key)) return fallback;
    const double value = json_[key].is_number() ? json_[key].get<double>() : 0;
    if (std::isfinite(value) && value > 0 && value < 1e12) return static_cast<float>(value);
    Fail(InvalidArgument("%s: want a positive number", key));
    return fallback;
  }

  bool Flag(const char* key) {
    if (!Has(key)) return false;
    if (json_[key].is_boolean()) return json_[key].get<bool>();
    Fail(InvalidArgument("%s: want true or false", key));
    return false;
  }

  void Want(const char* key, const Json& only) {
    if (Has(key) && json_[key] != only) {
      Fail(InvalidArgument("%s: this program knows only %s", key, only.dump()));
    }
  }

  void Fail(absl::Status status) {
    if (status_.ok()) status_ = std::move(status);
  }
  const absl::Status& status() const { return status_; }

 private:
  bool Has(const char* key) const { return json_.contains(key) && !json_[key].is_null(); }
  const Json& json_;
  absl::Status status_;
};

}  // namespace

std::string HuggingFaceConfigText(const TransformerConfig& config) {
  Json json;
  json["architectures"] = {"LlamaForCausalLM"};
  json["model_type"] = "llama";
  json["vocab_size"] = config.vocab;
  json["hidden_size"] = config.hidden;
  json["intermediate_size"] = config.ffn;
  json["num_hidden_layers"] = config.layers;
  json["num_attention_heads"] = config.heads;
  json["num_key_value_heads"] = config.kv_heads;
  json["head_dim"] = config.head_size();
  json["max_position_embeddings"] = config.context;
  json["rope_theta"] = Shortest(config.rope_base);
  json["rms_norm_eps"] = Shortest(config.norm_epsilon);
  json["tie_word_embeddings"] = config.tied_head;
  json["hidden_act"] = "silu";
  json["attention_bias"] = false;
  json["mlp_bias"] = false;
  json["initializer_range"] = 0.02;
  json["torch_dtype"] = "float32";
  // The byte vocabulary has no special tokens.
  json["bos_token_id"] = nullptr;
  json["eos_token_id"] = nullptr;
  json["pad_token_id"] = nullptr;
  return json.dump(2) + "\n";
}

absl::StatusOr<TransformerConfig> ParseHuggingFaceConfig(const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return InvalidArgument("not a JSON object");
  ConfigReader reader(json);
  reader.Want("model_type", "llama");
  reader.Want("hidden_act", "silu");
  reader.Want("attention_bias", false);
  reader.Want("mlp_bias", false);
  reader.Want("rope_scaling", nullptr);
  TransformerConfig config;
  config.vocab = reader.Size("vocab_size", 1 << 20);
  config.hidden = reader.Size("hidden_size", 1 << 16);
  config.layers = reader.Size("num_hidden_layers", 1 << 10);
  config.heads = reader.Size("num_attention_heads", 1 << 10);
  config.kv_heads = reader.Size("num_key_value_heads", 1 << 10, config.heads);
  config.ffn = reader.Size("intermediate_size", 1 << 18);
  config.context = reader.Size("max_position_embeddings", 1 << 20);
  config.rope_base = reader.Positive("rope_theta", 10000.0f);
  config.norm_epsilon = reader.Positive("rms_norm_eps", 1e-6f);
  config.tied_head = reader.Flag("tie_word_embeddings");
  const int32_t head_size = reader.Size("head_dim", 1 << 16, config.head_size());
  if (config.hidden % config.heads != 0 || config.heads % config.kv_heads != 0 ||
      head_size != config.head_size() || head_size % 2 != 0) {
    reader.Fail(InvalidArgument("hidden_size %d, %d heads of %d and %d key-value heads do not fit",
                                config.hidden, config.heads, head_size, config.kv_heads));
  }
  SKERRY_RETURN_IF_ERROR(reader.status());
  return config;
}

}  // namespace skerry
