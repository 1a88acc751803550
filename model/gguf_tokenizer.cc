#include "model/gguf_tokenizer.h"

#include <unistd.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "common/status.h"
#include "model/file_io.h"
#include "model/tokenizer.h"

namespace skerry {
namespace {

using Json = nlohmann::json;

constexpr int64_t kTokenizerBytesMax = 256 << 20;
constexpr int64_t kConfigBytesMax = 1 << 20;

// ggml's kinds of tokens.
enum TokenKind : int32_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6
};

// Which of the ways to cut text before merges GGUF's programs are to take; they know them by name.
std::string PreTokenizerName(const std::string& pre_tokenizer) {
  if (pre_tokenizer.find("\\p{N}{1,3}") != std::string::npos) return "llama-bpe";
  if (pre_tokenizer.find("|\\\\p{N}|") != std::string::npos) return "qwen2";
  return pre_tokenizer.find("Regex") == std::string::npos ? "gpt-2" : "default";
}

std::string MergeText(const Json& merge) {
  if (merge.is_string()) return merge.get<std::string>();
  return merge.is_array() && merge.size() == 2
             ? merge[0].get<std::string>() + " " + merge[1].get<std::string>()
             : "";
}

struct Vocabulary {
  std::vector<std::string> tokens;
  std::vector<int32_t> kinds;
  explicit Vocabulary(int32_t vocab) {
    for (int32_t i = 0; i < vocab; ++i) tokens.push_back(absl::StrFormat("[PAD%d]", i));
    kinds.resize(tokens.size(), kUnused);
  }
  absl::Status Put(const std::string& text, const Json& id, TokenKind kind) {
    const auto at = id.is_number_unsigned() ? id.get<uint64_t>() : UINT64_MAX;
    if (at >= tokens.size()) {
      return InvalidArgument("tokenizer.json: token '%s' is outside the vocabulary of %d", text,
                             tokens.size());
    }
    tokens[at] = text;
    kinds[at] = kind;
    return absl::OkStatus();
  }
};

bool IsByte(const std::string& token) {
  return token.size() == 6 && token.starts_with("<0x") && token.ends_with(">");
}

absl::Status AddBpe(const Json& json, int32_t vocab, GgufKeys& keys) {
  const Json& model = json.at("model");
  const bool byte_fallback = model.value("byte_fallback", false);
  Vocabulary vocabulary(vocab);
  for (const auto& [text, id] : model.at("vocab").items()) {
    const TokenKind kind = byte_fallback && IsByte(text) ? kByte : kNormal;
    SKERRY_RETURN_IF_ERROR(vocabulary.Put(text, id, kind));
  }
  for (const Json& added : json.value("added_tokens", Json::array())) {
    const std::string text = added.at("content");
    const bool unknown = model.contains("unk_token") && model["unk_token"] == text;
    const TokenKind kind = unknown                         ? kUnknown
                           : added.value("special", false) ? kControl
                                                           : kUserDefined;
    SKERRY_RETURN_IF_ERROR(vocabulary.Put(text, added.at("id"), kind));
  }
  keys.Add("tokenizer.ggml.model", std::string(byte_fallback ? "llama" : "gpt2"));
  keys.Add("tokenizer.ggml.tokens", vocabulary.tokens);
  keys.Add("tokenizer.ggml.token_type", vocabulary.kinds);
  if (byte_fallback) {  // merged in the order of scores, which is that of the vocabulary
    std::vector<float> scores;
    for (int32_t i = 0; i < vocab; ++i) scores.push_back(-static_cast<float>(i));
    keys.Add("tokenizer.ggml.scores", scores);
    return absl::OkStatus();
  }
  std::vector<std::string> merges;
  for (const Json& merge : model.at("merges")) merges.push_back(MergeText(merge));
  keys.Add("tokenizer.ggml.pre", PreTokenizerName(json.value("pre_tokenizer", Json()).dump()));
  keys.Add("tokenizer.ggml.merges", merges);
  return absl::OkStatus();
}

void AddSpecial(const std::string& directory, GgufKeys& keys) {
  const auto text = ReadSmallFile(directory + "/config.json", kConfigBytesMax);
  const Json config = text.ok() ? Json::parse(*text, nullptr, false) : Json();
  if (!config.is_object()) return;
  for (const auto& [key, name] : {std::pair{"bos_token_id", "tokenizer.ggml.bos_token_id"},
                                  std::pair{"eos_token_id", "tokenizer.ggml.eos_token_id"}}) {
    if (!config.contains(key)) continue;
    const Json& value =
        config[key].is_array() && !config[key].empty() ? config[key][0] : config[key];
    if (value.is_number_unsigned()) keys.Add(name, value.get<uint32_t>());
  }
}

}  // namespace

absl::Status AddGgufTokenizer(const std::string& directory, int32_t vocab, GgufKeys& keys) {
  std::string text = ByteTokenizer::TokenizerJson();
  if (!directory.empty()) {
    const std::string path = directory + "/tokenizer.json";
    if (access(path.c_str(), F_OK) != 0) return absl::OkStatus();
    SKERRY_ASSIGN_OR_RETURN(text, ReadSmallFile(path, kTokenizerBytesMax));
  } else if (vocab != ByteTokenizer::kVocab) {
    return absl::OkStatus();
  }
  const Json json = Json::parse(text, nullptr, false);
  try {
    if (json.at("model").at("type") != "BPE") {
      return InvalidArgument("tokenizer.json: GGUF is written of BPE tokenizers, not of %s",
                             json.at("model").at("type").dump());
    }
    SKERRY_RETURN_IF_ERROR(AddBpe(json, vocab, keys));
  } catch (const Json::exception& error) {
    return InvalidArgument("tokenizer.json: %s", error.what());
  }
  if (!directory.empty()) AddSpecial(directory, keys);
  return absl::OkStatus();
}

}  // namespace skerry
