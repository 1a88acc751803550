// Weights, an order by chance, and processes that are killed: the data set is what it should be, to
// the byte.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <map>

#include "common/status.h"
#include "model/prepare_documents.h"
#include "model/token_dataset.h"
#include "tests/model/temporary_directory.h"

namespace skerry {
namespace {

// Bytes with an end-of-text token, so that borders of documents are seen.
class Marked final : public TextTokenizer {
 public:
  int32_t vocab() const override { return 300; }
  std::vector<int32_t> Encode(std::string_view text) override {
    std::vector<int32_t> tokens;
    for (const char c : text) tokens.push_back(static_cast<uint8_t>(c));
    return tokens;
  }
  std::string Decode(std::span<const int32_t>) const override { return ""; }
  int32_t IdOf(const std::string&) const override { return -1; }
  int32_t separator() const override { return 299; }
};

// Documents of ten letters: "NAME" and a number.
void WriteLines(const std::string& path, const std::string& name, int count) {
  std::string lines;
  for (int i = 0; i < count; ++i) {
    lines +=
        absl::StrFormat("{\"text\": \"%s%0*d\"}\n", name, 10 - static_cast<int>(name.size()), i);
  }
  WriteFile(path, lines);
}

std::vector<std::string> DocumentsOf(const std::string& directory, Split split) {
  const auto data = *TokenDataset::Open(directory, Verify::kDigests);
  std::vector<int32_t> tokens(static_cast<size_t>(data->tokens(split)));
  if (tokens.empty()) return {};
  REQUIRE(data->ReadWindow(split, 0, tokens).ok());
  std::vector<std::string> documents(1);
  for (const int32_t token : tokens) {
    if (token == 299) {
      documents.emplace_back();
    } else {
      documents.back() += static_cast<char>(token);
    }
  }
  documents.pop_back();
  return documents;
}

std::map<std::string, std::string> FilesIn(const std::string& directory) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
    const std::string name = entry.path().filename().string();
    files[name] = entry.is_regular_file() ? ReadFile(entry.path().string()) : "a directory";
  }
  return files;
}

// The share of documents that begin with `letter` among the first `count`.
double ShareOf(const std::vector<std::string>& documents, char letter, size_t count) {
  const auto first = documents.begin();
  const auto end = first + static_cast<std::ptrdiff_t>(count);
  return static_cast<double>(std::count_if(first, end, [&](auto& d) { return d[0] == letter; })) /
         static_cast<double>(count);
}

// A process of its own does it, and is killed when it reports the `reports`-th time. False: it was
// done before.
template <typename Prepare>
bool KilledAt(int reports, const Prepare& prepare) {
  const pid_t child = fork();
  if (child == 0) {
    int seen = 0;
    const absl::Status done = prepare([&](const PrepareProgress&) {
      if (++seen == reports) raise(SIGKILL);
    });
    _exit(done.ok() ? 0 : 1);
  }
  int how = 0;
  REQUIRE(waitpid(child, &how, 0) == child);
  const bool is_killed = WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL;
  REQUIRE((is_killed || (WIFEXITED(how) && WEXITSTATUS(how) == 0)));
  return is_killed;
}

}  // namespace

TEST_CASE("data prepare: each source has its share of the tokens at every place", "[model]") {
  const TemporaryDirectory directory;
  WriteLines(directory.Join("a.jsonl"), "a", 700);
  WriteLines(directory.Join("b.jsonl"), "b", 200);
  Marked tokenizer;

  const auto prepared = PrepareDocuments({directory.Join("a.jsonl"), directory.Join("b.jsonl")},
                                         directory.Join("out"), tokenizer,
                                         {.validation_share = 0, .weights = {2, 1}});

  REQUIRE(prepared.ok());
  const auto documents = DocumentsOf(directory.Join("out"), Split::kTrain);
  REQUIRE(documents.size() >= 1040);
  for (const size_t count : {30u, 300u, 1000u}) {
    CHECK(ShareOf(documents, 'b', count) == Approx(1 / 3.0).margin(0.02));
  }
  // 700 of a want 350 of b: the second is read again, from its first document on.
  CHECK(prepared->sources[0].passes == Approx(1).margin(0.01));
  CHECK(prepared->sources[1].passes > 1);
  CHECK(std::count(documents.begin(), documents.end(), "b000000000") == 2);
  CHECK(std::count(documents.begin(), documents.end(), "b000000199") == 1);
  CHECK(std::count(documents.begin(), documents.end(), "a000000699") == 1);
}

TEST_CASE("data prepare: a source is read so often and no more, and what is held out stays so",
          "[model]") {
  const TemporaryDirectory directory;
  WriteLines(directory.Join("a.jsonl"), "a", 5000);
  WriteLines(directory.Join("b.jsonl"), "b", 100);
  Marked tokenizer;

  const auto prepared = PrepareDocuments(
      {directory.Join("a.jsonl"), directory.Join("b.jsonl")}, directory.Join("out"), tokenizer,
      {.validation_share = 0.2, .weights = {1, 1}, .passes_max = 3});

  REQUIRE(prepared.ok());
  CHECK(prepared->sources[1].passes == Approx(3));
  const auto trained = DocumentsOf(directory.Join("out"), Split::kTrain);
  const auto held_out = DocumentsOf(directory.Join("out"), Split::kValidation);
  CHECK(held_out.size() > 30);
  CHECK(trained.size() + held_out.size() < 700);  // not the 5000 of a
  for (const std::string& document : held_out) {
    CHECK(std::count(trained.begin(), trained.end(), document) == 0);
    CHECK(std::count(held_out.begin(), held_out.end(), document) == 1);
  }
  CHECK(std::count(trained.begin(), trained.end(), "b000000000") == 3);
}

TEST_CASE("data prepare: an order by chance has every document once, whatever the memory",
          "[model]") {
  const TemporaryDirectory directory;
  WriteLines(directory.Join("a.jsonl"), "a", 3000);
  Marked tokenizer;
  const auto prepare = [&](const std::string& out, uint64_t seed, int64_t bytes_max) {
    REQUIRE(
        PrepareDocuments({directory.Join("a.jsonl")}, directory.Join(out), tokenizer,
                         {.validation_share = 0, .shuffle = seed, .shuffle_bytes_max = bytes_max})
            .ok());
    return DocumentsOf(directory.Join(out), Split::kTrain);
  };

  auto roomy = prepare("roomy", 1, 1 << 20);
  const auto narrow = prepare("narrow", 1, 100);
  const auto other = prepare("other", 2, 1 << 20);

  CHECK(roomy == narrow);
  CHECK(FilesIn(directory.Join("roomy")) == FilesIn(directory.Join("narrow")));
  CHECK(roomy != other);
  size_t in_place = 0, rising = 0;
  for (size_t i = 0; i < roomy.size(); ++i) {
    in_place += roomy[i] == absl::StrFormat("a%09d", i);
    rising += i > 0 && roomy[i - 1] < roomy[i];
  }
  CHECK(in_place < 10);
  CHECK(rising > 1350);  // half of 3000, deviation 16
  CHECK(rising < 1650);
  std::sort(roomy.begin(), roomy.end());
  CHECK(roomy.size() == 3000);
  CHECK(std::unique(roomy.begin(), roomy.end()) == roomy.end());
}

TEST_CASE("data prepare: killed anywhere and run again, it makes the same bytes", "[model]") {
  const TemporaryDirectory directory;
  WriteLines(directory.Join("a.jsonl"), "a", 600);
  std::string text;
  while (text.size() < (1u << 20)) text += "line " + std::to_string(text.size()) + "\n";
  WriteFile(directory.Join("b.txt"), text);
  const bool weighs = GENERATE(false, true), shuffles = GENERATE(false, true);
  CAPTURE(weighs, shuffles);
  PrepareDocumentsOptions options;
  options.validation_share = 0.05;
  options.shard_tokens = 3000;
  options.save_every = 600;  // 60 documents, or a piece
  if (weighs) options.weights = {1, 30};
  if (shuffles) options.shuffle = 7;
  const auto prepare = [&](const std::string& out, ShowProgress show) {
    Marked tokenizer;
    PrepareDocumentsOptions own = options;
    own.progress = std::move(show);
    return PrepareDocuments({directory.Join("a.jsonl"), directory.Join("b.txt")},
                            directory.Join(out), tokenizer, own)
        .status();
  };
  REQUIRE(prepare("undisturbed", nullptr).ok());

  int kills = 0;
  while (KilledAt(65 + 37 * kills % 60,
                  [&](ShowProgress show) { return prepare("killed", std::move(show)); })) {
    REQUIRE(++kills < 100);
  }

  CHECK(kills >= 4);
  const bool are_equal =
      FilesIn(directory.Join("killed")) == FilesIn(directory.Join("undisturbed"));
  CHECK(are_equal);
}

TEST_CASE("data prepare: a text into bytes, killed anywhere and run again", "[model]") {
  const TemporaryDirectory directory;
  std::string text;
  while (text.size() < (6u << 20)) text += "l\xc3\xa9 " + std::to_string(text.size()) + "\n";
  WriteFile(directory.Join("text"), text);
  const auto prepare = [&](const std::string& out, ShowProgress show) {
    PrepareTextOptions options;
    options.validation_share = 0.3;
    options.shard_tokens = 700000;
    options.save_every = 1;
    options.progress = std::move(show);
    return PrepareText(directory.Join("text"), directory.Join(out), options).status();
  };
  REQUIRE(prepare("undisturbed", nullptr).ok());

  int kills = 0;
  int reports = 1;  // while it counts; then while it writes
  while (KilledAt(reports, [&](ShowProgress show) { return prepare("killed", std::move(show)); })) {
    reports = ++kills == 1 ? 27 : 3;
    REQUIRE(kills < 100);
  }

  CHECK(kills >= 4);
  const bool are_equal =
      FilesIn(directory.Join("killed")) == FilesIn(directory.Join("undisturbed"));
  CHECK(are_equal);
}

TEST_CASE("data prepare: half a data set of another request is not gone on with",
          "[model][error]") {
  const TemporaryDirectory directory;
  WriteLines(directory.Join("a.jsonl"), "a", 600);
  PrepareDocumentsOptions options;
  options.save_every = 100;
  const auto prepare = [&](ShowProgress show) {
    Marked tokenizer;
    PrepareDocumentsOptions own = options;
    own.progress = std::move(show);
    return PrepareDocuments({directory.Join("a.jsonl")}, directory.Join("out"), tokenizer, own)
        .status();
  };
  REQUIRE(KilledAt(300, prepare));

  SECTION("another option") {
    options.shuffle = 1;
  }
  SECTION("another input") {
    WriteLines(directory.Join("a.jsonl"), "b", 601);
  }

  const absl::Status other = prepare(nullptr);
  CHECK(absl::IsFailedPrecondition(other));
  CHECK(ErrorText(other).find(directory.Join("out")) == 0);
}

TEST_CASE("data prepare: a damaged state is refused, never believed", "[model][error]") {
  const TemporaryDirectory directory;
  WriteLines(directory.Join("a.jsonl"), "a", 600);
  PrepareDocumentsOptions options;
  options.save_every = 100;
  options.shard_tokens = 500;
  const auto prepare = [&](ShowProgress show) {
    Marked tokenizer;
    PrepareDocumentsOptions own = options;
    own.progress = std::move(show);
    return PrepareDocuments({directory.Join("a.jsonl")}, directory.Join("out"), tokenizer, own)
        .status();
  };
  REQUIRE(KilledAt(300, prepare));
  const std::string path = directory.Join("out/prepare.state");
  const std::string state = ReadFile(path);

  SECTION("cut") {
    WriteFile(path, state.substr(0, state.size() / 2));
  }
  SECTION("nothing") {
    WriteFile(path, "");
  }
  SECTION("no numbers") {
    WriteFile(path, "{\"format\": \"skerry-prepare 1\"}\n");
  }
  SECTION("a shard is gone") {
    REQUIRE(std::filesystem::remove(directory.Join("out/train-00000.tok")));
  }

  CHECK_FALSE(prepare(nullptr).ok());
  CHECK_FALSE(std::filesystem::exists(directory.Join("out/index.json")));
}

TEST_CASE("data prepare: wrong weights are refused", "[model][error]") {
  const TemporaryDirectory directory;
  WriteLines(directory.Join("a.jsonl"), "a", 3);
  WriteFile(directory.Join("empty.txt"), "");
  Marked tokenizer;
  const auto prepare = [&](std::vector<std::string> inputs, std::vector<double> weights) {
    PrepareDocumentsOptions options;
    options.weights = std::move(weights);
    return PrepareDocuments(inputs, directory.Join("out"), tokenizer, options).status();
  };
  const std::string a = directory.Join("a.jsonl");

  CHECK(absl::IsInvalidArgument(prepare({a, a}, {1})));
  CHECK(absl::IsInvalidArgument(prepare({a, a}, {1, 0})));
  CHECK(absl::IsInvalidArgument(prepare({a, a}, {1, NAN})));
  CHECK(absl::IsInvalidArgument(prepare({a, "-"}, {1, 1})));
  CHECK_FALSE(std::filesystem::exists(directory.Join("out/index.json")));
}

}  // namespace skerry
