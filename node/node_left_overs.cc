// What a reducer has left over of pieces that it does not sum any more: to who sums them now, after
// a round; to its successors, when it leaves (docs/PROTOCOL.md, "A sharded round", h).

#include <algorithm>
#include <utility>

#include "common/digest.h"
#include "node/node_actor.h"
#include "pipeline/plan/route.h"

namespace skerry {
namespace {

bool Contains(const std::vector<NodeId>& nodes, const NodeId& node) {
  return std::find(nodes.begin(), nodes.end(), node) != nodes.end();
}

}  // namespace

// A robust mode takes nobody's word unweighed.
bool NodeActor::HandsOn() const {
  return work_ && IsShardedStage() && config_->outer.robust == OuterRobust::kNone;
}

bool NodeActor::IsLeftOver(const Delta& message) const {
  return work_ && IsShardedStage() && message.stage == stage_ && message.round >= 0 &&
         FirstIndexOf(message.payload) >= work_->pieces(message.round);
}

// ---- after a round -----------------------------------------------------------------------------

// The pieces that this node goes on with. nullopt: all. Who is absent from the next round has its
// part back later, and keeps what it has left over of it.
std::optional<std::vector<int32_t>> NodeActor::KeptAfter(int64_t round) {
  if (state_ != State::kTraining || !HandsOn() || farewell_) return std::nullopt;
  const int64_t next = round + Clock().fragments();
  if (next >= Clock().rounds()) return std::nullopt;
  if (!Contains(ShapeOfRound(next).participants, options_.self)) return std::nullopt;
  const std::vector<NodeId>& reducers = ReducersOfRound(next);
  std::vector<int32_t> kept;
  for (size_t i = 0; i < reducers.size(); ++i) {
    const bool is_kept = reducers[i] == options_.self || retiring_.contains(reducers[i]);
    if (is_kept) kept.push_back(static_cast<int32_t>(i));
  }
  return kept;
}

// To who sums them by that plan. Returns the digests of what was sent.
std::vector<Digest> NodeActor::SendLeftOver(Context& context, int32_t stage, const LeftOver& left,
                                            const PipelinePlan& plan) {
  std::vector<Digest> sent;
  const RoundShape shape = ShapeOf(plan, stage, left.round);
  if (left.pieces.empty() || shape.participants.empty()) return sent;
  const std::vector<NodeId> reducers =
      ReducersOf(plan.stages[static_cast<size_t>(stage)], shape, left.count);
  std::map<NodeId, std::vector<Piece>> parts;
  for (const Piece& piece : left.pieces) {
    parts[reducers[static_cast<size_t>(piece.index)]].push_back(piece);
  }
  for (auto& [to, part] : parts) {
    if (to == options_.self) {  // it has its part back
      KeepLeftOver(context, left.round, std::move(part));
      continue;
    }
    LeftOverSent said{stage, left.round, to, {}};
    for (const Piece& piece : part) said.pieces.push_back(piece.index);
    if (ChecksSums()) Send(context, options_.coordinator, std::move(said));
    for (Piece& piece : part) piece.index += left.count;
    const Payload packed = PackPieces(part);
    sent.push_back(DigestOf(View(packed)));
    Send(context, to, Delta{stage, left.round, 0, sent.back(), packed, plan_->version});
  }
  return sent;
}

void NodeActor::KeepLeftOver(Context& context, int64_t round, std::vector<Piece> pieces) {
  if (!work_) return;
  context.Submit({"take over", work_->Cost(WorkKind::kReduce),
                  [work = work_.get(), round, pieces = std::move(pieces)] {
                    work->TakeOver(round, pieces).IgnoreError();  // they were checked
                  }});
}

void NodeActor::NoteReducers(const PipelinePlan& before) {
  retiring_.clear();
  if (stage_ < 0 || before.version == 0) return;
  const std::vector<NodeId> replicas = LiveReplicas(before, stage_);
  former_replicas_.insert(replicas.begin(), replicas.end());
}

// It goes down with the next sum of its pieces, or on to who sums them by then. Nobody waits for
// it.
void NodeActor::OnLeftOver(Context& context, const NodeId& from, const Delta& message) {
  const bool may_hand_on =
      former_replicas_.contains(from) || Contains(LiveReplicas(plan_, stage_), from);
  const bool is_gone = farewell_ && farewell_->is_handed_on;
  if (!HandsOn() || is_gone || !may_hand_on || !peers_.contains(from) || message.tokens != 0 ||
      DigestOf(View(message.payload)) != message.digest) {
    return void(++refused_);
  }
  auto pieces = UnpackPieces(message.payload);
  if (!pieces.ok()) return void(++refused_);
  for (Piece& piece : *pieces) piece.index -= work_->pieces(message.round);
  if (!work_->CheckLeftOvers(message.round, *pieces).ok()) return void(++refused_);
  Send(context, from, DeltaHeld{stage_, message.round, from, 0, message.digest});
  const auto key = std::tuple(from, message.round, message.digest);
  if (std::find(taken_over_.begin(), taken_over_.end(), key) != taken_over_.end()) return;
  taken_over_.push_back(key);
  if (taken_over_.size() > kTakenOverMax) taken_over_.pop_front();
  const std::vector<NodeId>& reducers = ReducersOfRound(message.round);
  const bool still_sums = std::any_of(pieces->begin(), pieces->end(), [&](const Piece& piece) {
    return !reducers.empty() && reducers[static_cast<size_t>(piece.index)] == from;
  });
  if (still_sums) retiring_.insert(from);
  KeepLeftOver(context, message.round, *std::move(pieces));
}

// ---- for good ----------------------------------------------------------------------------------

// Everything, in layers: what a codec leaves out follows. `landings`: frozen and not landed. The
// stage may be dropped at once: jobs run in order.
void NodeActor::MakeLeftOvers(Context& context, SharedPlan plan,
                              std::vector<StageWork::Landing> landings) {
  left_overs_ = std::make_shared<LeftOvers>();
  left_overs_->stage = stage_;
  left_overs_->plan = std::move(plan);
  std::vector<LeftOver> wanted;
  for (int64_t f = 0; f < Clock().fragments(); ++f) {
    const int64_t round = rounds_->next() + f;
    wanted.push_back({round, work_->pieces(round), {}});
  }
  left_overs_job_ = SubmitTracked(
      context, {"hand on", work_->Cost(WorkKind::kReduce),
                [work = work_.get(), wanted, left = left_overs_, landings = std::move(landings)] {
                  for (const StageWork::Landing& landing : landings) {
                    if (!work->LandPart(landing).ok()) return;
                  }
                  for (int layer = 0; layer < kFarewellLayers; ++layer) {
                    for (LeftOver of : wanted) {
                      of.pieces = work->HandOn(of.round, {});
                      if (!of.pieces.empty()) left->made.push_back(std::move(of));
                    }
                  }
                }});
}

void NodeActor::LeftOversMade(Context& context) {
  left_overs_job_ = 0;
  const auto left = std::exchange(left_overs_, nullptr);
  std::set<Digest> sent;
  for (const LeftOver& made : left->made) {
    const auto digests = SendLeftOver(context, left->stage, made, left->plan);
    sent.insert(digests.begin(), digests.end());
  }
  if (!farewell_) return;
  farewell_->is_handed_on = true;
  farewell_->unheld = std::move(sent);
  if (farewell_->unheld.empty()) EndFarewell(context);
}

// Its old stage goes on without it from the plan on that moves it. Nothing of it that is frozen has
// not landed (28); if something had, its sums would hold what is left over already.
void NodeActor::PartFromStage(Context& context) {
  if (!HandsOn() || !rounds_ || left_overs_job_ != 0 || rounds_->HasCommit(rounds_->next())) return;
  MakeLeftOvers(context, plan_, {});
}

// False: there is nothing to hand on, or nobody to take it.
bool NodeActor::BeginFarewell(Context& context, const std::string& reason) {
  if (farewell_) return true;
  if (state_ != State::kTraining || !HandsOn()) return false;
  if (ShapeOfRound(rounds_->next()).participants.size() < 2) return false;
  farewell_.emplace();
  farewell_->reason = reason;
  farewell_->deadline = context.StartTimer(kFarewellMax);
  TendFarewell(context);
  return true;
}

// A round for which it has vouched may be frozen with its own sums, and these hold what was left
// over: it waits for that commit. For others it does not vouch any more, so none is frozen with it.
void NodeActor::TendFarewell(Context& context) {
  if (!farewell_ || farewell_->is_handed_on || left_overs_job_ != 0 || heavy_ != Heavy::kNone) {
    return;
  }
  std::vector<StageWork::Landing> landings;
  for (int64_t round = rounds_->next(); rounds_->IsAhead(round); ++round) {
    if (rounds_->Ready(round)) {
      auto landing = rounds_->LandingOf(round, work_->pieces(round));
      if (!landing.ok()) return;
      for (auto& messages : landing->own.messages) CountRounds(round, &messages);
      landings.push_back(*std::move(landing));
      continue;
    }
    const auto said = reported_sums_.find(round);
    const bool may_be_frozen =
        said != reported_sums_.end() && said->second == ShapeOfRound(round).id;
    if (may_be_frozen || rounds_->HasCommit(round)) return;
  }
  PipelinePlan plan = plan_;
  plan.dead.insert(std::upper_bound(plan.dead.begin(), plan.dead.end(), options_.self),
                   options_.self);
  MakeLeftOvers(context, std::move(plan), std::move(landings));
}

void NodeActor::On(Context& context, const NodeId& from, const DeltaHeld& message) {
  static_cast<void>(from);  // what it holds is known by its digest
  if (!farewell_ || !farewell_->is_handed_on) return;
  farewell_->unheld.erase(message.digest);
  if (farewell_->unheld.empty()) EndFarewell(context);
}

void NodeActor::EndFarewell(Context& context) {
  const std::string reason = farewell_->reason;
  farewell_.reset();
  state_ = State::kStopped;
  Send(context, options_.coordinator, skerry::Leave{reason});
  context.Stop(0, reason);
}

}  // namespace skerry
