#include "model/text_tokenizer.h"

#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "common/status.h"
#include "model/file_io.h"
#include "model/json_tokenizer.h"
#include "model/sentence_piece.h"
#include "model/tokenizer.h"

namespace skerry {
namespace {

constexpr int64_t kFileBytesMax = 256 << 20;
constexpr int64_t kConfigBytesMax = 4 << 20;

class Bytes final : public TextTokenizer {
 public:
  int32_t vocab() const override { return ByteTokenizer::kVocab; }
  std::vector<int32_t> Encode(std::string_view text) override {
    return ByteTokenizer::Encode(text);
  }
  std::string Decode(std::span<const int32_t> tokens) const override {
    return ByteTokenizer::Decode(tokens);
  }
  int32_t IdOf(const std::string& token) const override {
    return token.size() == 1 ? static_cast<uint8_t>(token[0]) : -1;
  }
  int32_t separator() const override { return -1; }
};

bool IsKind(const std::string& path, mode_t kind) {
  struct stat facts {};
  return stat(path.c_str(), &facts) == 0 && (facts.st_mode & S_IFMT) == kind;
}

// "eos_token" of the tokenizer_config.json that stands beside a tokenizer.json.
std::string EndOfTextToken(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : path.substr(0, slash);
  const auto text = ReadSmallFile(directory + "/tokenizer_config.json", kConfigBytesMax);
  const auto json = text.ok() ? nlohmann::json::parse(*text, nullptr, false) : nlohmann::json();
  if (!json.is_object() || !json.contains("eos_token")) return "";
  const auto& token = json["eos_token"];
  if (token.is_string()) return token;
  const bool has_content = token.is_object() && token.contains("content");
  return has_content && token["content"].is_string() ? token["content"].get<std::string>() : "";
}

}  // namespace

absl::StatusOr<std::unique_ptr<TextTokenizer>> OpenTokenizer(const std::string& path) {
  if (path.empty() || path == "byte") return std::make_unique<Bytes>();
  if (IsKind(path, S_IFDIR)) {
    for (const char* file : {"/tokenizer.json", "/tokenizer.model"}) {
      if (IsKind(path + file, S_IFREG)) return OpenTokenizer(path + file);
    }
    return NotFound("%s: has neither tokenizer.json nor tokenizer.model", path);
  }
  if (path.ends_with(".model")) return OpenSentencePiece(path);
  SKERRY_ASSIGN_OR_RETURN(const std::string text, ReadSmallFile(path, kFileBytesMax));
  auto tokenizer = ParseJsonTokenizer(text, EndOfTextToken(path));
  if (!tokenizer.ok()) return Annotate(tokenizer.status(), path);
  return tokenizer;
}

}  // namespace skerry
