#include "model/prepare_text.h"

#include <zlib.h>

#include <catch2/catch.hpp>

#include "common/status.h"
#include "model/text_source.h"
#include "model/token_dataset.h"
#include "model/tokenizer.h"
#include "tests/model/temporary_directory.h"

namespace skerry {
namespace {

void WriteGzip(const std::string& path, const std::string& text) {
  const gzFile file = gzopen(path.c_str(), "wb");
  REQUIRE(gzwrite(file, text.data(), static_cast<unsigned>(text.size())) > 0);
  gzclose(file);
}

std::string LongText() {
  std::string text;
  for (int i = 0; i < 50000; ++i) text += "line " + std::to_string(i) + " caf\xc3\xa9\n";
  return text;
}

std::string TextOf(const TokenDataset& data, Split split) {
  std::vector<int32_t> tokens(static_cast<size_t>(data.tokens(split)));
  REQUIRE(data.ReadWindow(split, 0, tokens).ok());
  return ByteTokenizer::Decode(tokens);
}

// Fed whole and byte by byte: the pieces must not matter.
std::string Normalized(const std::string& bytes) {
  std::string whole, piecewise;
  Utf8Normalizer one, other;
  one.Feed(bytes, whole);
  one.Finish(whole);
  for (const char c : bytes) other.Feed(std::string_view(&c, 1), piecewise);
  other.Finish(piecewise);
  CHECK(whole == piecewise);
  return whole;
}

}  // namespace

TEST_CASE("Utf8Normalizer: valid text passes unchanged", "[model]") {
  const std::string text = GENERATE(
      std::string(), std::string("plain\r\n\t"), std::string("\0x", 2),
      std::string("\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"), std::string("\xf4\x8f\xbf\xbf"));

  CHECK(Normalized(text) == text);
}

TEST_CASE("Utf8Normalizer: what is no UTF-8 is Latin-1", "[model]") {
  CHECK(Normalized("caf\xe9!") == "caf\xc3\xa9!");
  CHECK(Normalized("\xff") == "\xc3\xbf");
  CHECK(Normalized("\xc3") == "\xc3\x83");                           // cut at the end
  CHECK(Normalized("\xe2\x82") == "\xc3\xa2\xc2\x82");               // cut at the end
  CHECK(Normalized("\xc0\x80") == "\xc3\x80\xc2\x80");               // overlong
  CHECK(Normalized("\xed\xa0\x80") == "\xc3\xad\xc2\xa0\xc2\x80");   // surrogate
  CHECK(Normalized("\xe9\xc3\xa9") == "\xc3\xa9\xc3\xa9");           // one of each
  CHECK(Normalized("\xf5\x80\x80\x80").substr(0, 2) == "\xc3\xb5");  // past U+10FFFF
}

TEST_CASE("PrepareText: the text comes out of the shards, the end of it as validation", "[model]") {
  const TemporaryDirectory directory;
  const std::string text = LongText();
  const bool compressed = GENERATE(true, false);
  const std::string input = directory.Join(compressed ? "text.gz" : "text");
  compressed ? WriteGzip(input, text) : WriteFile(input, text);
  PrepareTextOptions options;
  options.validation_share = 0.1;
  options.shard_tokens = 100000;
  double last = 0;
  bool grows = true;
  options.progress = [&](const PrepareProgress& at) {
    grows = grows && at.share >= last;
    last = at.share;
  };

  const auto prepared = PrepareText(input, directory.Join("data"), options);

  REQUIRE(prepared.ok());
  CHECK(prepared->validation_tokens == static_cast<int64_t>(text.size()) / 10);
  const auto data = *TokenDataset::Open(directory.Join("data"), Verify::kDigests);
  CHECK(data->vocab() == 256);
  CHECK(TextOf(*data, Split::kTrain) + TextOf(*data, Split::kValidation) == text);
  const int64_t train_shards = (prepared->train_tokens + 99999) / 100000;
  const auto files = static_cast<int64_t>(ListDatasetFiles(directory.Join("data"))->size());
  CHECK(files == train_shards + 1 + 1);  // one of validation, and the index
  CHECK(grows);
  CHECK(last == Approx(1.0));
}

TEST_CASE("PrepareText: a damaged or cut archive is refused and leaves no data set",
          "[model][error]") {
  const TemporaryDirectory directory;
  const std::string input = directory.Join("text.gz");
  WriteGzip(input, LongText());
  std::string bytes = ReadFile(input);
  const bool cut = GENERATE(true, false);
  if (cut) {
    bytes.resize(bytes.size() / 2);
  } else {
    for (size_t i = bytes.size() / 2; i < bytes.size() / 2 + 64; ++i) bytes[i] = '\0';
  }
  WriteFile(input, bytes);

  const auto prepared = PrepareText(input, directory.Join("data"), {});

  CHECK(absl::IsDataLoss(prepared.status()));
  CHECK(ErrorText(prepared.status()).find(input) == 0);
  CHECK_FALSE(std::filesystem::exists(directory.Join("data/index.json")));
}

TEST_CASE("PrepareText: bad requests are refused", "[model][error]") {
  const TemporaryDirectory directory;
  const std::string input = directory.Join("text");
  WriteFile(input, "");
  PrepareTextOptions all_validation;
  all_validation.validation_share = 0.6;

  CHECK(absl::IsInvalidArgument(PrepareText(input, directory.Join("a"), {}).status()));
  CHECK(absl::IsNotFound(PrepareText(directory.Join("none"), directory.Join("a"), {}).status()));
  CHECK(absl::IsInvalidArgument(PrepareText(input, directory.Join("a"), all_validation).status()));
  WriteFile(input, "text");
  REQUIRE(PrepareText(input, directory.Join("a"), {}).ok());
  CHECK(absl::IsAlreadyExists(PrepareText(input, directory.Join("a"), {}).status()));
}

}  // namespace skerry
