#include "model/prepare_documents.h"

#include <algorithm>
#include <utility>

#include "common/status.h"
#include "model/document_reader.h"
#include "model/token_bin.h"

namespace skerry {
namespace {

constexpr int64_t kTokensAtOnce = 1 << 20;

class DocumentWriter {
 public:
  DocumentWriter(TokenDatasetWriter& writer, TextTokenizer& tokenizer, double validation_share)
      : writer_(writer), tokenizer_(tokenizer), share_(validation_share) {}

  absl::Status Add(std::string_view text, bool ends_document) {
    if (text.empty() && !ends_document) return absl::OkStatus();
    std::vector<int32_t> tokens = tokenizer_.Encode(text);
    if (ends_document && tokenizer_.separator() >= 0) tokens.push_back(tokenizer_.separator());
    return AddTokens(SplitOf(static_cast<int64_t>(text.size())), tokens);
  }
  // Whole files of tokens are not split.
  absl::Status AddTokens(Split split, std::span<const int32_t> tokens) {
    int64_t& count = split == Split::kTrain ? prepared_.train_tokens : prepared_.validation_tokens;
    count += static_cast<int64_t>(tokens.size());
    return writer_.Append(split, tokens);
  }
  const PreparedText& prepared() const { return prepared_; }

 private:
  // Held out is the share of the bytes seen, to a piece: from the second piece on there is some.
  Split SplitOf(int64_t bytes) {
    const double owed =
        share_ * static_cast<double>(seen_ + bytes) - static_cast<double>(held_out_);
    const bool holds_out = std::exchange(seen_, seen_ + bytes) > 0 && owed > 0 &&
                           static_cast<double>(bytes) <= owed + double{kPieceBytes};
    if (holds_out) held_out_ += bytes;
    return holds_out ? Split::kValidation : Split::kTrain;
  }

  TokenDatasetWriter& writer_;
  TextTokenizer& tokenizer_;
  double share_;
  int64_t seen_ = 0, held_out_ = 0;  // bytes of text
  PreparedText prepared_;
};

absl::Status AddTokenBin(const std::string& path, const FileProgress& progress,
                         DocumentWriter& out) {
  SKERRY_ASSIGN_OR_RETURN(const TokenBin bin, TokenBin::Open(path));
  const Split split = IsForValidation(path) ? Split::kValidation : Split::kTrain;
  for (int64_t first = 0; first < bin.tokens(); first += kTokensAtOnce) {
    const int64_t count = std::min(kTokensAtOnce, bin.tokens() - first);
    const absl::Status added = out.AddTokens(split, bin.Read(first, count));
    if (!added.ok()) {
      return Annotate(added, path + ": made by another tokenizer? --tokenizer names it");
    }
    progress(static_cast<double>(first + count) / static_cast<double>(bin.tokens()));
  }
  return absl::OkStatus();
}

absl::Status AddFile(const std::string& path, const PrepareDocumentsOptions& options,
                     const FileProgress& progress, DocumentWriter& out) {
  if (IsTokenBin(path)) return AddTokenBin(path, progress, out);
  return ReadDocuments(
      path, {options.field, options.is_json_lines}, progress,
      [&out](std::string_view text, bool ends_document) { return out.Add(text, ends_document); });
}

}  // namespace

absl::StatusOr<PreparedText> PrepareDocuments(const std::vector<std::string>& inputs,
                                              const std::string& directory,
                                              TextTokenizer& tokenizer,
                                              const PrepareDocumentsOptions& options) {
  if (!(options.validation_share >= 0 && options.validation_share <= 0.5)) {
    return InvalidArgument("validation share: %g is outside 0 to 0.5", options.validation_share);
  }
  SKERRY_ASSIGN_OR_RETURN(const auto files, FilesOf(inputs));
  SKERRY_ASSIGN_OR_RETURN(const auto writer, TokenDatasetWriter::Create(
                                                 directory, tokenizer.vocab(), options.shard_tokens,
                                                 options.tokenizer_digest));
  DocumentWriter out(*writer, tokenizer, options.validation_share);
  for (size_t i = 0; i < files.size(); ++i) {
    const FileProgress progress = [&](double of_file) {
      const double done = static_cast<double>(i) + of_file;
      if (options.progress) options.progress(done / static_cast<double>(files.size()));
    };
    SKERRY_RETURN_IF_ERROR(AddFile(files[i], options, progress, out));
  }
  if (out.prepared().train_tokens + out.prepared().validation_tokens == 0) {
    return InvalidArgument("%s: has no text", inputs.empty() ? "no input" : inputs.front());
  }
  SKERRY_RETURN_IF_ERROR(writer->Finish());
  return out.prepared();
}

}  // namespace skerry
