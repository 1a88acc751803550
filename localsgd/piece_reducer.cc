#include "localsgd/piece_reducer.h"

#include <algorithm>
#include <utility>

#include "common/check.h"
#include "common/status.h"

namespace skerry {

PieceReducer::PieceReducer(const OuterConfig& config, const PieceCut& cut, int64_t nominal_tokens,
                           std::shared_ptr<CodecBook> codecs)
    : cut_(cut),
      codecs_(std::move(codecs)),
      nominal_tokens_(nominal_tokens),
      robust_(RobustOptions::Of(config)) {
  if (!codecs_) codecs_ = std::make_shared<CodecBook>(config, cut.parameters, cut);
}

absl::StatusOr<std::vector<float>> PieceReducer::Mean(int32_t piece,
                                                      std::vector<RoundMessage> messages,
                                                      int64_t round,
                                                      std::vector<bool>* screened) const {
  SKERRY_CHECK(piece >= 0 && piece < cut_.count());
  const int64_t size = cut_.Size(piece);
  const auto up = codecs_->OfPiece(round, piece);
  SKERRY_ASSIGN_OR_RETURN(const RoundMean mean, RoundMean::Make(*up, size, std::move(messages),
                                                                nominal_tokens_, robust_));
  *screened = mean.screened();
  std::vector<float> d(static_cast<size_t>(size));
  for (int64_t first = 0; first < size; first += RoundMean::kTile) {
    const int64_t count = std::min(RoundMean::kTile, size - first);
    mean.Tile(first, std::span(d).subspan(static_cast<size_t>(first), static_cast<size_t>(count)));
  }
  return d;
}

std::vector<float> PieceReducer::ResidualOrZeros(int32_t piece) const {
  const auto it = residuals_.find(piece);
  if (it != residuals_.end()) return it->second;
  return std::vector<float>(static_cast<size_t>(cut_.Size(piece)), 0.0f);
}

absl::StatusOr<Bytes> PieceReducer::Reduce(int32_t piece, std::vector<RoundMessage> messages,
                                           int64_t round) const {
  std::vector<bool> screened;
  SKERRY_ASSIGN_OR_RETURN(const std::vector<float> mean,
                          Mean(piece, std::move(messages), round, &screened));
  const std::vector<float> residual = ResidualOrZeros(piece);
  Bytes sum;
  SKERRY_RETURN_IF_ERROR(
      codecs_->DownOfPiece(round, piece)->EncodeDelta({.base = mean, .residual = residual}, &sum));
  return sum;
}

absl::Status PieceReducer::Land(int32_t piece, std::vector<RoundMessage> messages,
                                std::span<const uint8_t> sum, int64_t round) {
  std::vector<bool> screened;
  SKERRY_ASSIGN_OR_RETURN(const std::vector<float> mean,
                          Mean(piece, std::move(messages), round, &screened));
  std::vector<float> sent(mean.size());
  SKERRY_RETURN_IF_ERROR(codecs_->DownOfPiece(round, piece)->Decode(sum, sent));
  std::vector<float> residual = ResidualOrZeros(piece);
  // The same expression as the encoder's, so these are the bits it saw.
  for (size_t i = 0; i < residual.size(); ++i) residual[i] = (mean[i] + residual[i]) - sent[i];
  residuals_[piece] = std::move(residual);
  screened_ = std::move(screened);
  return absl::OkStatus();
}

void PieceReducer::KeepOnly(const std::set<int32_t>& pieces) {
  std::erase_if(residuals_, [&](const auto& entry) { return !pieces.contains(entry.first); });
}

std::span<const float> PieceReducer::residual(int32_t piece) const {
  const auto it = residuals_.find(piece);
  return it == residuals_.end() ? std::span<const float>() : std::span<const float>(it->second);
}

int64_t PieceReducer::HeldBytes() const {
  int64_t floats = 0;
  for (const auto& [piece, residual] : residuals_) floats += static_cast<int64_t>(residual.size());
  return 4 * floats;
}

}  // namespace skerry
