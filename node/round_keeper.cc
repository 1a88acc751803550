#include "node/round_keeper.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "common/check.h"
#include "common/digest.h"

namespace skerry {

bool RoundKeeper::IsWanted(const NodeId& sender, const Delta& delta) {
  return delta.stage == stage_ && delta.round >= next_ && delta.round <= next_ + rounds_ahead_ &&
         delta.tokens >= 0 && !rounds_[delta.round].deltas.contains(sender);
}

std::optional<DeltaHeld> RoundKeeper::Hold(const NodeId& sender, const Delta& delta) {
  if (!IsWanted(sender, delta) || DigestOf(View(delta.payload)) != delta.digest) {
    return std::nullopt;
  }
  rounds_[delta.round].deltas.emplace(sender, delta);
  NoteHeld(SizeOf(delta.payload));
  return DeltaHeld{stage_, delta.round, sender, delta.tokens, delta.digest};
}

std::optional<DeltaHeld> RoundKeeper::Refuse(const NodeId& sender, const Delta& delta) {
  if (!IsWanted(sender, delta)) return std::nullopt;
  // No commit names a message without digest, so this one is never used.
  rounds_[delta.round].deltas.emplace(sender,
                                      Delta{stage_, delta.round, delta.tokens, {}, nullptr});
  return DeltaHeld{stage_, delta.round, sender, delta.tokens, {}};
}

std::vector<DeltaHeld> RoundKeeper::RefuseUnless(const Decodes& decodes) {
  std::vector<DeltaHeld> refused;
  for (auto& [number, round] : rounds_) {
    for (auto& [sender, delta] : round.deltas) {
      if (decodes(delta)) continue;
      delta = {stage_, number, delta.tokens, {}, nullptr};
      refused.push_back({stage_, number, sender, delta.tokens, {}});
    }
  }
  held_bytes_ = HeldBytes();
  return refused;
}

void RoundKeeper::Share(const Delta& delta, const std::vector<NodeId>& with) {
  rounds_[delta.round].shared = Shared{delta, with};
}

void RoundKeeper::ForgetShared() {
  for (auto& [number, round] : rounds_) {
    if (!round.shared || round.commit) continue;
    for (const NodeId& other : round.shared->with) {
      if (other != self_) round.deltas.erase(other);
    }
  }
  held_bytes_ = HeldBytes();
}

std::vector<RoundKeeper::Shared> RoundKeeper::SharedNow() const {
  std::vector<Shared> shared;
  for (const auto& [number, round] : rounds_) {
    if (round.shared) shared.push_back(*round.shared);
  }
  return shared;
}

std::vector<std::pair<NodeId, Delta>> RoundKeeper::OthersNow() const {
  std::vector<std::pair<NodeId, Delta>> others;
  for (const auto& [number, round] : rounds_) {
    for (const auto& [sender, delta] : round.deltas) {
      const bool is_own =
          round.shared && std::find(round.shared->with.begin(), round.shared->with.end(), sender) !=
                              round.shared->with.end();
      if (sender != self_ && !is_own && !delta.digest.IsZero()) others.emplace_back(sender, delta);
    }
  }
  return others;
}

const Delta* RoundKeeper::DeltaOf(const NodeId& sender, int64_t round) const {
  const auto held = rounds_.find(round);
  if (held == rounds_.end()) return nullptr;
  const auto delta = held->second.deltas.find(sender);
  const bool is_here = delta != held->second.deltas.end() && !delta->second.digest.IsZero();
  return is_here ? &delta->second : nullptr;
}

bool RoundKeeper::IsOwn(const Round& round, const NodeId& participant,
                        const Digest& message) const {
  if (participant == self_) return true;
  if (!round.shared || round.shared->delta.digest != message) return false;
  const std::vector<NodeId>& with = round.shared->with;
  return std::find(with.begin(), with.end(), participant) != with.end();
}

int32_t CoveredBy(const RoundCommit& commit, const NodeId& participant) {
  for (size_t i = 0; i < commit.covered.size(); ++i) {
    if (commit.participants[i].node == participant) return commit.covered[i];
  }
  return 1;
}

bool RoundKeeper::Commit(const RoundCommit& commit) {
  if (commit.stage != stage_ || commit.round < next_ || commit.round > next_ + rounds_ahead_ ||
      commit.participants.empty()) {
    return false;
  }
  Round& round = rounds_[commit.round];
  if (round.commit) return *round.commit == commit;
  round.commit = commit;
  return true;
}

const RoundCommit* RoundKeeper::CommitOf(int64_t round) const {
  const auto it = rounds_.find(round);
  return it == rounds_.end() || !it->second.commit ? nullptr : &*it->second.commit;
}

bool RoundKeeper::Ready(int64_t round) const {
  const auto it = rounds_.find(round);
  if (it == rounds_.end() || !it->second.commit) return false;
  if (it->second.commit->shape != 0) return SumsReady(it->second);
  const auto& participants = it->second.commit->participants;
  return std::all_of(participants.begin(), participants.end(), [&](const Participant& p) {
    const auto delta = it->second.deltas.find(p.node);
    return delta != it->second.deltas.end() && delta->second.digest == p.digest &&
           delta->second.tokens == p.tokens;
  });
}

std::vector<StageWork::Accepted> RoundKeeper::Participants(int64_t round) const {
  SKERRY_CHECK(Ready(round));
  const Round& held = rounds_.at(round);
  std::vector<StageWork::Accepted> accepted;
  for (const Participant& p : held.commit->participants) {
    accepted.push_back(
        {p.tokens, held.deltas.at(p.node).payload, IsOwn(held, p.node, p.digest), p.node});
  }
  return accepted;
}

void RoundKeeper::Applied(int64_t round) {
  SKERRY_CHECK(round == next_);
  SkipTo(round + 1);
}

void RoundKeeper::SkipTo(int64_t version) {
  SKERRY_CHECK(version >= next_);
  next_ = version;
  rounds_.erase(rounds_.begin(), rounds_.lower_bound(version));
  held_bytes_ = HeldBytes();
}

std::vector<DeltaHeld> RoundKeeper::HeldNow() const {
  std::vector<DeltaHeld> held;
  for (const auto& [number, round] : rounds_) {
    for (const auto& [sender, delta] : round.deltas) {
      held.push_back({stage_, number, sender, delta.tokens, delta.digest});
    }
  }
  return held;
}

std::vector<Delta> RoundKeeper::Own() const {
  std::vector<Delta> own;
  for (const auto& [number, round] : rounds_) {
    const auto it = round.deltas.find(self_);
    if (it != round.deltas.end()) own.push_back(it->second);
  }
  return own;
}

std::vector<NodeId> RoundKeeper::LackingOf(int64_t round, const std::vector<NodeId>& nodes,
                                           const std::vector<int32_t>& pieces) const {
  const auto it = rounds_.find(round);
  if (it == rounds_.end()) return nodes;
  const auto is_here = [&](const NodeId& node) {
    if (pieces.empty()) return it->second.deltas.contains(node);
    const auto sender = it->second.pieces.find(node);
    return sender != it->second.pieces.end() &&
           std::all_of(pieces.begin(), pieces.end(),
                       [&](int32_t piece) { return sender->second.pieces.contains(piece); });
  };
  std::vector<NodeId> lacking;
  std::copy_if(nodes.begin(), nodes.end(), std::back_inserter(lacking),
               [&](const NodeId& node) { return !is_here(node); });
  return lacking;
}

std::string RoundKeeper::Missing(int64_t round) const {
  const auto it = rounds_.find(round);
  if (it == rounds_.end() || !it->second.commit) {
    return absl::StrFormat("commit of round %d", round);
  }
  if (it->second.commit->shape != 0) return MissingSum(it->second, round);
  for (const Participant& p : it->second.commit->participants) {
    if (!it->second.deltas.contains(p.node)) {
      return absl::StrFormat("delta of %s in round %d", p.node.Short(), round);
    }
  }
  return "";
}

}  // namespace skerry
