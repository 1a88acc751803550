// What a replica holds of sharded rounds.

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/check.h"
#include "common/status.h"
#include "node/round_keeper.h"

namespace skerry {

void RoundKeeper::NoteHeld(int64_t more_bytes) {
  held_bytes_ += more_bytes;
  held_bytes_peak_ = std::max(held_bytes_peak_, held_bytes_);
}

int64_t RoundKeeper::HeldBytes() const {
  int64_t bytes = 0;
  for (const auto& [number, round] : rounds_) {
    for (const auto& [node, delta] : round.deltas) bytes += SizeOf(delta.payload);
    for (const auto& [node, held] : round.pieces) {
      for (const auto& [index, piece] : held.pieces) bytes += SizeOf(piece);
    }
    for (const auto& [shape, sums] : round.by_shape) {
      for (const auto& [node, sum] : sums.by_reducer) bytes += 2 * SizeOf(sum.message.payload);
    }
  }
  return bytes;
}

void RoundKeeper::HoldOwn(int64_t round, int64_t tokens, std::vector<Payload> pieces) {
  std::vector<Piece> own;
  for (size_t i = 0; i < pieces.size(); ++i) {
    own.push_back({static_cast<int32_t>(i), std::move(pieces[i])});
  }
  HoldPieces(self_, round, tokens, std::move(own));
}

bool RoundKeeper::HoldPieces(const NodeId& sender, int64_t round, int64_t tokens,
                             std::vector<Piece> pieces) {
  if (!IsAhead(round) || tokens < 0) return false;
  Pieces& held = rounds_[round].pieces[sender];
  if (held.pieces.empty()) held.tokens = tokens;
  for (Piece& piece : pieces) {
    const int64_t bytes = SizeOf(piece.message);
    if (held.pieces.try_emplace(piece.index, std::move(piece.message)).second) NoteHeld(bytes);
  }
  return true;
}

bool RoundKeeper::RefusePieces(const NodeId& sender, int64_t round) {
  if (!IsAhead(round)) return false;
  return !std::exchange(rounds_[round].pieces[sender].is_refused, true);
}

std::optional<StageWork::Reduction> RoundKeeper::ReductionOf(
    int64_t round, const std::vector<NodeId>& participants,
    const std::vector<int32_t>& pieces) const {
  const auto it = rounds_.find(round);
  // Asked for every message that comes: most times somebody's are still missing.
  if (it == rounds_.end() || (!pieces.empty() && it->second.pieces.size() < participants.size())) {
    return std::nullopt;
  }
  StageWork::Reduction reduction;
  reduction.round = round;
  reduction.pieces = pieces;
  reduction.messages.resize(pieces.size());
  for (const NodeId& node : participants) {
    const auto sender = it->second.pieces.find(node);
    for (size_t i = 0; i < pieces.size(); ++i) {
      if (sender == it->second.pieces.end()) return std::nullopt;
      const auto piece = sender->second.pieces.find(pieces[i]);
      if (piece == sender->second.pieces.end()) return std::nullopt;
      reduction.messages[i].push_back({sender->second.tokens, piece->second, node == self_, node});
    }
  }
  return reduction;
}

bool RoundKeeper::HoldSum(const NodeId& reducer, const DeltaSum& sum, const RoundShape& shape,
                          std::vector<Piece> pieces) {
  if (!IsAhead(sum.round) || sum.tokens < 0) return false;
  Sums& sums = rounds_[sum.round].by_shape[shape.id];
  sums.shape = shape;
  if (!sums.by_reducer.emplace(reducer, Sum{sum, std::move(pieces)}).second) return false;
  NoteHeld(2 * SizeOf(sum.payload));
  return true;
}

std::set<int64_t> RoundKeeper::RefuseSumsUnless(const AreSums& are_sums) {
  std::set<int64_t> refused;
  for (auto& [number, round] : rounds_) {
    for (auto& [shape, sums] : round.by_shape) {
      for (auto& [reducer, sum] : sums.by_reducer) {
        if (are_sums(number, sums.shape, sum.pieces)) continue;
        sum = {{stage_, number, shape, 0, {}, nullptr, sum.message.plan_version}, {}};
        refused.insert(number);
      }
    }
  }
  held_bytes_ = HeldBytes();
  return refused;
}

const DeltaSum* RoundKeeper::OwnSum(int64_t round, uint64_t shape) const {
  return SumOf(self_, round, shape);
}

const DeltaSum* RoundKeeper::SumOf(const NodeId& reducer, int64_t round, uint64_t shape) const {
  const auto it = rounds_.find(round);
  if (it == rounds_.end()) return nullptr;
  const auto sums = it->second.by_shape.find(shape);
  if (sums == it->second.by_shape.end()) return nullptr;
  const auto sum = sums->second.by_reducer.find(reducer);
  return sum == sums->second.by_reducer.end() ? nullptr : &sum->second.message;
}

std::map<NodeId, DeltaSum> RoundKeeper::SumsNow(int64_t round, uint64_t shape) const {
  std::map<NodeId, DeltaSum> sums;
  const auto it = rounds_.find(round);
  if (it == rounds_.end()) return sums;
  const auto held = it->second.by_shape.find(shape);
  if (held == it->second.by_shape.end()) return sums;
  for (const auto& [reducer, sum] : held->second.by_reducer) sums.emplace(reducer, sum.message);
  return sums;
}

std::optional<SumsHeld> RoundKeeper::AllSums(int64_t round, uint64_t shape) const {
  const auto it = rounds_.find(round);
  if (it == rounds_.end()) return std::nullopt;
  const auto sums = it->second.by_shape.find(shape);
  if (sums == it->second.by_shape.end()) return std::nullopt;
  const auto& held = sums->second;
  if (held.by_reducer.size() != held.shape.participants.size()) return std::nullopt;
  SumsHeld report{stage_, round, shape, {}};
  for (const auto& [reducer, sum] : held.by_reducer) {
    report.sums.push_back({reducer, sum.message.tokens, sum.message.digest});
  }
  return report;
}

bool RoundKeeper::SumsReady(const Round& round) const {
  const auto sums = round.by_shape.find(round.commit->shape);
  if (sums == round.by_shape.end()) return false;
  const auto& participants = round.commit->participants;
  return std::all_of(participants.begin(), participants.end(), [&](const Participant& p) {
    const auto sum = sums->second.by_reducer.find(p.node);
    return sum != sums->second.by_reducer.end() && sum->second.message.digest == p.digest;
  });
}

absl::StatusOr<StageWork::Landing> RoundKeeper::LandingOf(int64_t round, int32_t pieces) const {
  SKERRY_CHECK(Ready(round));
  const Round& held = rounds_.at(round);
  const Sums& sums = held.by_shape.at(held.commit->shape);
  StageWork::Landing landing;
  landing.round = round;
  landing.sums.resize(static_cast<size_t>(pieces));
  std::vector<int32_t> own;
  const std::vector<Digest>& messages = held.commit->messages;
  for (size_t i = 0; i < held.commit->participants.size(); ++i) {
    const Participant& p = held.commit->participants[i];
    if (IsOwn(held, p.node, messages.empty() ? Digest() : messages[i])) landing.own_accepted = true;
    for (const Piece& piece : sums.by_reducer.at(p.node).pieces) {
      if (piece.index >= pieces || landing.sums[static_cast<size_t>(piece.index)]) {
        return InvalidArgument("round %d: piece %d is nobody's, or another's too", round,
                               piece.index);
      }
      landing.sums[static_cast<size_t>(piece.index)] = piece.message;
      if (p.node == self_) own.push_back(piece.index);
    }
  }
  if (!std::all_of(landing.sums.begin(), landing.sums.end(),
                   [](const Payload& sum) { return static_cast<bool>(sum); })) {
    return InvalidArgument("round %d: of some piece there is no sum", round);
  }
  if (auto reduction = ReductionOf(round, sums.shape.participants, own)) {
    landing.own = *std::move(reduction);
  }
  SKERRY_CHECK(landing.own.pieces.size() == own.size(), "what was summed is still held");
  return landing;
}

std::vector<RoundKeeper::OwnPieces> RoundKeeper::OwnOfRounds() const {
  std::vector<OwnPieces> all;
  for (const auto& [number, round] : rounds_) {
    const auto own = round.pieces.find(self_);
    if (own == round.pieces.end()) continue;
    OwnPieces of{number, own->second.tokens, {}};
    for (const auto& [index, piece] : own->second.pieces) of.pieces.push_back(piece);
    all.push_back(std::move(of));
  }
  return all;
}

std::vector<DeltaHeld> RoundKeeper::RefusedNow() const {
  std::vector<DeltaHeld> refused;
  for (const auto& [number, round] : rounds_) {
    for (const auto& [sender, held] : round.pieces) {
      if (held.is_refused) refused.push_back({stage_, number, sender, held.tokens, {}});
    }
  }
  return refused;
}

bool RoundKeeper::HasCommit(int64_t round) const {
  const auto it = rounds_.find(round);
  return it != rounds_.end() && it->second.commit.has_value();
}

std::vector<NodeId> RoundKeeper::LackingSums(int64_t round, const RoundShape& shape) const {
  const auto it = rounds_.find(round);
  if (it == rounds_.end()) return shape.participants;
  const auto sums = it->second.by_shape.find(shape.id);
  if (sums == it->second.by_shape.end()) return shape.participants;
  std::vector<NodeId> lacking;
  for (const NodeId& node : shape.participants) {
    if (!sums->second.by_reducer.contains(node)) lacking.push_back(node);
  }
  return lacking;
}

std::string RoundKeeper::MissingSum(const Round& held, int64_t round) const {
  const auto sums = held.by_shape.find(held.commit->shape);
  for (const Participant& p : held.commit->participants) {
    if (sums == held.by_shape.end() || !sums->second.by_reducer.contains(p.node)) {
      return absl::StrFormat("sum of %s in round %d", p.node.Short(), round);
    }
  }
  return "";
}

}  // namespace skerry
