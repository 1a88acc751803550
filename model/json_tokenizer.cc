#include "model/json_tokenizer.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>

#include "common/status.h"
#include "model/added_tokens.h"
#include "model/bpe.h"
#include "model/pre_tokenizer.h"
#include "model/tokenizer.h"
#include "model/unicode.h"

namespace skerry {
namespace {

using Json = nlohmann::json;

constexpr char kVisibleSpace[] = "\xe2\x96\x81";  // U+2581
constexpr int32_t kTokensMax = 1 << 24;

// One step of a pipeline.
struct Normalizer {
  enum class Kind : uint8_t { kNfc, kPrepend, kReplace } kind;
  std::string from, to;
};
struct Cutter {
  enum class Kind : uint8_t { kPattern, kByteLevel, kMetaspace } kind;
  WordPattern pattern = WordPattern::kGpt2;
  bool cuts = false;                        // kByteLevel: by GPT-2's pattern; kMetaspace: at spaces
  bool prefix = false, only_first = false;  // a space comes before the text, before its begin
};

// And changes nothing.
bool OnlyCuts(const Cutter& cutter) {
  return cutter.kind == Cutter::Kind::kPattern ||
         (cutter.kind == Cutter::Kind::kByteLevel && cutter.cuts && !cutter.prefix);
}

void ReplaceAll(std::string& text, const std::string& from, const std::string& to) {
  std::string out;
  size_t at = 0;
  for (size_t found; (found = text.find(from, at)) != std::string::npos; at = found + from.size()) {
    out.append(text, at, found - at);
    out += to;
  }
  text = out.append(text, at);
}

class JsonTokenizer final : public TextTokenizer {
 public:
  absl::Status Parse(const Json& json, const std::string& separator_token);

  int32_t vocab() const override { return vocab_; }
  std::vector<int32_t> Encode(std::string_view text) override;
  std::string Decode(std::span<const int32_t> tokens) const override;
  int32_t IdOf(const std::string& token) const override;
  int32_t separator() const override { return separator_; }

 private:
  absl::Status ParseNormalizer(const Json& json);
  absl::Status ParseCutter(const Json& json);
  absl::Status ParseSplit(const Json& json);
  absl::Status ParseModel(const Json& json);
  absl::Status ParseAdded(const Json& json);
  absl::Status TakeId(const std::string& token, const Json& id, int32_t* out);
  std::string Normalized(std::string_view text) const;
  void EncodeText(const std::string& text, bool is_first, std::vector<int32_t>& out);
  void EncodeWord(std::string_view word, std::vector<int32_t>& out);
  void Cut(const Cutter& cutter, bool is_first, std::vector<std::string>& words) const;
  void ChooseSeparator(const std::string& wished);

  std::vector<Normalizer> normalizers_;
  std::vector<Cutter> cutters_;
  std::vector<std::string_view> parts_;  // of the word that is cut
  bool is_byte_level_ = false;
  bool spaces_begin_words_ = false;  // no token has a visible space but at its begin
  AddedTokens before_, after_;       // normalisation
  BpeModel bpe_;
  std::map<std::string, int32_t> ids_;
  std::vector<std::string> texts_;  // by id, as they decode
  std::vector<bool> special_;
  int32_t vocab_ = 0, separator_ = -1;
};

absl::Status JsonTokenizer::ParseNormalizer(const Json& json) {
  if (json.is_null()) return absl::OkStatus();
  const std::string type = json.at("type");
  if (type == "Sequence") {
    for (const Json& step : json.at("normalizers")) {
      SKERRY_RETURN_IF_ERROR(ParseNormalizer(step));
    }
    return absl::OkStatus();
  }
  using Kind = Normalizer::Kind;
  if (type == "NFC") {
    normalizers_.push_back({Kind::kNfc, "", ""});
  } else if (type == "Prepend") {
    normalizers_.push_back({Kind::kPrepend, "", json.at("prepend")});
  } else if (type == "Replace" && json.at("pattern").contains("String") &&
             json["pattern"]["String"] != "") {
    normalizers_.push_back({Kind::kReplace, json["pattern"]["String"], json.at("content")});
  } else {
    return InvalidArgument("normalizer %s is not known here", json.dump(-1, ' ', true));
  }
  return absl::OkStatus();
}

absl::Status JsonTokenizer::ParseSplit(const Json& json) {
  const Json& pattern = json.at("pattern");
  const auto known = pattern.contains("Regex") ? PatternOf(pattern["Regex"]) : std::nullopt;
  const std::string behavior = json.at("behavior");
  const bool invert = json.value("invert", false);
  // The patterns match all of a text, so what lies between matches is nothing.
  if (!known || (behavior != "Isolated" && !(behavior == "Removed" && invert))) {
    return InvalidArgument("pre_tokenizer %s is not known here", json.dump(-1, ' ', true));
  }
  cutters_.push_back({Cutter::Kind::kPattern, *known});
  return absl::OkStatus();
}

absl::Status JsonTokenizer::ParseCutter(const Json& json) {
  if (json.is_null()) return absl::OkStatus();
  const std::string type = json.at("type");
  if (type == "Split") return ParseSplit(json);
  if (type == "Sequence") {
    for (const Json& step : json.at("pretokenizers")) SKERRY_RETURN_IF_ERROR(ParseCutter(step));
    return absl::OkStatus();
  }
  Cutter cutter = {};
  if (type == "Digits") {
    const bool single = json.value("individual_digits", false);
    cutter.kind = Cutter::Kind::kPattern;
    cutter.pattern = single ? WordPattern::kDigits : WordPattern::kDigitRuns;
  } else if (type == "ByteLevel") {
    is_byte_level_ = true;
    cutter.kind = Cutter::Kind::kByteLevel;
    cutter.prefix = json.value("add_prefix_space", true);
    cutter.cuts = json.value("use_regex", true);
  } else if (type == "Metaspace" && json.value("replacement", "") == kVisibleSpace) {
    const bool older = json.value("add_prefix_space", true);
    const std::string scheme = json.value("prepend_scheme", older ? "always" : "never");
    cutter.kind = Cutter::Kind::kMetaspace;
    cutter.prefix = scheme != "never";
    cutter.only_first = scheme == "first";
    cutter.cuts = json.value("split", true);
  } else {
    return InvalidArgument("pre_tokenizer %s is not known here", json.dump(-1, ' ', true));
  }
  cutters_.push_back(cutter);
  return absl::OkStatus();
}

absl::Status JsonTokenizer::TakeId(const std::string& token, const Json& json, int32_t* out) {
  if (!json.is_number_unsigned() || json.get<uint64_t>() >= kTokensMax) {
    return InvalidArgument("token '%s' has no number from 0 to %d", token, kTokensMax - 1);
  }
  *out = json.get<int32_t>();
  vocab_ = std::max(vocab_, *out + 1);
  const auto at = static_cast<size_t>(*out);
  if (texts_.size() <= at) texts_.resize(at + 1);
  special_.resize(texts_.size());
  texts_[at] = token;
  ids_[token] = *out;
  return absl::OkStatus();
}

std::pair<std::string, std::string> MergeOf(const Json& json) {
  if (json.is_array() && json.size() == 2) return {json[0], json[1]};
  const std::string text = json;
  const size_t space = text.find(' ');
  if (space == std::string::npos) return {text, ""};
  return {text.substr(0, space), text.substr(space + 1)};
}

bool HasSpaceInside(const std::string& token) {
  const size_t first = token.find_first_not_of(kVisibleSpace);
  // find_first_not_of looks at bytes, all of which begin a run of spaces together.
  return first != std::string::npos && token.find(kVisibleSpace, first) != std::string::npos;
}

absl::Status JsonTokenizer::ParseModel(const Json& json) {
  const std::string type = json.value("type", "BPE");
  if (type != "BPE") return InvalidArgument("model %s is not known here, only BPE", type);
  for (const char* key : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"}) {
    const Json value = json.value(key, Json());
    if (!value.is_null() && value != "" && value != 0.0) {
      return InvalidArgument("model.%s %s is not known here", key, value.dump());
    }
  }
  std::unordered_map<std::string, int32_t> symbols;
  spaces_begin_words_ = !is_byte_level_;
  for (const auto& [token, number] : json.at("vocab").items()) {
    int32_t id = 0;
    SKERRY_RETURN_IF_ERROR(TakeId(token, number, &id));
    const auto bytes =
        is_byte_level_ ? BytesOfCharacters(token) : std::optional<std::string>(token);
    if (!bytes) continue;  // a special token
    symbols[*bytes] = id;
    if (is_byte_level_) texts_[static_cast<size_t>(id)] = *bytes;
    spaces_begin_words_ = spaces_begin_words_ && !HasSpaceInside(token);
  }
  std::vector<std::pair<std::string, std::string>> merges;
  for (const Json& entry : json.at("merges")) {
    auto merge = MergeOf(entry);
    if (is_byte_level_) {
      merge = {BytesOfCharacters(merge.first).value_or(""),
               BytesOfCharacters(merge.second).value_or("")};
    }
    merges.push_back(std::move(merge));
  }
  BpeOptions options;
  options.is_bytes = is_byte_level_;
  options.byte_fallback = json.value("byte_fallback", false);
  options.fuse_unknown = json.value("fuse_unk", false);
  options.whole_words = json.value("ignore_merges", false);
  const Json unknown = json.value("unk_token", Json());
  if (unknown.is_string()) options.unknown = IdOf(unknown);
  return bpe_.Build(std::move(symbols), merges, options);
}

absl::Status JsonTokenizer::ParseAdded(const Json& json) {
  for (const Json& entry : json) {
    AddedToken token;
    const std::string content = entry.at("content");
    SKERRY_RETURN_IF_ERROR(TakeId(content, entry.at("id"), &token.id));
    special_[static_cast<size_t>(token.id)] = entry.value("special", false);
    token.strips_left = entry.value("lstrip", false);
    token.strips_right = entry.value("rstrip", false);
    token.single_word = entry.value("single_word", false);
    const bool normalized = entry.value("normalized", false);
    token.text = normalized ? Normalized(content) : content;
    if (token.text.empty()) continue;
    (normalized ? after_ : before_).Add(std::move(token));
  }
  return absl::OkStatus();
}

void JsonTokenizer::ChooseSeparator(const std::string& wished) {
  separator_ = IdOf(wished);
  for (const char* usual : {"<|endoftext|>", "<|end_of_text|>", "</s>", "<|im_end|>"}) {
    if (separator_ < 0) separator_ = IdOf(usual);
  }
}

absl::Status JsonTokenizer::Parse(const Json& json, const std::string& separator_token) {
  SKERRY_RETURN_IF_ERROR(ParseNormalizer(json.value("normalizer", Json())));
  SKERRY_RETURN_IF_ERROR(ParseCutter(json.value("pre_tokenizer", Json())));
  SKERRY_RETURN_IF_ERROR(ParseModel(json.at("model")));
  SKERRY_RETURN_IF_ERROR(ParseAdded(json.value("added_tokens", Json::array())));
  ChooseSeparator(separator_token);
  return absl::OkStatus();
}

std::string JsonTokenizer::Normalized(std::string_view text) const {
  std::string out(text);
  for (const Normalizer& step : normalizers_) {
    if (step.kind == Normalizer::Kind::kNfc) {
      out = ToNfc(out);
    } else if (step.kind == Normalizer::Kind::kReplace) {
      ReplaceAll(out, step.from, step.to);
    } else if (!out.empty()) {
      out = step.to + out;
    }
  }
  return out;
}

// Each visible space begins a word.
void CutAtSpaces(std::string_view text, std::vector<std::string>& words) {
  size_t begin = 0;
  for (size_t at = 1; (at = text.find(kVisibleSpace, at)) != std::string_view::npos; ++at) {
    words.emplace_back(text.substr(begin, at - begin));
    begin = at;
  }
  words.emplace_back(text.substr(begin));
}

void JsonTokenizer::Cut(const Cutter& cutter, bool is_first,
                        std::vector<std::string>& words) const {
  std::vector<std::string> cut;
  for (size_t i = 0; i < words.size(); ++i) {
    std::string& word = words[i];
    if (cutter.kind == Cutter::Kind::kMetaspace) {
      ReplaceAll(word, " ", kVisibleSpace);
      const bool wanted = cutter.prefix && (!cutter.only_first || (is_first && i == 0));
      if (wanted && !word.starts_with(kVisibleSpace)) word = kVisibleSpace + word;
      if (cutter.cuts) {
        CutAtSpaces(word, cut);
        continue;
      }
    } else if (cutter.kind == Cutter::Kind::kByteLevel) {
      if (cutter.prefix && !word.starts_with(' ')) word = ' ' + word;
    }
    if (cutter.kind == Cutter::Kind::kPattern || cutter.cuts) {
      std::vector<std::string_view> parts;
      CutWords(cutter.pattern, word, parts);
      cut.insert(cut.end(), parts.begin(), parts.end());
    } else {
      cut.push_back(std::move(word));
    }
  }
  words = std::move(cut);
}

// Between two added tokens.
void JsonTokenizer::EncodeText(const std::string& text, bool is_first, std::vector<int32_t>& out) {
  if (text.empty()) return;
  // What the last one cuts is looked at where it stands.
  const bool cuts_last = !cutters_.empty() && OnlyCuts(cutters_.back());
  std::vector<std::string> words = {text};
  for (size_t i = 0; i + (cuts_last ? 1 : 0) < cutters_.size(); ++i) {
    Cut(cutters_[i], is_first, words);
  }
  for (const std::string& word : words) {
    if (!cuts_last) {
      EncodeWord(word, out);
      continue;
    }
    parts_.clear();
    CutWords(cutters_.back().pattern, word, parts_);
    for (const std::string_view part : parts_) EncodeWord(part, out);
  }
}

void JsonTokenizer::EncodeWord(std::string_view word, std::vector<int32_t>& out) {
  // No token reaches over such a place, so that words are merged by themselves, and remembered.
  constexpr std::string_view kSpace = kVisibleSpace;
  size_t begin = 0;
  for (size_t at = 0; spaces_begin_words_ && at < word.size();) {
    const size_t space = word.find(kSpace, at);
    if (space == std::string_view::npos) break;
    if (space > begin) bpe_.Encode(word.substr(begin, space - begin), out);
    begin = space;
    at = space;
    while (word.substr(at).starts_with(kSpace)) at += kSpace.size();
  }
  bpe_.Encode(word.substr(begin), out);
}

std::vector<int32_t> JsonTokenizer::Encode(std::string_view text) {
  std::vector<int32_t> out;
  for (const TextPart& raw : before_.Split(text)) {
    if (raw.token >= 0) {
      out.push_back(raw.token);
      continue;
    }
    const std::string normalized = Normalized(raw.text);
    for (const TextPart& part : after_.Split(normalized)) {
      const bool is_first = raw.text.data() == text.data() && part.text.data() == normalized.data();
      if (part.token >= 0) {
        out.push_back(part.token);
      } else {
        EncodeText(std::string(part.text), is_first, out);
      }
    }
  }
  return out;
}

std::string JsonTokenizer::Decode(std::span<const int32_t> tokens) const {
  std::string text;
  for (const int32_t token : tokens) {
    if (token < 0 || token >= vocab_ || special_[static_cast<size_t>(token)]) continue;
    const std::string& own = texts_[static_cast<size_t>(token)];
    const bool is_byte = !is_byte_level_ && own.size() == 6 && own.starts_with("<0x");
    if (is_byte) {
      text += static_cast<char>(std::strtol(own.c_str() + 3, nullptr, 16));
    } else {
      text += own;
    }
  }
  if (is_byte_level_) return text;
  ReplaceAll(text, kVisibleSpace, " ");
  return text;
}

int32_t JsonTokenizer::IdOf(const std::string& token) const {
  const auto at = ids_.find(token);
  return at == ids_.end() ? -1 : at->second;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TextTokenizer>> ParseJsonTokenizer(
    const std::string& text, const std::string& separator_token) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return InvalidArgument("not a JSON object");
  auto tokenizer = std::make_unique<JsonTokenizer>();
  try {
    SKERRY_RETURN_IF_ERROR(tokenizer->Parse(json, separator_token));
  } catch (const Json::exception& error) {
    return InvalidArgument("no tokenizer: %s", error.what());
  }
  return tokenizer;
}

}  // namespace skerry
