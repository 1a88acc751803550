// How fast texts become tokens: `data prepare` of bytes and of a vocabulary of 32,000 that is
// learnt from the same text, disk included.
//
//   bench_data [--text FILE] [--json FILE]   FILE: plain or packed, 20 MB or more of it
#include <unistd.h>

#include <filesystem>
#include <string>

#include "bench/bench.h"
#include "model/bpe_trainer.h"
#include "model/file_io.h"
#include "model/json_tokenizer.h"
#include "model/prepare_documents.h"
#include "model/prepare_text.h"
#include "model/text_source.h"

namespace skerry::bench {
namespace {

namespace fs = std::filesystem;

constexpr char kText[] = "/usr/share/dictd/gcide.dict.dz";  // of Debian's dict-gcide
constexpr size_t kBytes = 20'000'000;
constexpr size_t kLearntFrom = 5'000'000;
constexpr int32_t kTokens = 32'000;

[[noreturn]] void Fail(const absl::Status& status) {
  std::fprintf(stderr, "bench_data: %s\n", std::string(status.message()).c_str());
  std::exit(2);
}

template <typename T>
T Must(absl::StatusOr<T> value) {
  if (!value.ok()) Fail(value.status());
  return *std::move(value);
}

std::string TextOf(const std::string& file) {
  const auto source = Must(TextSource::Open(file));
  std::string text;
  while (text.size() < kBytes) {
    const std::string piece = Must(source->Next());
    if (piece.empty()) break;
    text += piece;
  }
  return text;
}

struct Rate {
  double mb_s;
  PreparedText prepared;
};

int Run(int argc, char** argv) {
  Bench bench("data", argc, argv, {"--text"});
  const std::string file = bench.Option("--text").empty() ? kText : bench.Option("--text");
  const std::string text = TextOf(file);
  const fs::path home = fs::temp_directory_path() / ("bench_data." + std::to_string(getpid()));
  fs::create_directories(home);
  const std::string input = home / "text.txt", out = home / "out";
  if (const auto written = WriteFileAtomically(input, text); !written.ok()) Fail(written);
  const auto megabytes = 1e-6 * static_cast<double>(text.size());

  const auto rate = [&](int rounds, const auto& prepare) {
    PreparedText prepared;
    const double seconds = BestSeconds(rounds, [&] {
      fs::remove_all(out);
      prepared = Must(prepare());
    });
    return Rate{megabytes / seconds, prepared};
  };
  const Rate bytes = rate(3, [&] { return PrepareText(input, out, {}); });

  BpeTrainer trainer;
  double learning = BestSeconds(1, [&] {
    trainer = BpeTrainer();
    trainer.Add(std::string_view(text).substr(0, kLearntFrom));
  });
  BpeVocabulary vocabulary;
  learning += BestSeconds(1, [&] { vocabulary = Must(trainer.Train(kTokens)); });
  const std::string json = TokenizerJsonOf(vocabulary);
  const Rate bpe = rate(3, [&] {
    const auto tokenizer = Must(ParseJsonTokenizer(json, ""));
    return PrepareDocuments({input}, out, *tokenizer, {});
  });
  fs::remove_all(home);

  bench.Record("text", megabytes, "MB");
  bench.AtLeast("bytes, a core", bytes.mb_s, "MB/s", 100);
  bench.AtLeast("BPE of 32,000 tokens, a core", bpe.mb_s, "MB/s", 20);
  const auto tokens = bpe.prepared.train_tokens + bpe.prepared.validation_tokens;
  bench.Record("bytes a token", static_cast<double>(text.size()) / static_cast<double>(tokens), "");
  bench.Record("32,000 tokens learnt of 5 MB", learning, "s");
  return bench.Finish();
}

}  // namespace
}  // namespace skerry::bench

int main(int argc, char** argv) {
  return skerry::bench::Run(argc, argv);
}
