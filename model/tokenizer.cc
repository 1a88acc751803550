#include "model/tokenizer.h"

#include <nlohmann/json.hpp>
#include <unordered_map>

#include "model/unicode.h"

namespace skerry {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

std::vector<std::string> ByteCharacters() {
  std::vector<std::string> characters(256);
  uint32_t next = 256;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool printable =
        (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    AppendUtf8(printable ? byte : next++, characters[byte]);
  }
  return characters;
}

std::optional<std::string> BytesOfCharacters(const std::string& token) {
  static const auto bytes = [] {
    std::unordered_map<uint32_t, char> of;
    const auto characters = ByteCharacters();
    for (size_t b = 0; b < characters.size(); ++b) {
      of[CodePointAt(characters[b], 0).value] = static_cast<char>(b);
    }
    return of;
  }();
  std::string out;
  for (size_t at = 0; at < token.size();) {
    const CodePoint point = CodePointAt(token, at);
    const auto byte = bytes.find(point.value);
    if (byte == bytes.end()) return std::nullopt;
    out += byte->second;
    at += point.bytes;
  }
  return out;
}

std::vector<int32_t> ByteTokenizer::Encode(std::string_view text) {
  const std::span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(text.data()), text.size());
  return {bytes.begin(), bytes.end()};
}

std::string ByteTokenizer::Decode(std::span<const int32_t> tokens) {
  std::string text;
  for (const int32_t token : tokens) {
    text += token >= 0 && token < kVocab ? static_cast<char>(token) : '?';
  }
  return text;
}

std::string ByteTokenizer::TokenizerJson() {
  Json vocab = Json::object();
  int id = 0;
  for (const std::string& character : ByteCharacters()) vocab[character] = id++;
  const Json byte_level = {{"type", "ByteLevel"},
                           {"add_prefix_space", false},
                           {"trim_offsets", false},
                           {"use_regex", false}};
  Json json;
  json["version"] = "1.0";
  json["truncation"] = nullptr;
  json["padding"] = nullptr;
  json["added_tokens"] = Json::array();
  json["normalizer"] = nullptr;
  json["pre_tokenizer"] = byte_level;
  json["post_processor"] = nullptr;
  json["decoder"] = byte_level;
  json["model"] = {{"type", "BPE"},
                   {"dropout", nullptr},
                   {"unk_token", nullptr},
                   {"continuing_subword_prefix", nullptr},
                   {"end_of_word_suffix", nullptr},
                   {"fuse_unk", false},
                   {"byte_fallback", false},
                   {"vocab", vocab},
                   {"merges", Json::array()}};
  return json.dump(2) + "\n";
}

std::string ByteTokenizer::TokenizerConfigJson(int32_t context) {
  Json json;
  json["tokenizer_class"] = "PreTrainedTokenizerFast";
  json["model_max_length"] = context;
  json["clean_up_tokenization_spaces"] = false;
  json["note"] = "skerry byte tokenizer: token = byte of the UTF-8 text, no special tokens";
  return json.dump(2) + "\n";
}

}  // namespace skerry
