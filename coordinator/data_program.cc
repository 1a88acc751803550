#include "coordinator/data_program.h"

#include <cstdio>
#include <filesystem>
#include <utility>

#include "common/digest.h"
#include "common/status.h"
#include "coordinator/checkpoint_program.h"
#include "coordinator/directory_before_program.h"
#include "coordinator/import_program.h"
#include "coordinator/progress_line_program.h"
#include "model/bpe_trainer.h"
#include "model/document_reader.h"
#include "model/export.h"
#include "model/file_io.h"
#include "model/file_shares.h"
#include "model/prepare_documents.h"
#include "model/token_bin.h"
#include "model/token_dataset.h"
#include "model/unpacked_file.h"

namespace skerry {
namespace {

namespace fs = std::filesystem;

constexpr char kOtherTokenizer[] =
    "; a model that continues on other tokens than its own begins almost anew: --new-tokenizer, if "
    "that is meant";

// The file that makes a tokenizer what it is; "" for bytes.
std::string FileOf(const std::string& tokenizer) {
  if (tokenizer.empty() || tokenizer == "byte" || !fs::is_directory(tokenizer)) {
    return tokenizer == "byte" ? "" : tokenizer;
  }
  for (const char* name : {"tokenizer.json", "tokenizer.model"}) {
    const std::string file = tokenizer + "/" + name;
    if (fs::exists(file)) return file;
  }
  return "";
}

absl::StatusOr<std::string> DigestOfTokenizer(const std::string& tokenizer) {
  const std::string file = FileOf(tokenizer);
  if (file.empty()) return std::string();
  SKERRY_ASSIGN_OR_RETURN(const auto map, MappedFile::Open(file));
  return DigestOf(map->bytes()).Hex();
}

absl::StatusOr<PreparedDocuments> Prepare(const PrepareRequest& request, ShowProgress show) {
  const bool is_bytes = FileOf(request.tokenizer).empty();
  const std::string& first = request.texts.front();
  const bool is_plain = request.texts.size() == 1 && !request.is_json_lines &&
                        request.weights.empty() && !request.shuffle.has_value() &&
                        first != kStandardInput && !fs::is_directory(first) && !IsTokenBin(first) &&
                        first.find(".jsonl") == std::string::npos &&
                        first.find(".ndjson") == std::string::npos;
  if (is_bytes && is_plain) {
    PrepareTextOptions options;
    options.validation_share = request.validation_share;
    options.progress = std::move(show);
    SKERRY_ASSIGN_OR_RETURN(const PreparedText prepared,
                            PrepareText(request.texts.front(), request.out, options));
    return PreparedDocuments{prepared, {}};
  }
  SKERRY_ASSIGN_OR_RETURN(const auto tokenizer, OpenTokenizer(request.tokenizer));
  PrepareDocumentsOptions options;
  options.validation_share = request.validation_share;
  options.field = request.field;
  options.is_json_lines = request.is_json_lines;
  options.weights = request.weights;
  options.passes_max = request.passes_max;
  options.shuffle = request.shuffle;
  options.progress = std::move(show);
  SKERRY_ASSIGN_OR_RETURN(options.tokenizer_digest, DigestOfTokenizer(request.tokenizer));
  return PrepareDocuments(request.texts, request.out, *tokenizer, options);
}

}  // namespace

absl::Status PrepareData(const PrepareRequest& request) {
  if (request.texts.empty()) return InvalidArgument("want a text");
  const DirectoryBefore before(request.out);
  ProgressLine line("tokenizing");
  const auto prepared = Prepare(request, [&line](const PrepareProgress& at) { line.Show(at); });
  line.End();
  if (!prepared.ok()) {
    // Texts that were read for hours are gone on with by the same command.
    if (!fs::exists(request.out + "/prepare.state")) before.Restore();
    return prepared.status();
  }
  std::printf("%s: %lld training and %lld validation tokens\n", request.out.c_str(),
              static_cast<long long>(prepared->train_tokens),
              static_cast<long long>(prepared->validation_tokens));
  if (prepared->validation_tokens == 0 && request.validation_share > 0) {
    std::fprintf(stderr,
                 "note: there is too little text to hold any out (whole pieces are, of some %d "
                 "KiB), so no loss on held-out text will be known\n",
                 static_cast<int>(kPieceBytes >> 10));
  }
  const auto all = static_cast<double>(prepared->train_tokens + prepared->validation_tokens);
  for (const PreparedSource& source : prepared->sources) {
    std::printf("  %5.1f %% %s, %.2f times\n", 100 * static_cast<double>(source.tokens) / all,
                source.input.c_str(), source.passes);
  }
  return absl::OkStatus();
}

absl::Status MakeTokenizer(const TokenizerRequest& request) {
  if (request.texts.empty()) return InvalidArgument("want a text");
  if (fs::exists(request.out)) {
    return AlreadyExists("%s: there is a file; --out names another", request.out);
  }
  SKERRY_ASSIGN_OR_RETURN(const auto files, FilesOf(request.texts));
  ProgressLine line("counting words");
  const FileShares shares(files);
  int64_t bytes = 0;
  BpeTrainer trainer;
  for (size_t i = 0; i < files.size(); ++i) {
    if (IsTokenBin(files[i])) return InvalidArgument("%s: tokens; want texts", files[i]);
    const auto progress = [&](double of_file) { line.Show({shares.At(i, of_file), bytes}); };
    const auto take = [&](std::string_view text, bool) {
      trainer.Add(text);
      bytes += static_cast<int64_t>(text.size());
      return absl::OkStatus();
    };
    SKERRY_RETURN_IF_ERROR(
        ReadDocuments(files[i], {request.field, request.is_json_lines}, progress, take));
  }
  line.End();
  std::fprintf(stderr, "learning %d tokens\n", request.tokens);
  SKERRY_ASSIGN_OR_RETURN(const BpeVocabulary vocabulary, trainer.Train(request.tokens));
  SKERRY_RETURN_IF_ERROR(WriteFileAtomically(request.out, TokenizerJsonOf(vocabulary)));
  std::printf("%s: %d tokens; data prepare --tokenizer %s\n", request.out.c_str(), request.tokens,
              request.out.c_str());
  return absl::OkStatus();
}

absl::Status CheckTokens(const InitOptions& options) {
  if (options.from.empty() || options.new_tokenizer) return absl::OkStatus();
  const std::string own =
      IsHuggingFaceDirectory(options.from) ? options.from : TokenizerOf(options.from);
  if (FileOf(own).empty()) return absl::OkStatus();
  SKERRY_ASSIGN_OR_RETURN(const std::string models, DigestOfTokenizer(own));
  if (!options.tokenizer.empty()) {
    SKERRY_ASSIGN_OR_RETURN(const std::string wished, DigestOfTokenizer(options.tokenizer));
    if (wished != models) {
      return InvalidArgument("%s is not the tokenizer of %s%s", options.tokenizer, options.from,
                             kOtherTokenizer);
    }
  }
  if (options.shards.empty()) return absl::OkStatus();
  SKERRY_ASSIGN_OR_RETURN(const auto data, TokenDataset::Open(options.shards, Verify::kSizes));
  if (data->tokenizer() == models) return absl::OkStatus();
  return InvalidArgument("%s was not made by the tokenizer of %s%s", options.shards, options.from,
                         kOtherTokenizer);
}

absl::StatusOr<std::string> TokenizerForData(const InitOptions& options) {
  const std::string own = TokenizerOf(options.directory);
  const std::string file = FileOf(options.tokenizer);
  const bool is_models = !own.empty() && !options.new_tokenizer;
  if (options.tokenizer.empty() || is_models) return own;
  if (file.empty()) return std::string();
  const std::string from = fs::path(fs::absolute(file)).parent_path().string();
  SKERRY_RETURN_IF_ERROR(CopyTokenizerFiles(from, options.directory + "/tokenizer"));
  return options.tokenizer;
}

absl::Status CheckDataFits(const InitOptions& options, int32_t vocab) {
  const std::string directory = options.directory + "/data";
  if (!fs::exists(directory + "/" + kDatasetIndexFile)) return absl::OkStatus();
  SKERRY_ASSIGN_OR_RETURN(const auto data, TokenDataset::Open(directory, Verify::kSizes));
  if (data->vocab() > vocab) {
    return InvalidArgument(
        "the data has a vocabulary of %d tokens, the model of %d ([model] vocab)", data->vocab(),
        vocab);
  }
  return absl::OkStatus();
}

}  // namespace skerry
