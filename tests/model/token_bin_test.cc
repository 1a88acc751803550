// Token files of nanoGPT and llm.c, and data sets made of them.
#include "model/token_bin.h"

#include <catch2/catch.hpp>

#include "model/prepare_documents.h"
#include "model/text_tokenizer.h"
#include "model/token_dataset.h"
#include "tests/model/temporary_directory.h"

namespace skerry {
namespace {

template <typename T>
std::string BytesOf(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

std::string Header(int32_t magic, int32_t version, int32_t tokens) {
  std::vector<int32_t> header(256);
  header[0] = magic;
  header[1] = version;
  header[2] = tokens;
  return BytesOf(header);
}

TEST_CASE("TokenBin: nanoGPT's, and llm.c's of 16 and 32 bits", "[model]") {
  const TemporaryDirectory directory;
  const std::string file = directory.Join("train.bin");
  WriteFile(file, BytesOf<uint16_t>({1, 50256, 65535}));
  CHECK(TokenBin::Open(file)->Read(0, 3) == std::vector<int32_t>{1, 50256, 65535});
  WriteFile(file, Header(20240520, 1, 2) + BytesOf<uint16_t>({7, 50256}));
  CHECK(TokenBin::Open(file)->tokens() == 2);
  CHECK(TokenBin::Open(file)->Read(1, 1) == std::vector<int32_t>{50256});
  WriteFile(file, Header(20240801, 7, 2) + BytesOf<uint32_t>({128000, 4'000'000'000}));
  CHECK(TokenBin::Open(file)->Read(0, 2) == std::vector<int32_t>{128000, -294967296});
  CHECK(IsForValidation("a_val/fineweb_val_000000.bin"));
  CHECK(IsForValidation("val.bin"));
  CHECK_FALSE(IsForValidation("a_val/interval.bin"));
}

TEST_CASE("TokenBin: what is no such file is refused with the reason", "[model][error]") {
  const TemporaryDirectory directory;
  const std::string file = directory.Join("x.bin");
  const auto [bytes, reason] = GENERATE(table<std::string, std::string>({
      {"odd", "no whole number of tokens of 2"},
      {Header(20240520, 2, 0), "want version 1"},
      {Header(20240520, 1, 9) + "four", "says 9 tokens, it has 2"},
      {Header(20240801, 7, 1) + "sixsix", "no whole number of tokens of 4"},
  }));
  WriteFile(file, bytes);
  const auto opened = TokenBin::Open(file);
  REQUIRE(absl::IsInvalidArgument(opened.status()));
  CHECK_THAT(std::string(opened.status().message()),
             Catch::Contains(reason) && Catch::Contains(file));
}

TEST_CASE("PrepareDocuments: token files go whole into the split of their name", "[model]") {
  const TemporaryDirectory directory;
  WriteFile(directory.Join("train.bin"), BytesOf<uint16_t>({1, 2, 3}));
  WriteFile(directory.Join("val.bin"), BytesOf<uint16_t>({4, 5}));
  const auto bytes = *OpenTokenizer("byte");

  const auto prepared = PrepareDocuments({directory.Join("train.bin"), directory.Join("val.bin")},
                                         directory.Join("out"), *bytes, {.validation_share = 0.5});

  REQUIRE(prepared.ok());
  CHECK(prepared->train_tokens == 3);
  CHECK(prepared->validation_tokens == 2);
  const auto data = *TokenDataset::Open(directory.Join("out"), Verify::kDigests);
  std::vector<int32_t> tokens(2);
  REQUIRE(data->ReadWindow(Split::kValidation, 0, tokens).ok());
  CHECK(tokens == std::vector<int32_t>{4, 5});

  WriteFile(directory.Join("train.bin"), BytesOf<uint16_t>({1, 256}));
  const auto refused =
      PrepareDocuments({directory.Join("train.bin")}, directory.Join("other"), *bytes, {});
  REQUIRE(absl::IsInvalidArgument(refused.status()));
  CHECK_THAT(std::string(refused.status().message()), Catch::Contains("made by another tokenizer"));
}

}  // namespace
}  // namespace skerry
