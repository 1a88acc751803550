#include "model/prepare_text.h"

#include <algorithm>
#include <utility>

#include "common/status.h"
#include "model/prepare_state.h"
#include "model/text_source.h"
#include "model/tokenizer.h"

namespace skerry {
namespace {

constexpr char kRead[] = "bytes, written";

class TextPreparation {
 public:
  TextPreparation(const std::string& input, const std::string& directory,
                  const PrepareTextOptions& options)
      : input_(input), directory_(directory), options_(options) {}

  absl::StatusOr<PreparedText> Run() {
    SKERRY_RETURN_IF_ERROR(Begin());
    if (total_ == 0) return InvalidArgument("%s: has no text", input_);
    PreparedText result;
    result.validation_tokens =
        static_cast<int64_t>(options_.validation_share * static_cast<double>(total_));
    result.train_tokens = total_ - result.validation_tokens;
    SKERRY_RETURN_IF_ERROR(Write(result.train_tokens));
    SKERRY_RETURN_IF_ERROR(writer_->Finish());
    RemovePrepareState(directory_);
    return result;
  }

 private:
  absl::Status Begin() {
    SKERRY_ASSIGN_OR_RETURN(writer_, TokenDatasetWriter::Create(directory_, ByteTokenizer::kVocab,
                                                                options_.shard_tokens));
    request_ = RequestDigest({"text 1", absl::StrFormat("%.17g", options_.validation_share),
                              std::to_string(options_.shard_tokens)},
                             {input_});
    SKERRY_ASSIGN_OR_RETURN(auto state, LoadPrepareState(directory_, request_));
    if (!state.has_value()) return Count();
    const std::vector<int64_t>& numbers = state->numbers[kRead];
    if (numbers.size() != 2) return DataLoss("%s: damaged; remove it", directory_);
    total_ = numbers[0];
    resumed_at_ = numbers[1];
    SKERRY_ASSIGN_OR_RETURN(writer_, TokenDatasetWriter::Resume(directory_, options_.shard_tokens,
                                                                std::move(state->written)));
    return absl::OkStatus();
  }

  absl::Status Count() {
    SKERRY_ASSIGN_OR_RETURN(const auto source, TextSource::Open(input_));
    while (true) {
      SKERRY_ASSIGN_OR_RETURN(const std::string piece, source->Next());
      if (piece.empty()) return absl::OkStatus();
      total_ += static_cast<int64_t>(piece.size());
      Report(0.5 * source->progress(), 0);
    }
  }

  absl::Status Write(int64_t train_tokens) {
    SKERRY_ASSIGN_OR_RETURN(const auto source, TextSource::Open(input_));
    int64_t read = 0, saved = resumed_at_;
    while (true) {
      SKERRY_ASSIGN_OR_RETURN(const std::string piece, source->Next());
      if (piece.empty()) break;
      const int64_t begin = std::exchange(read, read + static_cast<int64_t>(piece.size()));
      if (read <= resumed_at_) continue;
      const auto skipped = static_cast<size_t>(std::max<int64_t>(0, resumed_at_ - begin));
      SKERRY_RETURN_IF_ERROR(Append(std::string_view(piece).substr(skipped),
                                    train_tokens - begin - static_cast<int64_t>(skipped)));
      Report(0.5 + 0.5 * source->progress(), read);
      if (read - saved < options_.save_every) continue;
      saved = read;
      SKERRY_RETURN_IF_ERROR(
          SavePrepareState(directory_, {request_, {{kRead, {total_, read}}}, writer_->standing()}));
    }
    if (read == total_) return absl::OkStatus();
    return Unavailable("%s: changed while it was read; try again", input_);
  }

  absl::Status Append(std::string_view text, int64_t train_left) {
    const std::vector<int32_t> encoded = ByteTokenizer::Encode(text);
    const std::span<const int32_t> tokens(encoded);
    const auto split_at = static_cast<size_t>(
        std::clamp<int64_t>(train_left, 0, static_cast<int64_t>(tokens.size())));
    SKERRY_RETURN_IF_ERROR(writer_->Append(Split::kTrain, tokens.first(split_at)));
    return writer_->Append(Split::kValidation, tokens.subspan(split_at));
  }

  void Report(double share, int64_t bytes) const {
    if (options_.progress) options_.progress({share, bytes, bytes, resumed_at_ > 0});
  }

  const std::string& input_;
  const std::string& directory_;
  const PrepareTextOptions& options_;
  std::string request_;
  std::unique_ptr<TokenDatasetWriter> writer_;
  int64_t total_ = 0, resumed_at_ = 0;
};

}  // namespace

absl::StatusOr<PreparedText> PrepareText(const std::string& input, const std::string& directory,
                                         const PrepareTextOptions& options) {
  if (!(options.validation_share >= 0 && options.validation_share <= 0.5)) {
    return InvalidArgument("validation share: %g is outside 0 to 0.5", options.validation_share);
  }
  return TextPreparation(input, directory, options).Run();
}

}  // namespace skerry
