// Sharded rounds of a trained stage.

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "common/check.h"
#include "common/status.h"
#include "compression/codec.h"
#include "localsgd/sum_proof.h"
#include "node/trained_stage.h"
#include "pipeline/exec/shown_sum.h"

namespace skerry {
namespace {

std::vector<RoundMessage> Messages(const std::vector<StageWork::Accepted>& participants) {
  std::vector<RoundMessage> messages;
  for (const auto& p : participants) messages.push_back({p.tokens, View(p.payload), p.rounds});
  return messages;
}

}  // namespace

int32_t TrainedStage::pieces(int64_t round) const {
  return sharded_over_ > 0 ? cuts_[static_cast<size_t>(clock_.FragmentOf(round))].count() : 0;
}

int64_t TrainedStage::MessageValues(int64_t round, int32_t piece) const {
  const auto fragment = static_cast<size_t>(clock_.FragmentOf(round));
  return sharded_over_ > 0 ? cuts_[fragment].Size(piece) : ranges_[fragment].size;
}

const CodecBook& TrainedStage::BookOf(int64_t round) const {
  return *books_[static_cast<size_t>(clock_.FragmentOf(round))];
}

std::shared_ptr<const Codec> TrainedStage::CodecOf(int64_t round, int32_t piece) const {
  return sharded_over_ > 0 ? BookOf(round).OfPiece(round, piece) : BookOf(round).Of(round);
}

absl::StatusOr<std::vector<Payload>> TrainedStage::EncodePieces(int64_t round) {
  SKERRY_ASSIGN_OR_RETURN(
      std::vector<Payload> pieces,
      fragments_->EncodePieces(clock_.FragmentOf(round), trainer_->HostParameters()));
  if (fragments_->ShiftsWeights()) trainer_->HostParametersChanged();
  NoteHeld();
  return pieces;
}

std::shared_ptr<const Codec> TrainedStage::DownCodecOf(int64_t round, int32_t piece) const {
  return BookOf(round).DownOfPiece(round, piece);
}

absl::StatusOr<std::vector<Payload>> TrainedStage::ReducePieces(
    const Reduction& reduction, std::vector<PieceState>* states) const {
  SKERRY_CHECK(sharded_over_ > 0 && reduction.messages.size() == reduction.pieces.size());
  const PieceReducer& reducer = reducers_[static_cast<size_t>(clock_.FragmentOf(reduction.round))];
  std::vector<Payload> sums;
  for (size_t i = 0; i < reduction.pieces.size(); ++i) {
    if (states != nullptr) states->emplace_back();
    SKERRY_ASSIGN_OR_RETURN(
        Bytes sum, reducer.Reduce(reduction.pieces[i], Messages(reduction.messages[i]),
                                  reduction.round, states != nullptr ? &states->back() : nullptr));
    sums.push_back(MakePayload(std::move(sum)));
  }
  return sums;
}

absl::StatusOr<std::vector<Payload>> TrainedStage::LeftOverBefore(const SumCheck& check) const {
  SKERRY_CHECK(sharded_over_ > 0);
  const PieceReducer& reducer = reducers_[static_cast<size_t>(clock_.FragmentOf(check.round))];
  std::vector<Payload> left;
  for (const int32_t piece : check.drawn) {
    const auto state = std::find_if(check.states.begin(), check.states.end(),
                                    [&](const PieceState& s) { return s.piece == piece; });
    if (state == check.states.end()) return InvalidArgument("piece %d is not its own", piece);
    const std::vector<float>* from = reducer.ReducedFrom(piece, state->before);
    if (from == nullptr) return FailedPrecondition("piece %d: the round has landed", piece);
    const auto* first = reinterpret_cast<const uint8_t*>(from->data());
    left.push_back(MakePayload(Bytes(first, first + from->size() * sizeof(float))));
  }
  return left;
}

SumVerdict TrainedStage::CheckShown(const SumCheck& check, const std::vector<int32_t>& own,
                                    const Payload& shown) const {
  if (sharded_over_ == 0) return SumVerdict::kNotShown;
  const auto fragment = static_cast<size_t>(clock_.FragmentOf(check.round));
  const auto unpacked = UnpackShown(shown, check.summed.size(), check.drawn.size());
  // By another table it would be another sum.
  if (!unpacked.ok() || !books_[fragment]->Remembers(check.round)) return SumVerdict::kNotShown;
  return CheckShownSum(check, own, *unpacked, SumsOf(*unpacked),
                       PieceReducer(config_.outer, cuts_[fragment], 0, books_[fragment]));
}

absl::Status TrainedStage::LandPart(const Landing& landing) {
  SKERRY_CHECK(sharded_over_ > 0);
  const int32_t fragment = clock_.FragmentOf(landing.round);
  PieceReducer& reducer = reducers_[static_cast<size_t>(fragment)];
  const std::vector<int32_t>& own = landing.own.pieces;
  std::map<NodeId, size_t> screened;  // in how many of the own pieces
  for (size_t i = 0; i < own.size(); ++i) {
    SKERRY_RETURN_IF_ERROR(reducer.Land(own[i], Messages(landing.own.messages[i]),
                                        View(landing.sums[static_cast<size_t>(own[i])]),
                                        landing.round));
    for (size_t j = 0; j < reducer.screened().size(); ++j) {
      if (reducer.screened()[j]) ++screened[landing.own.messages[i][j].sender];
    }
  }
  screened_.clear();
  for (const auto& [sender, pieces] : screened) {
    if (2 * pieces > own.size()) screened_.push_back(sender);
  }
  if (landing.own_accepted && config_.outer.robust != OuterRobust::kNone) {
    reducer.KeepOnly(std::set<int32_t>(own.begin(), own.end()));
  }
  return absl::OkStatus();
}

absl::Status TrainedStage::ApplySums(const Landing& landing) {
  SKERRY_RETURN_IF_ERROR(LandPart(landing));
  const int32_t fragment = clock_.FragmentOf(landing.round);
  std::vector<std::span<const uint8_t>> sums;
  for (const Payload& sum : landing.sums) sums.push_back(View(sum));
  SKERRY_RETURN_IF_ERROR(
      fragments_->ApplySums(fragment, sums, landing.own_accepted, trainer_->HostParameters()));
  digests_[static_cast<size_t>(fragment)].reset();
  trainer_->HostParametersChanged();
  NoteHeld();
  return absl::OkStatus();
}

std::vector<Piece> TrainedStage::HandOn(int64_t round, const std::vector<int32_t>& own) {
  SKERRY_CHECK(sharded_over_ > 0);
  PieceReducer& reducer = reducers_[static_cast<size_t>(clock_.FragmentOf(round))];
  std::vector<Piece> pieces;
  for (PieceReducer::LeftOver& left : reducer.HandOn(std::set<int32_t>(own.begin(), own.end()))) {
    pieces.push_back({left.piece, MakePayload(std::move(left.message))});
  }
  return pieces;
}

absl::Status TrainedStage::CheckLeftOvers(int64_t round, const std::vector<Piece>& pieces) const {
  if (sharded_over_ == 0) return NotSharded();
  const PieceReducer& reducer = reducers_[static_cast<size_t>(clock_.FragmentOf(round))];
  for (const Piece& piece : pieces) {
    SKERRY_RETURN_IF_ERROR(reducer.CheckLeftOver(piece.index, View(piece.message)));
  }
  return absl::OkStatus();
}

absl::Status TrainedStage::TakeOver(int64_t round, const std::vector<Piece>& pieces) {
  if (sharded_over_ == 0) return NotSharded();
  PieceReducer& reducer = reducers_[static_cast<size_t>(clock_.FragmentOf(round))];
  for (const Piece& piece : pieces) {
    SKERRY_RETURN_IF_ERROR(reducer.TakeOver(piece.index, View(piece.message)));
  }
  NoteHeld();
  return absl::OkStatus();
}

std::vector<float> TrainedStage::DecodePieces(int64_t round,
                                              const std::vector<Payload>& own_pieces) const {
  std::vector<float> values(static_cast<size_t>(parameters()));
  const PieceCut& cut = cuts_[static_cast<size_t>(clock_.FragmentOf(round))];
  for (int32_t i = 0; i < pieces(round); ++i) {
    const auto part =
        PartOf(round, values)
            .subspan(static_cast<size_t>(cut.First(i)), static_cast<size_t>(cut.Size(i)));
    const absl::Status decoded =
        CodecOf(round, i)->Decode(View(own_pieces[static_cast<size_t>(i)]), part);
    SKERRY_CHECK(decoded.ok(), "a delta of our own making");
  }
  return values;
}

PieceReducer TrainedStage::ReducerOf(int64_t round) const {
  return reducers_[static_cast<size_t>(clock_.FragmentOf(round))];
}

std::map<int32_t, std::vector<float>> TrainedStage::LeftOver(int64_t round) const {
  std::map<int32_t, std::vector<float>> left;
  const PieceReducer& reducer = reducers_[static_cast<size_t>(clock_.FragmentOf(round))];
  for (int32_t i = 0; i < pieces(round); ++i) {
    const auto s = reducer.LeftOverOf(i);
    if (!s.empty()) left[i].assign(s.begin(), s.end());
  }
  return left;
}

std::vector<float> TrainedStage::DecodeLeftOver(int64_t round, const Piece& piece) const {
  const PieceReducer& reducer = reducers_[static_cast<size_t>(clock_.FragmentOf(round))];
  const auto values = reducer.DecodeLeftOver(piece.index, View(piece.message));
  SKERRY_CHECK(values.ok(), "it was checked");
  return *values;
}

absl::Status TrainedStage::CheckIndex(int64_t round, const Piece& piece) const {
  if (piece.index >= 0 && piece.index < pieces(round)) return absl::OkStatus();
  return InvalidArgument("there is no piece %d", piece.index);
}

absl::Status TrainedStage::CheckPieces(int64_t round, const std::vector<Piece>& pieces) const {
  for (const Piece& piece : pieces) {
    SKERRY_RETURN_IF_ERROR(CheckIndex(round, piece));
    const int64_t values = MessageValues(round, piece.index);
    SKERRY_RETURN_IF_ERROR(CodecOf(round, piece.index)->Check(View(piece.message), values));
  }
  return absl::OkStatus();
}

absl::Status TrainedStage::CheckSums(int64_t round, const std::vector<Piece>& sums) const {
  for (const Piece& sum : sums) {
    SKERRY_RETURN_IF_ERROR(CheckIndex(round, sum));
    const auto codec = BookOf(round).DownOfPiece(round, sum.index);
    SKERRY_RETURN_IF_ERROR(codec->Check(View(sum.message), MessageValues(round, sum.index)));
  }
  return absl::OkStatus();
}

}  // namespace skerry
