// config.json of the LLaMA family, read and written. What this program does not know is refused,
// for it may change the mathematics: keys that surely do not are listed here.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>

#include "common/status.h"
#include "model/export.h"

namespace skerry {
namespace {

using Json = nlohmann::ordered_json;

constexpr int32_t kPositionsMax = 1 << 24;
// Same tensors, other mathematics: a type of our own, so that no other program takes it for LLaMA.
constexpr const char* kLadderType = "skerry_ladder";

// Of identity, of how it was saved or trained before, or of how text is generated.
constexpr std::array kHarmless = {"architectures",
                                  "transformers_version",
                                  "torch_dtype",
                                  "dtype",
                                  "use_cache",
                                  "initializer_range",
                                  "bos_token_id",
                                  "eos_token_id",
                                  "pad_token_id",
                                  "unk_token_id",
                                  "sep_token_id",
                                  "max_window_layers",
                                  "pretraining_tp",
                                  "is_llama_config",
                                  "transformers.js_config",
                                  "return_dict",
                                  "temperature",
                                  "do_sample",
                                  "top_p",
                                  "top_k",
                                  "output_attentions",
                                  "output_hidden_states",
                                  "id2label",
                                  "label2id",
                                  "chunk_size_feed_forward",
                                  "tokenizer_class",
                                  "max_length",
                                  "min_length",
                                  "rope_original_max_position_embeddings",
                                  "problem_type",
                                  "name_or_path"};

// 1e-05f as 1e-05, not as 9.999999747378752e-06: the shortest text that reads back as this float.
double Shortest(float value) {
  char text[32];
  const auto result = std::to_chars(text, text + sizeof(text) - 1, value);
  *result.ptr = '\0';
  return std::strtod(text, nullptr);
}

// Reads keys, and remembers the first that does not fit and all that were asked for.
class ConfigReader {
 public:
  explicit ConfigReader(const Json& json, std::string prefix = "")
      : json_(json), prefix_(std::move(prefix)) {}

  int32_t Size(const char* key, int32_t max, int32_t fallback = 0) {
    if (!Has(key) && fallback > 0) return fallback;
    const Json value = Has(key) ? json_[key] : Json();
    if (value.is_number_unsigned() && value.get<uint64_t>() >= 1 &&
        value.get<uint64_t>() <= static_cast<uint64_t>(max)) {
      return value.get<int32_t>();
    }
    Refuse(key, absl::StrFormat("want a whole number from 1 to %d", max));
    return 1;
  }

  // `fallback` 0: it must be there.
  float Positive(const char* key, float fallback) {
    if (!Has(key) && fallback > 0) return fallback;
    const Json value = Has(key) ? json_[key] : Json();
    const double number = value.is_number() ? value.get<double>() : 0;
    if (std::isfinite(number) && number > 0 && number < 1e12) return static_cast<float>(number);
    Refuse(key, "want a positive number");
    return 1;
  }

  bool Flag(const char* key) {
    if (!Has(key)) return false;
    if (json_[key].is_boolean()) return json_[key].get<bool>();
    Refuse(key, "want true or false");
    return false;
  }

  std::string Text(const char* key) {
    if (!Has(key)) return "";
    if (json_[key].is_string()) return json_[key].get<std::string>();
    Refuse(key, "want a text");
    return "";
  }

  // Missing or null is `only`, too.
  void Want(const char* key, const Json& only) {
    if (Has(key) && json_[key] != only) Refuse(key, "this program knows only " + only.dump());
  }

  const Json* Object(const char* key) {
    if (!Has(key)) return nullptr;
    if (json_[key].is_object()) return &json_[key];
    Refuse(key, "want an object");
    return nullptr;
  }

  bool Has(const char* key) {
    asked_.insert(key);
    return json_.contains(key) && !json_[key].is_null();
  }

  // Whatever nobody asked for is refused, unless it is off.
  void EndOfKeys() {
    for (const auto& [key, value] : json_.items()) {
      const bool off = value.is_null() || (value.is_boolean() && !value.get<bool>());
      const bool harmless = key.starts_with("_") ||
                            std::find(kHarmless.begin(), kHarmless.end(), key) != kHarmless.end();
      if (off || harmless || asked_.contains(key)) continue;
      Refuse(key, "this program does not know what it does to the model (" +
                      value.dump(-1, ' ', true).substr(0, 60) + ")");
    }
  }

  void Refuse(const std::string& key, const std::string& why) {
    Fail(InvalidArgument("%s%s: %s", prefix_, key, why));
  }
  void Fail(absl::Status status) {
    if (status_.ok()) status_ = std::move(status);
  }
  const absl::Status& status() const { return status_; }

 private:
  const Json& json_;
  std::string prefix_;
  std::set<std::string> asked_;
  absl::Status status_;
};

// "rope_scaling" of most files, "rope_parameters" of the newest, which has the base, too.
void ReadRope(const Json& json, const char* name, TransformerConfig& config, ConfigReader& outer) {
  ConfigReader reader(json, std::string(name) + ".");
  std::string type = reader.Text("rope_type");
  const std::string older = reader.Text("type");
  if (type.empty())
    type = older.empty() && std::string(name) == "rope_parameters" ? "default" : older;
  config.rope_base = reader.Positive("rope_theta", config.rope_base);
  reader.Want("partial_rotary_factor", 1.0);
  if (type == "linear" || type == "llama3") config.rope_factor = reader.Positive("factor", 0);
  if (type == "linear") {
    config.rope_scaling = RopeScaling::kLinear;
  } else if (type == "llama3") {
    config.rope_scaling = RopeScaling::kLlama3;
    config.rope_low_frequency = reader.Positive("low_freq_factor", 0);
    config.rope_high_frequency = reader.Positive("high_freq_factor", 0);
    config.rope_original_context = reader.Size("original_max_position_embeddings", kPositionsMax);
    if (config.rope_high_frequency <= config.rope_low_frequency) {
      reader.Refuse("high_freq_factor", "want more than low_freq_factor");
    }
  } else if (type != "default") {
    reader.Refuse("rope_type", "this program knows default, linear and llama3, not '" + type + "'");
  }
  reader.EndOfKeys();
  if (config.rope_scaling != RopeScaling::kNone && config.rope_factor < 1) {
    reader.Refuse("factor", "want at least 1");
  }
  outer.Fail(reader.status());
}

void ReadLadder(ConfigReader& reader, TransformerConfig& config) {
  config.ladder = reader.Size("ladder_layers", config.layers);
  config.qkv_bias = reader.Flag("qkv_bias");
  if (config.layers % config.ladder == 0) return;
  reader.Refuse("ladder_layers", absl::StrFormat("%d does not divide num_hidden_layers (%d)",
                                                 config.ladder, config.layers));
}

// Within a window of W positions attention to the last W tokens is attention to all.
void ReadWindow(ConfigReader& reader, bool is_qwen, TransformerConfig& config) {
  const bool in_use = is_qwen ? reader.Flag("use_sliding_window") : true;
  if (!reader.Has("sliding_window") || !in_use) return;
  config.positions = std::min(config.positions, reader.Size("sliding_window", kPositionsMax));
}

void ReadLayerTypes(const Json& json, ConfigReader& reader) {
  if (!reader.Has("layer_types")) return;
  const Json& types = json["layer_types"];
  const bool all_full = types.is_array() && std::all_of(types.begin(), types.end(), [](auto& type) {
                          return type == "full_attention" || type == "sliding_attention";
                        });
  const bool slides =
      types.is_array() && std::find(types.begin(), types.end(), "sliding_attention") != types.end();
  if (!all_full || (slides && !reader.Has("sliding_window"))) {
    reader.Refuse("layer_types", "this program knows only full_attention");
  }
}

void ReadSizes(ConfigReader& reader, const std::string& type, TransformerConfig& config) {
  config.vocab = reader.Size("vocab_size", 1 << 20);
  config.hidden = reader.Size("hidden_size", 1 << 16);
  config.layers = reader.Size("num_hidden_layers", 1 << 10);
  config.heads = reader.Size("num_attention_heads", 1 << 10);
  config.kv_heads = reader.Size("num_key_value_heads", 1 << 10, type == "llama" ? config.heads : 0);
  config.ffn = reader.Size("intermediate_size", 1 << 18);
  config.positions = reader.Size("max_position_embeddings", kPositionsMax);
  config.norm_epsilon = reader.Positive("rms_norm_eps", 1e-6f);
  config.tied_head = reader.Flag("tie_word_embeddings");
  config.rope_base = reader.Positive("rope_theta", 10000.0f);
  const int32_t head_size = reader.Size("head_dim", 1 << 16, config.head_size());
  if (config.hidden % config.heads != 0 || config.heads % config.kv_heads != 0 ||
      head_size != config.head_size() || head_size % 2 != 0) {
    reader.Fail(InvalidArgument("hidden_size %d, %d heads of %d and %d key-value heads do not fit",
                                config.hidden, config.heads, head_size, config.kv_heads));
  }
}

Json RopeScalingJson(const TransformerConfig& config) {
  if (config.rope_scaling == RopeScaling::kLinear) {
    return {{"rope_type", "linear"}, {"factor", Shortest(config.rope_factor)}};
  }
  return {{"rope_type", "llama3"},
          {"factor", Shortest(config.rope_factor)},
          {"low_freq_factor", Shortest(config.rope_low_frequency)},
          {"high_freq_factor", Shortest(config.rope_high_frequency)},
          {"original_max_position_embeddings", config.rope_original_context}};
}

}  // namespace

std::string HuggingFaceConfigText(const TransformerConfig& config, StoredType type,
                                  const std::string& origin) {
  static constexpr const char* kTypes[] = {"float32", "bfloat16", "float16"};
  Json json;
  const bool is_ladder = config.ladder > 0;
  json["architectures"] = {is_ladder         ? "SkerryLadderForCausalLM"
                           : config.qkv_bias ? "Qwen2ForCausalLM"
                                             : "LlamaForCausalLM"};
  json["model_type"] = is_ladder ? kLadderType : config.qkv_bias ? "qwen2" : "llama";
  if (is_ladder) {
    json["ladder_layers"] = config.ladder;
    json["qkv_bias"] = config.qkv_bias;
  }
  json["vocab_size"] = config.vocab;
  json["hidden_size"] = config.hidden;
  json["intermediate_size"] = config.ffn;
  json["num_hidden_layers"] = config.layers;
  json["num_attention_heads"] = config.heads;
  json["num_key_value_heads"] = config.kv_heads;
  json["head_dim"] = config.head_size();
  json["max_position_embeddings"] = std::max(config.positions, config.context);
  json["rope_theta"] = Shortest(config.rope_base);
  if (config.rope_scaling != RopeScaling::kNone) json["rope_scaling"] = RopeScalingJson(config);
  json["rms_norm_eps"] = Shortest(config.norm_epsilon);
  json["tie_word_embeddings"] = config.tied_head;
  json["hidden_act"] = "silu";
  json["attention_bias"] = false;
  json["mlp_bias"] = false;
  if (config.qkv_bias && !is_ladder) {  // implied by the type, and not known by these keys
    json.erase("attention_bias");
    json.erase("mlp_bias");
    json["use_sliding_window"] = false;
  }
  json["initializer_range"] = 0.02;
  json["torch_dtype"] = kTypes[static_cast<size_t>(type)];
  // The byte vocabulary has no special tokens.
  const Json before = Json::parse(origin, nullptr, false);
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"}) {
    json[key] = before.is_object() && before.contains(key) ? before[key] : Json();
  }
  return json.dump(2) + "\n";
}

absl::StatusOr<TransformerConfig> ParseHuggingFaceConfig(const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return InvalidArgument("not a JSON object");
  ConfigReader reader(json);
  const std::string type = reader.Text("model_type");
  const bool is_ladder = type == kLadderType;
  if (type != "llama" && type != "mistral" && type != "qwen2" && !is_ladder) {
    return InvalidArgument("model_type: this program knows llama, mistral, qwen2 and %s, not '%s'",
                           kLadderType, type);
  }
  TransformerConfig config;
  ReadSizes(reader, type, config);
  config.qkv_bias = type == "qwen2";
  if (is_ladder) ReadLadder(reader, config);
  reader.Want("hidden_act", "silu");
  reader.Want("attention_bias", type == "qwen2");
  reader.Want("mlp_bias", false);
  reader.Want("attention_dropout", 0.0);
  reader.Want("rope_interleaved", false);
  reader.Want("partial_rotary_factor", 1.0);
  if (type != "llama" && !is_ladder) ReadWindow(reader, type == "qwen2", config);
  ReadLayerTypes(json, reader);
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const Json* rope = reader.Object(key);
    if (rope != nullptr) ReadRope(*rope, key, config, reader);
  }
  config.context = std::min(config.positions, 1 << 20);
  reader.EndOfKeys();
  SKERRY_RETURN_IF_ERROR(reader.status());
  return config;
}

}  // namespace skerry
