#include "model/token_dataset.h"

#include <catch2/catch.hpp>
#include <numeric>

#include "common/status.h"
#include "model/sample_order.h"
#include "model/token_dataset_writer.h"
#include "tests/model/temporary_directory.h"

namespace skerry {
namespace {

std::vector<int32_t> Counting(int32_t first, int32_t count) {
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

// 100 training tokens 0, 1, … in shards of 30 and 20 validation tokens 100, 101, …
void WriteCounting(const std::string& directory, int32_t vocab) {
  const auto writer = *TokenDatasetWriter::Create(directory, vocab, 30);
  REQUIRE(writer->Append(Split::kTrain, Counting(0, 70)).ok());
  REQUIRE(writer->Append(Split::kValidation, Counting(100, 20)).ok());
  REQUIRE(writer->Append(Split::kTrain, Counting(70, 30)).ok());
  REQUIRE(writer->Finish().ok());
}

absl::Status OpenStatus(const TemporaryDirectory& directory, Verify verify) {
  return TokenDataset::Open(directory.path(), verify).status();
}

void Edit(const std::string& path, size_t at, char value) {
  std::string bytes = ReadFile(path);
  bytes.at(at) = value;
  WriteFile(path, bytes);
}

}  // namespace

TEST_CASE("TokenDataset: windows are runs of tokens, across shards too", "[model]") {
  const TemporaryDirectory directory;
  const int32_t vocab = GENERATE(256, 1000);  // tokens of one and of two bytes
  WriteCounting(directory.path(), vocab);

  const auto data = *TokenDataset::Open(directory.path(), Verify::kDigests);

  CHECK(data->vocab() == vocab);
  CHECK(data->tokens(Split::kTrain) == 100);
  CHECK(data->tokens(Split::kValidation) == 20);
  CHECK(data->windows(Split::kTrain, 8) == 12);  // 12 · 8 + 1 = 97 tokens
  CHECK(data->windows(Split::kTrain, 99) == 1);
  CHECK(data->windows(Split::kTrain, 100) == 0);
  std::vector<int32_t> window(9);
  for (int32_t w = 0; w < 12; ++w) {
    REQUIRE(data->ReadWindow(Split::kTrain, w, window).ok());
    CHECK(window == Counting(8 * w, 9));
  }
  std::vector<int32_t> all(100);
  REQUIRE(data->ReadWindow(Split::kTrain, 0, all).ok());
  CHECK(all == Counting(0, 100));
  REQUIRE(data->ReadWindow(Split::kValidation, 1, window).ok());
  CHECK(window == Counting(108, 9));
}

TEST_CASE("TokenDataset: tokens above one byte survive", "[model]") {
  const TemporaryDirectory directory;
  const auto writer = *TokenDatasetWriter::Create(directory.path(), 65536);
  REQUIRE(writer->Append(Split::kTrain, std::vector<int32_t>{255, 256, 65535}).ok());
  REQUIRE(writer->Finish().ok());

  const auto data = *TokenDataset::Open(directory.path(), Verify::kDigests);

  std::vector<int32_t> window(3);
  REQUIRE(data->ReadWindow(Split::kTrain, 0, window).ok());
  CHECK(window == std::vector<int32_t>{255, 256, 65535});
}

TEST_CASE("TokenDataset: a microbatch is its addressed windows, targets one token on", "[model]") {
  const TemporaryDirectory directory;
  WriteCounting(directory.path(), 256);
  const auto data = *TokenDataset::Open(directory.path(), Verify::kSizes);
  RunConfig config;
  config.model.context = 8;
  config.pipeline.microbatches_per_step = 2;
  config.pipeline.sequences_per_microbatch = 3;
  std::vector<int32_t> tokens(24), targets(24);

  REQUIRE(data->ReadMicrobatch(config, 1, 1, tokens, targets).ok());

  const SampleOrder order(config.seed, 12, 2, 3);
  for (int32_t s = 0; s < 3; ++s) {
    const auto first = static_cast<int32_t>(8 * order.WindowOf({1, 1, s}));
    for (int32_t i = 0; i < 8; ++i) {
      CHECK(tokens[static_cast<size_t>(8 * s + i)] == first + i);
      CHECK(targets[static_cast<size_t>(8 * s + i)] == first + i + 1);
    }
  }
}

TEST_CASE("TokenDataset: data that do not fit the model are refused", "[model][error]") {
  const TemporaryDirectory directory;
  WriteCounting(directory.path(), 1000);
  const auto data = *TokenDataset::Open(directory.path(), Verify::kSizes);
  RunConfig config;  // vocabulary 256
  config.model.context = 8;
  std::vector<int32_t> tokens(32), targets(32);

  CHECK(absl::IsFailedPrecondition(data->ReadMicrobatch(config, 0, 0, tokens, targets)));

  config.model.vocab = 1000;
  CHECK(data->ReadMicrobatch(config, 0, 0, tokens, targets).ok());
  config.model.context = 100;
  tokens.resize(400);
  targets.resize(400);
  CHECK(absl::IsFailedPrecondition(data->ReadMicrobatch(config, 0, 0, tokens, targets)));
}

TEST_CASE("TokenDataset: the list of files has every shard and the index", "[model]") {
  const TemporaryDirectory directory;
  WriteCounting(directory.path(), 256);

  const auto files = *ListDatasetFiles(directory.path());

  std::vector<std::string> names;
  for (const DatasetFile& file : files) {
    names.push_back(file.file);
    CHECK(file.bytes == static_cast<int64_t>(ReadFile(directory.Join(file.file)).size()));
    CHECK_FALSE(file.digest.IsZero());
  }
  CHECK(names == std::vector<std::string>{"train-00000.tok", "train-00001.tok", "train-00002.tok",
                                          "train-00003.tok", "validation-00000.tok", "index.json"});
}

TEST_CASE("TokenDataset: a shard cut short is refused by name", "[model][error]") {
  const TemporaryDirectory directory;
  WriteCounting(directory.path(), 256);
  const std::string path = directory.Join("train-00001.tok");
  const std::string whole = ReadFile(path);
  const size_t length = GENERATE(size_t{0}, size_t{10}, size_t{63}, size_t{64}, size_t{93});
  WriteFile(path, whole.substr(0, length));

  const absl::Status status = OpenStatus(directory, Verify::kSizes);

  CHECK(absl::IsInvalidArgument(status));
  CHECK(ErrorText(status).find("train-00001.tok") != std::string::npos);
}

TEST_CASE("TokenDataset: a shard with a wrong header is refused", "[model][error]") {
  const TemporaryDirectory directory;
  WriteCounting(directory.path(), 256);
  // magic, version, token bytes, tokens, their highest byte, split, ordinal, zeros
  const size_t at = GENERATE(size_t{0}, size_t{8}, size_t{12}, size_t{16}, size_t{23}, size_t{24},
                             size_t{28}, size_t{63});
  Edit(directory.Join("train-00001.tok"), at, 0x7f);

  CHECK_FALSE(OpenStatus(directory, Verify::kSizes).ok());
}

TEST_CASE("TokenDataset: one changed token is found by its digest", "[model][error]") {
  const TemporaryDirectory directory;
  WriteCounting(directory.path(), 256);
  Edit(directory.Join("train-00001.tok"), 70, 0x7f);

  CHECK(OpenStatus(directory, Verify::kSizes).ok());
  const absl::Status status = OpenStatus(directory, Verify::kDigests);
  CHECK(absl::IsDataLoss(status));
  CHECK(ErrorText(status).find("train-00001.tok") != std::string::npos);
}

TEST_CASE("TokenDataset: shards in each other's place are found", "[model][error]") {
  const TemporaryDirectory directory;
  WriteCounting(directory.path(), 256);
  WriteFile(directory.Join("train-00001.tok"), ReadFile(directory.Join("train-00000.tok")));

  CHECK(absl::IsDataLoss(OpenStatus(directory, Verify::kSizes)));
}

TEST_CASE("TokenDataset: a token outside the vocabulary is found when it is read",
          "[model][error]") {
  const TemporaryDirectory directory;
  const auto writer = *TokenDatasetWriter::Create(directory.path(), 4);
  REQUIRE(writer->Append(Split::kTrain, std::vector<int32_t>{0, 1, 2, 3}).ok());
  REQUIRE(writer->Finish().ok());
  Edit(directory.Join("train-00000.tok"), 66, 4);
  const auto data = *TokenDataset::Open(directory.path(), Verify::kSizes);
  std::vector<int32_t> window(4);

  CHECK(absl::IsDataLoss(data->ReadWindow(Split::kTrain, 0, window)));
}

TEST_CASE("TokenDataset: an index that lies is refused", "[model][error]") {
  const std::string shard = R"({"file":"a.tok","split":"train","tokens":1,"bytes":65,"digest":")" +
                            std::string(64, '0') + R"("})";
  const auto index = [](const std::string& shards) {
    return R"({"format":"skerry-tokens","version":1,"vocab":256,"token_bytes":1,"shards":[)" +
           shards + "]}";
  };
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = index(shard);
    return text.replace(text.find(from), from.size(), to);
  };
  REQUIRE(ParseDatasetIndex(index(shard)).ok());

  for (const std::string& text :
       {std::string(), std::string("{}"), index(shard + "," + shard), index("1"),
        changed("a.tok", "../a.tok"), changed("a.tok", ".a"), changed("a.tok", ""),
        changed("a.tok", "index.json"), changed("\"train\"", "\"test\""),
        changed("\"tokens\":1", "\"tokens\":-1"), changed("\"bytes\":65", "\"bytes\":66"),
        changed("\"vocab\":256", "\"vocab\":70000"), changed("\"vocab\":256", "\"vocab\":0"),
        changed("\"token_bytes\":1", "\"token_bytes\":3"),
        changed("\"version\":1", "\"version\":2"), changed("\"version\":1", "\"version\":0"),
        changed("000\"", "00g\"")}) {
    INFO(text);
    CHECK(absl::IsInvalidArgument(ParseDatasetIndex(text).status()));
  }
}

TEST_CASE("TokenDatasetWriter: refuses tokens outside the vocabulary and a used directory",
          "[model][error]") {
  const TemporaryDirectory directory;
  const auto writer = *TokenDatasetWriter::Create(directory.path(), 4);

  CHECK(absl::IsInvalidArgument(writer->Append(Split::kTrain, std::vector<int32_t>{4})));
  CHECK(absl::IsInvalidArgument(writer->Append(Split::kTrain, std::vector<int32_t>{-1})));
  REQUIRE(writer->Finish().ok());
  CHECK(absl::IsAlreadyExists(TokenDatasetWriter::Create(directory.path(), 4).status()));
}

}  // namespace skerry
