#include "localsgd/piece_reducer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/check.h"
#include "common/status.h"

namespace skerry {

PieceReducer::PieceReducer(const OuterConfig& config, const PieceCut& cut, int64_t nominal_tokens,
                           std::shared_ptr<CodecBook> codecs)
    : cut_(cut),
      codecs_(std::move(codecs)),
      nominal_tokens_(nominal_tokens),
      down_(DownCodecOf(config)),
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

absl::StatusOr<std::vector<float>> PieceReducer::After(int32_t piece, std::span<const float> mean,
                                                       std::span<const uint8_t> sum,
                                                       int64_t round) const {
  std::vector<float> sent(mean.size());
  SKERRY_RETURN_IF_ERROR(codecs_->DownOfPiece(round, piece)->Decode(sum, sent));
  std::vector<float> residual = ResidualOrZeros(piece);
  // The same expression as the encoder's, so these are the bits it saw.
  for (size_t i = 0; i < residual.size(); ++i) residual[i] = (mean[i] + residual[i]) - sent[i];
  return residual;
}

absl::StatusOr<Bytes> PieceReducer::Reduce(int32_t piece, std::vector<RoundMessage> messages,
                                           int64_t round, PieceState* state) const {
  std::vector<bool> screened;
  SKERRY_ASSIGN_OR_RETURN(const std::vector<float> mean,
                          Mean(piece, std::move(messages), round, &screened));
  const std::vector<float> residual = ResidualOrZeros(piece);
  Bytes sum;
  SKERRY_RETURN_IF_ERROR(
      codecs_->DownOfPiece(round, piece)->EncodeDelta({.base = mean, .residual = residual}, &sum));
  if (state != nullptr) {
    SKERRY_ASSIGN_OR_RETURN(const std::vector<float> after, After(piece, mean, sum, round));
    const auto before = residuals_.find(piece);
    *state = {piece, before == residuals_.end() ? Digest() : StateDigest(before->second),
              StateDigest(after)};
  }
  return sum;
}

absl::Status PieceReducer::Land(int32_t piece, std::vector<RoundMessage> messages,
                                std::span<const uint8_t> sum, int64_t round) {
  std::vector<bool> screened;
  SKERRY_ASSIGN_OR_RETURN(const std::vector<float> mean,
                          Mean(piece, std::move(messages), round, &screened));
  SKERRY_ASSIGN_OR_RETURN(residuals_[piece], After(piece, mean, sum, round));
  AddTakenOver(piece);
  screened_ = std::move(screened);
  return absl::OkStatus();
}

void PieceReducer::AddTakenOver(int32_t piece) {
  if (!taken_over_.contains(piece)) return;
  residuals_[piece] = LeftOverOf(piece);
  taken_over_.erase(piece);
}

// Of no round's table: the reducers of a left-over need not be in the same round. nullptr: there is
// no such form.
const Codec* PieceReducer::LeftOverCodec(int32_t piece, LeftOverForm form) const {
  constexpr int64_t kBeforeTables = -1;
  if (form == LeftOverForm::kDown) return codecs_->DownOfPiece(kBeforeTables, piece).get();
  return form == LeftOverForm::kInt8 ? &CodecFor(DeltaCodec::kInt8) : nullptr;
}

std::vector<PieceReducer::LeftOver> PieceReducer::HandOn(const std::set<int32_t>& own) {
  constexpr float kRounding = 0x1p-20f;
  const bool is_fine = down_ == DeltaCodec::kNone || down_ == DeltaCodec::kBf16;
  const auto form = own.empty() && !is_fine ? LeftOverForm::kInt8 : LeftOverForm::kDown;
  std::vector<LeftOver> all;
  for (int32_t piece = 0; piece < cut_.count(); ++piece) {
    if (!own.contains(piece)) AddTakenOver(piece);
  }
  for (auto it = residuals_.begin(); it != residuals_.end();) {
    const int32_t piece = it->first;
    std::vector<float>& s = it->second;
    if (own.contains(piece)) {
      handing_on_.erase(piece);
      ++it;
      continue;
    }
    float largest = 0;
    for (const float value : s) largest = std::max(largest, std::fabs(value));
    const float first = handing_on_.try_emplace(piece, largest).first->second;
    Bytes encoded;
    std::vector<float> sent(s.size());
    const Codec& codec = *LeftOverCodec(piece, form);
    const bool goes = largest > first * kRounding && codec.Encode(s, &encoded).ok() &&
                      codec.Decode(encoded, sent).ok() &&
                      std::any_of(sent.begin(), sent.end(), [](float x) { return x != 0; });
    if (!goes) {
      handing_on_.erase(piece);
      it = residuals_.erase(it);
      continue;
    }
    for (size_t i = 0; i < s.size(); ++i) s[i] -= sent[i];
    Bytes message = {static_cast<uint8_t>(form)};
    message.insert(message.end(), encoded.begin(), encoded.end());
    all.push_back({piece, std::move(message)});
    ++it;
  }
  return all;
}

absl::Status PieceReducer::CheckLeftOver(int32_t piece, std::span<const uint8_t> message) const {
  if (piece < 0 || piece >= cut_.count()) return InvalidArgument("there is no piece %d", piece);
  if (message.empty()) return InvalidArgument("left-over of piece %d: no bytes", piece);
  const Codec* codec = LeftOverCodec(piece, static_cast<LeftOverForm>(message.front()));
  if (codec == nullptr) return InvalidArgument("left-over of piece %d: no such form", piece);
  return codec->Check(message.subspan(kFormBytes), cut_.Size(piece));
}

absl::StatusOr<std::vector<float>> PieceReducer::DecodeLeftOver(
    int32_t piece, std::span<const uint8_t> message) const {
  SKERRY_RETURN_IF_ERROR(CheckLeftOver(piece, message));
  std::vector<float> values(static_cast<size_t>(cut_.Size(piece)));
  SKERRY_RETURN_IF_ERROR(LeftOverCodec(piece, static_cast<LeftOverForm>(message.front()))
                             ->Decode(message.subspan(kFormBytes), values));
  return values;
}

absl::Status PieceReducer::TakeOver(int32_t piece, std::span<const uint8_t> message) {
  SKERRY_ASSIGN_OR_RETURN(const std::vector<float> more, DecodeLeftOver(piece, message));
  std::vector<float>& taken = taken_over_[piece];
  taken.resize(more.size());
  for (size_t i = 0; i < more.size(); ++i) taken[i] += more[i];
  handing_on_.erase(piece);
  return absl::OkStatus();
}

void PieceReducer::KeepOnly(const std::set<int32_t>& own) {
  std::erase_if(taken_over_, [&](const auto& entry) { return !own.contains(entry.first); });
  std::erase_if(residuals_, [&](const auto& entry) { return !own.contains(entry.first); });
}

std::vector<float> PieceReducer::LeftOverOf(int32_t piece) const {
  const auto s = residuals_.find(piece), taken = taken_over_.find(piece);
  if (taken == taken_over_.end()) {
    return s == residuals_.end() ? std::vector<float>() : s->second;
  }
  std::vector<float> all = ResidualOrZeros(piece);
  for (size_t i = 0; i < all.size(); ++i) all[i] += taken->second[i];
  return all;
}

Digest StateDigest(std::span<const float> s) {
  if (s.empty()) return {};
  return DigestOf({reinterpret_cast<const uint8_t*>(s.data()), s.size_bytes()});
}

const std::vector<float>* PieceReducer::ReducedFrom(int32_t piece, const Digest& before) const {
  static const std::vector<float> kNone;
  if (before.IsZero()) return &kNone;
  const auto it = residuals_.find(piece);
  return it != residuals_.end() && StateDigest(it->second) == before ? &it->second : nullptr;
}

void PieceReducer::Resume(int32_t piece, std::vector<float> residual) {
  SKERRY_CHECK(residual.empty() || static_cast<int64_t>(residual.size()) == cut_.Size(piece));
  taken_over_.erase(piece);
  if (residual.empty()) {
    residuals_.erase(piece);
  } else {
    residuals_[piece] = std::move(residual);
  }
}

int64_t PieceReducer::HeldBytes() const {
  int64_t floats = 0;
  for (const auto& [piece, taken] : taken_over_) floats += static_cast<int64_t>(taken.size());
  for (const auto& [piece, residual] : residuals_) floats += static_cast<int64_t>(residual.size());
  return 4 * floats;
}

}  // namespace skerry
