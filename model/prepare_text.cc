#include "model/prepare_text.h"

#include <algorithm>

#include "common/status.h"
#include "model/text_source.h"
#include "model/tokenizer.h"

namespace skerry {
namespace {

void Report(const PrepareTextOptions& options, double share) {
  if (options.progress) options.progress(share);
}

absl::StatusOr<int64_t> CountBytes(const std::string& input, const PrepareTextOptions& options) {
  SKERRY_ASSIGN_OR_RETURN(const auto source, TextSource::Open(input));
  int64_t bytes = 0;
  while (true) {
    SKERRY_ASSIGN_OR_RETURN(const std::string piece, source->Next());
    if (piece.empty()) return bytes;
    bytes += static_cast<int64_t>(piece.size());
    Report(options, 0.5 * source->progress());
  }
}

}  // namespace

absl::StatusOr<PreparedText> PrepareText(const std::string& input, const std::string& directory,
                                         const PrepareTextOptions& options) {
  if (!(options.validation_share >= 0 && options.validation_share <= 0.5)) {
    return InvalidArgument("validation share: %g is outside 0 to 0.5", options.validation_share);
  }
  SKERRY_ASSIGN_OR_RETURN(
      const auto writer,
      TokenDatasetWriter::Create(directory, ByteTokenizer::kVocab, options.shard_tokens));
  SKERRY_ASSIGN_OR_RETURN(const int64_t total, CountBytes(input, options));
  if (total == 0) return InvalidArgument("%s: has no text", input);
  PreparedText result;
  result.validation_tokens =
      static_cast<int64_t>(options.validation_share * static_cast<double>(total));
  result.train_tokens = total - result.validation_tokens;
  SKERRY_ASSIGN_OR_RETURN(const auto source, TextSource::Open(input));
  int64_t written = 0;
  while (true) {
    SKERRY_ASSIGN_OR_RETURN(const std::string piece, source->Next());
    if (piece.empty()) break;
    const std::vector<int32_t> encoded = ByteTokenizer::Encode(piece);
    const std::span<const int32_t> tokens(encoded);
    const auto train_left =
        std::clamp<int64_t>(result.train_tokens - written, 0, static_cast<int64_t>(tokens.size()));
    const auto split_at = static_cast<size_t>(train_left);
    SKERRY_RETURN_IF_ERROR(writer->Append(Split::kTrain, tokens.first(split_at)));
    SKERRY_RETURN_IF_ERROR(writer->Append(Split::kValidation, tokens.subspan(split_at)));
    written += static_cast<int64_t>(tokens.size());
    Report(options, 0.5 + 0.5 * source->progress());
  }
  if (written != total) return Unavailable("%s: changed while it was read; try again", input);
  SKERRY_RETURN_IF_ERROR(writer->Finish());
  return result;
}

}  // namespace skerry
