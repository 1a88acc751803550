// Tokenizers against the package `tokenizers`: the same tokens of texts that are hard
// (data/tokenizers.json, made by tools/compare/fixtures.py).
#include "model/json_tokenizer.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "common/status.h"
#include "model/text_tokenizer.h"
#include "model/tokenizer.h"
#include "model/unicode.h"
#include "tests/model/temporary_directory.h"

namespace skerry {
namespace {

using Json = nlohmann::json;

const Json& Fixture() {
  static const Json fixture = Json::parse(ReadFile(SKERRY_TOKENIZERS_FIXTURE));
  return fixture;
}

Json FileOf(const std::string& name) {
  for (const Json& one : Fixture()) {
    if (one.at("name") == name) return one.at("file");
  }
  FAIL("no tokenizer " << name);
  return {};
}

std::string Refusal(const Json& file) {
  const auto tokenizer = ParseJsonTokenizer(file.dump(), "");
  REQUIRE_FALSE(tokenizer.ok());
  return ErrorText(tokenizer.status());
}

}  // namespace

TEST_CASE("JsonTokenizer: every kind gives the tokens of the package tokenizers", "[model]") {
  REQUIRE(Fixture().size() == 6);
  for (const Json& one : Fixture()) {
    INFO(one.at("name"));
    const auto tokenizer = ParseJsonTokenizer(one.at("file").dump(), "");
    REQUIRE(tokenizer.ok());
    REQUIRE(one.at("cases").size() >= 50);
    for (const Json& text : one.at("cases")) {
      INFO(text[0]);
      CHECK((*tokenizer)->Encode(text[0].get<std::string>()) ==
            text[1].get<std::vector<int32_t>>());
    }
  }
}

TEST_CASE("JsonTokenizer: byte-level tokens decode to the text, special ones left out", "[model]") {
  const auto tokenizer = *ParseJsonTokenizer(FileOf("llama3").dump(), "");
  const std::string text = "caf\xc3\xa9 \xf0\x9f\x98\x80  don't 12345\r\n\n";

  std::vector<int32_t> tokens = tokenizer->Encode(text);
  tokens.push_back(tokenizer->separator());

  CHECK(tokenizer->separator() == tokenizer->IdOf("<|endoftext|>"));
  CHECK(tokenizer->Decode(tokens) == text);
}

TEST_CASE("JsonTokenizer: the exported byte tokenizer gives bytes", "[model]") {
  const auto tokenizer = *ParseJsonTokenizer(ByteTokenizer::TokenizerJson(), "");
  const std::string text = "any \xe2\x82\xac text\n";

  CHECK(tokenizer->vocab() == 256);
  CHECK(tokenizer->Encode(text) == ByteTokenizer::Encode(text));
  CHECK(tokenizer->Decode(tokenizer->Encode(text)) == text);
}

TEST_CASE("JsonTokenizer: what is not known is refused by its name", "[model][error]") {
  Json file = FileOf("gpt2");
  SECTION("normalizer") {
    file["normalizer"] = {{"type", "NFKC"}};
    CHECK(Refusal(file).find("NFKC") != std::string::npos);
  }
  SECTION("pattern") {
    file["pre_tokenizer"] = {{"type", "Split"},
                             {"pattern", {{"Regex", "x+"}}},
                             {"behavior", "Isolated"},
                             {"invert", false}};
    CHECK(Refusal(file).find("x+") != std::string::npos);
  }
  SECTION("model") {
    file["model"]["type"] = "Unigram";
    CHECK(Refusal(file).find("Unigram") != std::string::npos);
  }
  SECTION("dropout") {
    file["model"]["dropout"] = 0.1;
    CHECK(Refusal(file).find("dropout") != std::string::npos);
  }
  SECTION("a merge of what is no token") {
    file["model"]["merges"].push_back({"zzz", "qqq"});
    CHECK(Refusal(file).find("zzz") != std::string::npos);
  }
  SECTION("a token without a number") {
    file["model"]["vocab"]["new"] = -1;
    CHECK(Refusal(file).find("'new'") != std::string::npos);
  }
  SECTION("a token of a huge number") {
    file["model"]["vocab"]["new"] = 4000000000u;
    CHECK(Refusal(file).find("'new'") != std::string::npos);
  }
  SECTION("no vocabulary") {
    file["model"].erase("vocab");
    CHECK_FALSE(Refusal(file).empty());
  }
  SECTION("no model") {
    file.erase("model");
    CHECK_FALSE(Refusal(file).empty());
  }
}

TEST_CASE("OpenTokenizer: a file that is none is refused by its name", "[model][error]") {
  const TemporaryDirectory directory;
  WriteFile(directory.Join("cut.json"), FileOf("gpt2").dump().substr(0, 500));
  WriteFile(directory.Join("no.model"), "\x0a\x03zzz");

  for (const char* name : {"cut.json", "no.model", "missing.json", ""}) {
    const std::string path = directory.Join(name);
    const auto tokenizer = OpenTokenizer(path);
    INFO(path);
    REQUIRE_FALSE(tokenizer.ok());
    CHECK(ErrorText(tokenizer.status()).find(directory.path()) != std::string::npos);
  }
}

TEST_CASE("OpenTokenizer: the end-of-text token is the one of tokenizer_config.json", "[model]") {
  const TemporaryDirectory directory;
  WriteFile(directory.Join("tokenizer.json"), FileOf("llama2").dump());
  WriteFile(directory.Join("tokenizer_config.json"), R"({"eos_token": {"content": "<s>"}})");

  const auto tokenizer = *OpenTokenizer(directory.path());

  CHECK(tokenizer->separator() == tokenizer->IdOf("<s>"));
}

TEST_CASE("Unicode: normalisation form C composes, orders marks and leaves exclusions", "[model]") {
  CHECK(ToNfc("plain caf\xc3\xa9") == "plain caf\xc3\xa9");
  CHECK(ToNfc("cafe\xcc\x81") == "caf\xc3\xa9");
  CHECK(ToNfc("\xe2\x84\xab") == "\xc3\x85");                              // ANGSTROM SIGN
  CHECK(ToNfc("q\xcc\x87\xcc\xa3") == "q\xcc\xa3\xcc\x87");                // marks in order
  CHECK(ToNfc("\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8") == "\xea\xb0\x81");  // Hangul
  CHECK(ToNfc("\xe0\xa5\x98") == "\xe0\xa4\x95\xe0\xa4\xbc");              // never composed
}

TEST_CASE("Unicode: marks that came after version 9 stay where they are, as `tokenizers` has it",
          "[model]") {
  const std::string tilde = "\xcc\x83", newer = "\xe0\xa3\x91", older = "\xe0\xa3\xa3";
  CHECK(ToNfc("x" + tilde + newer) == "x" + tilde + newer);      // U+08D1, of version 14
  CHECK(ToNfc("x" + tilde + older) == "x" + older + tilde);      // U+08E3, of the same class
  const std::string parts = "\xf0\x91\xa4\xb5\xf0\x91\xa4\xb0";  // of U+11938, of version 13
  CHECK(ToNfc(parts) == parts);
}

}  // namespace skerry
