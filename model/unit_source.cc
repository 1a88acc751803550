#include "model/unit_source.h"

#include <algorithm>
#include <utility>

#include "common/status.h"

namespace skerry {

UnitSource::UnitSource(std::vector<std::string> files, TextTokenizer* tokenizer,
                       UnitOptions options)
    : files_(std::move(files)),
      shares_(files_),
      tokenizer_(tokenizer),
      options_(std::move(options)) {}

absl::Status UnitSource::OpenFile() {
  const std::string& path = files_[static_cast<size_t>(at_.file)];
  if (IsTokenBin(path)) {
    SKERRY_ASSIGN_OR_RETURN(bin_, TokenBin::Open(path));
    return absl::OkStatus();
  }
  SKERRY_ASSIGN_OR_RETURN(reader_, DocumentReader::Open(path, options_.format));
  for (int64_t unit = 0; unit < at_.unit; ++unit) {
    SKERRY_ASSIGN_OR_RETURN(const auto piece, reader_->Next());
    if (piece.has_value()) continue;
    return DataLoss("%s: has fewer texts than when it was read before", path);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<TokenUnit>> UnitSource::Next() {
  while (at_.file < static_cast<int64_t>(files_.size())) {
    if (reader_ == nullptr && !bin_.has_value()) SKERRY_RETURN_IF_ERROR(OpenFile());
    SKERRY_ASSIGN_OR_RETURN(auto unit, bin_.has_value() ? NextOfBin() : NextOfText());
    if (unit.has_value()) {
      at_.tokens += static_cast<int64_t>(unit->tokens.size());
      return unit;
    }
    reader_.reset();
    bin_.reset();
    ++at_.file;
    at_.unit = 0;
  }
  ++at_.pass;
  at_.file = at_.seen = at_.held_out = 0;
  return std::nullopt;
}

UnitSource::Unit UnitSource::NextOfText() {
  while (true) {
    SKERRY_ASSIGN_OR_RETURN(const auto piece, reader_->Next());
    if (!piece.has_value()) return std::nullopt;
    ++at_.unit;
    if (piece->text.empty() && !piece->ends_document) continue;
    const auto bytes = static_cast<int64_t>(piece->text.size());
    TokenUnit unit;
    unit.split = SplitOf(bytes);
    if (unit.split == Split::kValidation && at_.pass > 0) continue;
    unit.tokens = tokenizer_->Encode(piece->text);
    const bool ends = piece->ends_document || options_.separates_pieces;
    if (ends && tokenizer_->separator() >= 0) unit.tokens.push_back(tokenizer_->separator());
    at_.text += bytes;
    return unit;
  }
}

// Whole files of tokens are not split.
UnitSource::Unit UnitSource::NextOfBin() {
  const std::string& path = files_[static_cast<size_t>(at_.file)];
  const Split split = IsForValidation(path) ? Split::kValidation : Split::kTrain;
  const int64_t count = std::min(kBinTokens, bin_->tokens() - at_.unit);
  if (count <= 0 || (split == Split::kValidation && at_.pass > 0)) return std::nullopt;
  TokenUnit unit{bin_->Read(at_.unit, count), split};
  const int32_t vocab = tokenizer_->vocab();
  const auto outside = std::find_if(unit.tokens.begin(), unit.tokens.end(),
                                    [&](int32_t token) { return token < 0 || token >= vocab; });
  if (outside != unit.tokens.end()) {
    return InvalidArgument(
        "%s: token %d is outside the vocabulary of %d: made by another tokenizer? --tokenizer "
        "names it",
        path, *outside, vocab);
  }
  const auto last = std::find(unit.tokens.rbegin(), unit.tokens.rend(), tokenizer_->separator());
  if (last != unit.tokens.rend()) {
    unit.tokens.resize(static_cast<size_t>(unit.tokens.rend() - last));
  }
  at_.unit += static_cast<int64_t>(unit.tokens.size());
  at_.text += 2 * static_cast<int64_t>(unit.tokens.size());
  return unit;
}

// Held out is the share of the bytes seen, to a piece: from the second piece on there is some.
Split UnitSource::SplitOf(int64_t bytes) {
  const double owed = options_.validation_share * static_cast<double>(at_.seen + bytes) -
                      static_cast<double>(at_.held_out);
  const bool holds_out = std::exchange(at_.seen, at_.seen + bytes) > 0 && owed > 0 &&
                         static_cast<double>(bytes) <= owed + double{kPieceBytes};
  if (holds_out) at_.held_out += bytes;
  return holds_out ? Split::kValidation : Split::kTrain;
}

absl::Status UnitSource::GoTo(const Position& position) {
  if (position.file < 0 || position.file > static_cast<int64_t>(files_.size())) {
    return DataLoss("a source of %d files has no file %d", files_.size(), position.file);
  }
  at_ = position;
  reader_.reset();
  bin_.reset();
  return absl::OkStatus();
}

double UnitSource::progress() const {
  const auto file = static_cast<size_t>(at_.file);
  double of_file = 0;
  if (reader_ != nullptr) of_file = reader_->progress();
  if (bin_.has_value()) {
    of_file = static_cast<double>(at_.unit) / static_cast<double>(bin_->tokens() + 1);
  }
  return shares_.At(file, of_file);
}

}  // namespace skerry
