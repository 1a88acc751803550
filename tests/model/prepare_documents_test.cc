// From files and JSON lines to packed tokens.
#include "model/prepare_documents.h"

#include <catch2/catch.hpp>

#include "common/status.h"
#include "model/token_dataset.h"
#include "tests/model/temporary_directory.h"

namespace skerry {
namespace {

// Bytes with an end-of-text token, so that borders of documents are seen.
class Marked final : public TextTokenizer {
 public:
  int32_t vocab() const override { return 70000; }
  std::vector<int32_t> Encode(std::string_view text) override {
    std::vector<int32_t> tokens;
    for (const char c : text) tokens.push_back(static_cast<uint8_t>(c));
    return tokens;
  }
  std::string Decode(std::span<const int32_t>) const override { return ""; }
  int32_t IdOf(const std::string&) const override { return -1; }
  int32_t separator() const override { return 69999; }
};

std::string TextOf(const std::string& directory, Split split) {
  const auto data = *TokenDataset::Open(directory, Verify::kDigests);
  std::vector<int32_t> tokens(static_cast<size_t>(data->tokens(split)));
  if (tokens.empty()) return "";
  REQUIRE(data->ReadWindow(split, 0, tokens).ok());
  std::string text;
  for (const int32_t token : tokens) text += token == 69999 ? '|' : static_cast<char>(token);
  return text;
}

}  // namespace

TEST_CASE("PrepareDocuments: files of a directory in order, a document each", "[model]") {
  const TemporaryDirectory directory;
  std::filesystem::create_directories(directory.Join("in/b"));
  WriteFile(directory.Join("in/z.txt"), "last");
  WriteFile(directory.Join("in/b/a.txt"), "second");
  WriteFile(directory.Join("in/a.jsonl"), "{\"text\": \"one\"}\n\n{\"text\": \"t\\u00e9\"}");
  WriteFile(directory.Join("in/.hidden"), "never");
  Marked tokenizer;

  const auto prepared = PrepareDocuments({directory.Join("in")}, directory.Join("out"), tokenizer,
                                         {.validation_share = 0, .tokenizer_digest = "ab"});

  REQUIRE(prepared.ok());
  CHECK(TextOf(directory.Join("out"), Split::kTrain) == "one|t\xc3\xa9|second|last|");
  CHECK(prepared->train_tokens == 20);
  const auto data = *TokenDataset::Open(directory.Join("out"), Verify::kDigests);
  CHECK(data->tokenizer() == "ab");
}

TEST_CASE("PrepareDocuments: a directory that has nothing to read is named", "[model][error]") {
  const TemporaryDirectory directory;
  std::filesystem::create_directories(directory.Join("in"));
  WriteFile(directory.Join("in/.hidden"), "never");
  Marked tokenizer;
  const auto prepared =
      PrepareDocuments({directory.Join("in")}, directory.Join("out"), tokenizer, {});
  REQUIRE_FALSE(prepared.ok());
  CHECK(ErrorText(prepared.status()).find(directory.Join("in") + ": no file") == 0);
}

TEST_CASE("PrepareDocuments: every so many documents one is held out", "[model]") {
  const TemporaryDirectory directory;
  std::string lines;
  for (int i = 0; i < 40; ++i) lines += "{\"body\": \"" + std::string(1, 'a') + "\"}\n";
  WriteFile(directory.Join("in.jsonl"), lines);
  Marked tokenizer;

  const auto prepared = PrepareDocuments({directory.Join("in.jsonl")}, directory.Join("out"),
                                         tokenizer, {.validation_share = 0.25, .field = "body"});

  REQUIRE(prepared.ok());
  CHECK(prepared->validation_tokens == 20);
  CHECK(prepared->train_tokens == 60);
}

TEST_CASE("PrepareDocuments: of a single text something is held out, too", "[model]") {
  const TemporaryDirectory directory;
  const auto [size, least, most] =
      GENERATE(table<size_t, double, double>({{300 << 10, 0.01, 0.25}, {8 << 20, 0.008, 0.018}}));
  std::string text;
  while (text.size() < size) text += "line " + std::to_string(text.size()) + "\n";
  std::filesystem::create_directories(directory.Join("in"));
  WriteFile(directory.Join("in/only.txt"), text);
  Marked tokenizer;

  const auto prepared = PrepareDocuments({directory.Join("in")}, directory.Join("out"), tokenizer,
                                         {.validation_share = 0.01});

  REQUIRE(prepared.ok());
  const auto held_out = static_cast<double>(prepared->validation_tokens);
  CHECK(held_out > least * static_cast<double>(text.size()));
  CHECK(held_out < most * static_cast<double>(text.size()));
}

TEST_CASE("PrepareDocuments: a long text is cut between lines and is whole", "[model]") {
  const TemporaryDirectory directory;
  std::string text;
  while (text.size() < (3u << 20))
    text += "line " + std::to_string(text.size()) + " \xe2\x82\xac\n";
  WriteFile(directory.Join("in.txt"), text);
  Marked tokenizer;

  REQUIRE(PrepareDocuments({directory.Join("in.txt")}, directory.Join("out"), tokenizer,
                           {.validation_share = 0})
              .ok());

  CHECK(TextOf(directory.Join("out"), Split::kTrain) == text + "|");
}

TEST_CASE("PrepareDocuments: a bad line is named, and no data set is left", "[model][error]") {
  const TemporaryDirectory directory;
  const std::string bad = GENERATE("{\"text\": 1}", "[1]", "{\"text\": \"cut", "{\"txt\": \"a\"}");
  WriteFile(directory.Join("in.jsonl"), "{\"text\": \"fine\"}\n" + bad + "\n");
  Marked tokenizer;

  const auto prepared = PrepareDocuments({directory.Join("in.jsonl")}, directory.Join("out"),
                                         tokenizer, PrepareDocumentsOptions());

  REQUIRE_FALSE(prepared.ok());
  CHECK(ErrorText(prepared.status()).find("in.jsonl:2: ") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(directory.Join("out/index.json")));
}

}  // namespace skerry
