// Sharded rounds of a trained stage.

#include <set>
#include <utility>

#include "common/check.h"
#include "common/status.h"
#include "compression/codec.h"
#include "node/trained_stage.h"

namespace skerry {
namespace {

std::vector<RoundMessage> Messages(const std::vector<StageWork::Accepted>& participants) {
  std::vector<RoundMessage> messages;
  for (const auto& p : participants) messages.push_back({p.tokens, View(p.payload)});
  return messages;
}

}  // namespace

OuterReplicaOptions TrainedStage::ReplicaOptions() const {
  OuterReplicaOptions options;
  options.cut = cut_;
  options.codecs = codecs_;
  return options;
}

absl::StatusOr<std::vector<Payload>> TrainedStage::EncodePieces(int64_t) {
  trainer_->ReadParameters(theta_);
  SKERRY_ASSIGN_OR_RETURN(std::vector<Bytes> pieces, replica_->EncodePieces(theta_));
  NoteHeld();
  std::vector<Payload> messages;
  for (Bytes& piece : pieces) messages.push_back(MakePayload(std::move(piece)));
  return messages;
}

absl::StatusOr<std::vector<Payload>> TrainedStage::ReducePieces(const Reduction& reduction) const {
  SKERRY_CHECK(reducer_ && reduction.messages.size() == reduction.pieces.size());
  std::vector<Payload> sums;
  for (size_t i = 0; i < reduction.pieces.size(); ++i) {
    SKERRY_ASSIGN_OR_RETURN(
        Bytes sum,
        reducer_->Reduce(reduction.pieces[i], Messages(reduction.messages[i]), reduction.round));
    sums.push_back(MakePayload(std::move(sum)));
  }
  return sums;
}

absl::Status TrainedStage::ApplySums(const Landing& landing) {
  SKERRY_CHECK(reducer_ != nullptr);
  const std::vector<int32_t>& own = landing.own.pieces;
  for (size_t i = 0; i < own.size(); ++i) {
    SKERRY_RETURN_IF_ERROR(reducer_->Land(own[i], Messages(landing.own.messages[i]),
                                          View(landing.sums[static_cast<size_t>(own[i])]),
                                          landing.round));
  }
  reducer_->KeepOnly(std::set<int32_t>(own.begin(), own.end()));
  std::vector<std::span<const uint8_t>> sums;
  for (const Payload& sum : landing.sums) sums.push_back(View(sum));
  trainer_->ReadParameters(theta_);
  SKERRY_RETURN_IF_ERROR(replica_->ApplySums(sums, landing.own_accepted, theta_));
  trainer_->WriteParameters(theta_);
  NoteHeld();
  return absl::OkStatus();
}

std::vector<float> TrainedStage::DecodePieces(int64_t round,
                                              const std::vector<Payload>& own_pieces) const {
  std::vector<float> values(static_cast<size_t>(cut_.parameters));
  for (int32_t i = 0; i < pieces(round); ++i) {
    const auto part = std::span(values).subspan(static_cast<size_t>(cut_.First(i)),
                                                static_cast<size_t>(cut_.Size(i)));
    const absl::Status decoded =
        codecs_->OfPiece(round, i)->Decode(View(own_pieces[static_cast<size_t>(i)]), part);
    SKERRY_CHECK(decoded.ok(), "a delta of our own making");
  }
  return values;
}

absl::Status TrainedStage::CheckIndex(const Piece& piece) const {
  if (piece.index >= 0 && piece.index < cut_.count()) return absl::OkStatus();
  return InvalidArgument("there is no piece %d", piece.index);
}

absl::Status TrainedStage::CheckPieces(int64_t round, const std::vector<Piece>& pieces) const {
  for (const Piece& piece : pieces) {
    SKERRY_RETURN_IF_ERROR(CheckIndex(piece));
    const auto codec = codecs_->OfPiece(round, piece.index);
    SKERRY_RETURN_IF_ERROR(codec->Check(View(piece.message), cut_.Size(piece.index)));
  }
  return absl::OkStatus();
}

absl::Status TrainedStage::CheckSums(int64_t round, const std::vector<Piece>& sums) const {
  for (const Piece& sum : sums) {
    SKERRY_RETURN_IF_ERROR(CheckIndex(sum));
    const auto codec = codecs_->DownOfPiece(round, sum.index);
    SKERRY_RETURN_IF_ERROR(codec->Check(View(sum.message), cut_.Size(sum.index)));
  }
  return absl::OkStatus();
}

}  // namespace skerry
