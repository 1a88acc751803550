// A node's share of sharded rounds: sends pieces to who sums them, sums its own part, passes the
// sum on, and says when it holds everybody's (docs/PROTOCOL.md, "A sharded round").

#include <algorithm>
#include <set>
#include <utility>

#include "common/digest.h"
#include "common/status.h"
#include "node/node_actor.h"
#include "node/node_results.h"
#include "pipeline/plan/cohorts.h"
#include "pipeline/plan/route.h"

namespace skerry {

bool NodeActor::IsShardedStage() const {
  return stage_ >= 0 &&
         skerry::IsShardedStage(*config_, plan_->stages[static_cast<size_t>(stage_)]);
}

// Asked for every message: the same until the plan changes.
const RoundShape& NodeActor::ShapeOfRound(int64_t round) {
  if (shapes_.plan_version != plan_->version || shapes_.stage != stage_) {
    shapes_ = {plan_->version, stage_, {}, {}};
  }
  const auto it = shapes_.of.find(round);
  if (it != shapes_.of.end()) return it->second;
  if (shapes_.of.size() > kShapesMax) shapes_.of.clear();
  return shapes_.of[round] = ShapeOf(plan_, stage_, round);
}

const std::vector<NodeId>& NodeActor::ReducersOfRound(int64_t round) {
  const RoundShape& shape = ShapeOfRound(round);
  const int32_t pieces = work_->pieces(round);
  auto& reducers = shapes_.reducers[{shape.id, pieces}];
  if (reducers.empty() && !shape.participants.empty()) {
    reducers = ReducersOf(plan_->stages[static_cast<size_t>(stage_)], shape, pieces);
  }
  return reducers;
}

namespace {

using Parts = std::map<NodeId, std::vector<Piece>>;

// By who sums them. Without `moved`, all; else those that another summed before.
Parts PartsOf(const std::vector<Payload>& pieces, const std::vector<NodeId>& reducers,
              const std::vector<NodeId>* before) {
  Parts parts;
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (before != nullptr && (*before)[i] == reducers[i]) continue;
    parts[reducers[i]].push_back({static_cast<int32_t>(i), pieces[i]});
  }
  return parts;
}

bool Contains(const std::vector<NodeId>& nodes, const NodeId& node) {
  return std::find(nodes.begin(), nodes.end(), node) != nodes.end();
}

}  // namespace

// The pieces that this node sums, ascending.
std::vector<int32_t> NodeActor::OwnPart(int64_t round) {
  const std::vector<NodeId>& reducers = ReducersOfRound(round);
  std::vector<int32_t> mine;
  for (size_t i = 0; i < reducers.size(); ++i) {
    if (reducers[i] == options_.self) mine.push_back(static_cast<int32_t>(i));
  }
  return mine;
}

// Who takes no part makes its message all the same: its speaker may die.
void NodeActor::EncodePieces(Context& context) {
  const int64_t round = encoded_;
  const bool sends = Contains(ShapeOfRound(round).participants, options_.self);
  heavy_job_ = SubmitTracked(
      context, {"encode delta", EncodingCost(),
                [work = work_.get(), results = results_, self = options_.self, round,
                 measures = MeasuresNow(), states = ChecksSums() || HasCohorts(),
                 reducers = sends ? ReducersOfRound(round) : std::vector<NodeId>(),
                 shape = ShapeOfRound(round).id] {
                  if (measures) results->Measure(*work);
                  auto pieces = work->EncodePieces(round);
                  results->status = pieces.status();
                  if (!pieces.ok()) return;
                  results->pieces = *std::move(pieces);
                  results->shape = shape;
                  for (const Payload& piece : results->pieces) {
                    if (states) results->digests.push_back(DigestOf(View(piece)));
                  }
                  if (!reducers.empty()) {
                    for (const auto& [to, part] : PartsOf(results->pieces, reducers, nullptr)) {
                      if (to == self) continue;
                      const Payload packed = PackPieces(part);
                      results->parts.push_back({to, packed, DigestOf(View(packed))});
                    }
                  }
                }});
}

void NodeActor::PiecesEncoded(Context& context, int64_t round) {
  rounds_->HoldOwn(round, tokens_of_round_, results_->pieces);
  if (ChecksSums()) sum_checks_.sent[round] = results_->digests;
  if (HasCohorts()) {
    const Delta made{stage_, round, tokens_of_round_, PartDigest(results_->digests), {}};
    rounds_->Share(made, CohortOf(plan_, options_.self));
    SayMade(context, made);
    AskForUnheard(context, false);
  }
  if (results_->shape != ShapeOfRound(round).id) {  // somebody died meanwhile
    return SendPieces(context, round, tokens_of_round_, results_->pieces, nullptr);
  }
  for (const auto& [to, packed, digest] : results_->parts) {
    Send(context, to, Delta{stage_, round, tokens_of_round_, digest, packed, plan_->version});
  }
}

void NodeActor::SendPieces(Context& context, int64_t round, int64_t tokens,
                           const std::vector<Payload>& pieces, const std::vector<NodeId>* before) {
  const std::vector<NodeId>& reducers = ReducersOfRound(round);
  if (!Contains(ShapeOfRound(round).participants, options_.self)) return;
  for (const auto& [to, part] : PartsOf(pieces, reducers, before)) {
    if (to == options_.self) continue;
    const Payload packed = PackPieces(part);
    Send(context, to, Delta{stage_, round, tokens, DigestOf(View(packed)), packed, plan_->version});
  }
}

// Whose sums a plan gives to others hear of it from those who hold what is to be summed.
void NodeActor::SendMovedPieces(Context& context, const PipelinePlan& before) {
  if (!rounds_ || !work_ || !IsShardedStage()) return;
  passing_on_.GiveAgain();
  for (const RoundKeeper::OwnPieces& own : rounds_->OwnOfRounds()) {
    const RoundShape was = ShapeOf(before, stage_, own.round);
    if (was.id == ShapeOfRound(own.round).id) continue;
    if (!Contains(was.participants, options_.self)) {  // it has sent none yet
      SendPieces(context, own.round, own.tokens, own.pieces, nullptr);
      continue;
    }
    const std::vector<NodeId> reducers =
        ReducersOf(before.stages[static_cast<size_t>(stage_)], was, work_->pieces(own.round));
    SendPieces(context, own.round, own.tokens, own.pieces, &reducers);
  }
  ReportSums(context);
}

// In order, those whose fragment's round before has landed: what its reducer had left over is
// known.
bool NodeActor::ReduceIfReady(Context& context) {
  if (!IsShardedStage()) return false;
  const RoundClock clock = Clock();
  for (int64_t round = rounds_->next(); round < encoded_; ++round) {
    if (!clock.MayReduce(round, rounds_->next())) return false;
    if (ReduceIfReady(context, round)) return true;
  }
  return false;
}

bool NodeActor::ReduceIfReady(Context& context, int64_t round) {
  if (rounds_->HasCommit(round)) return false;
  const RoundShape& shape = ShapeOfRound(round);
  if (!Contains(shape.participants, options_.self) || rounds_->OwnSum(round, shape.id)) {
    return false;
  }
  auto reduction = rounds_->ReductionOf(round, shape.participants, OwnPart(round));
  if (!reduction) return false;
  for (auto& messages : reduction->messages) CountRounds(round, &messages);
  heavy_ = Heavy::kReduce;
  results_ = std::make_shared<Results>();
  results_->version = round;
  results_->shape = shape.id;
  heavy_job_ =
      SubmitTracked(context, {"reduce pieces", work_->Cost(WorkKind::kReduce),
                              [work = work_.get(), results = results_, states = ChecksSums(),
                               reduction = *std::move(reduction)] {
                                if (states) results->summed = SummedOf(reduction);
                                const auto sums = work->ReducePieces(
                                    reduction, states ? &results->states : nullptr);
                                results->status = sums.status();
                                if (!sums.ok()) return;
                                for (size_t i = 0; i < sums->size(); ++i) {
                                  results->sums.push_back({reduction.pieces[i], (*sums)[i]});
                                }
                                results->delta = PackPieces(results->sums);
                                results->digest = DigestOf(View(results->delta));
                              }});
  return true;
}

void NodeActor::Reduced(Context& context) {
  const int64_t round = results_->version;
  const RoundShape& shape = ShapeOfRound(round);
  if (shape.id != results_->shape) return;  // somebody died meanwhile: it is summed again
  int64_t tokens = 0;
  for (const RoundKeeper::OwnPieces& own : rounds_->OwnOfRounds()) {
    if (own.round == round) tokens = own.tokens;
  }
  const DeltaSum sum{stage_,           round,           shape.id,      tokens,
                     results_->digest, results_->delta, plan_->version};
  rounds_->HoldSum(options_.self, sum, shape, results_->sums);
  sum_checks_.reduced[{round, shape.id}] = {results_->summed, results_->states};
  // Members of other cohorts get it from their speakers.
  std::vector<NodeId> to = HearersOf(plan_, stage_);
  const std::vector<NodeId> members = CohortOf(plan_, options_.self);
  to.insert(to.end(), members.begin(), members.end());
  for (const NodeId& holder : to) {
    if (holder != options_.self) Send(context, holder, sum);
  }
  ReportSums(context);
}

// Of every round under way, once for each shape that it has.
void NodeActor::ReportSums(Context& context) {
  if (farewell_) return;
  for (int64_t round = rounds_->next(); rounds_->IsAhead(round); ++round) {
    const uint64_t shape = ShapeOfRound(round).id;
    auto held = rounds_->AllSums(round, shape);
    if (!held || reported_sums_[round] == shape) continue;
    reported_sums_[round] = shape;
    AddStatement(&*held);
    if (options_.sign && held->statement != SumStatement())
      held->signature = options_.sign(StatedBytes(options_.self, *held));
    Send(context, options_.coordinator, *held);
  }
  reported_sums_.erase(reported_sums_.begin(), reported_sums_.lower_bound(rounds_->next()));
  sum_checks_.ForgetBelow(rounds_->next());
}

void NodeActor::OnPieces(Context& context, const NodeId& from, const Delta& message) {
  if (message.stage != stage_ || !rounds_->IsAhead(message.round) ||
      DigestOf(View(message.payload)) != message.digest) {
    return void(++refused_);
  }
  auto pieces = UnpackPieces(message.payload);
  const bool decodes =
      pieces.ok() && (!work_ || (message.tokens <= RoundTokensMax(*config_, plan_) &&
                                 work_->CheckPieces(message.round, *pieces).ok()));
  if (!decodes) {
    if (rounds_->RefusePieces(from, message.round)) {
      Send(context, options_.coordinator, DeltaHeld{stage_, message.round, from, 0, {}});
    }
    return void(++refused_);
  }
  rounds_->HoldPieces(from, message.round, message.tokens, *std::move(pieces));
  Advance(context);
}

void NodeActor::On(Context& context, const NodeId& from, const DeltaSum& message) {
  if (MustWait(message.plan_version, rounds_ != nullptr)) return Keep(from, message);
  if (!rounds_ || message.stage != stage_ || !IsShardedStage() ||
      !rounds_->IsAhead(message.round)) {
    return void(++refused_);
  }
  const RoundShape& shape = ShapeOfRound(message.round);
  const NodeId& reducer = message.sender.IsZero() ? from : message.sender;
  if (message.shape != shape.id || reducer == options_.self ||
      !Contains(shape.participants, reducer)) {
    return void(++refused_);
  }
  const bool may_pass_on = reducer == from || Contains(CohortOf(plan_, options_.self), from) ||
                           passing_on_.HasAsked(from, reducer, message.round);
  if (!may_pass_on) return void(++refused_);
  if (!IsTableKnown(message.round)) return Keep(from, message);
  auto pieces = UnpackPieces(message.payload);
  DeltaSum sum = message;
  if (!pieces.ok() || DigestOf(View(message.payload)) != message.digest ||
      message.tokens > RoundTokensMax(*config_, plan_) ||
      !IsSumOf(reducer, message.round, *pieces)) {
    sum.digest = {};  // no commit names it
    sum.tokens = 0;
    pieces = std::vector<Piece>();
  }
  if (!rounds_->HoldSum(reducer, sum, shape, *std::move(pieces))) return void(++refused_);
  PassOnSum(context, reducer, message);
  GiveToAskers(context, message.round, reducer);
  ReportSums(context);
  NoteReadiness(context);
  Advance(context);
}

// A joiner looks when it has its stage, and leaves it to the others until then.
bool NodeActor::IsSumOf(const NodeId& reducer, int64_t round, const std::vector<Piece>& sums) {
  if (!work_) return true;
  if (!work_->CheckSums(round, sums).ok()) return false;
  const std::vector<NodeId>& reducers = ReducersOfRound(round);
  size_t found = 0;
  for (const Piece& sum : sums) {
    if (reducers[static_cast<size_t>(sum.index)] != reducer) return false;
    ++found;
  }
  const auto parts = std::count(reducers.begin(), reducers.end(), reducer);
  return static_cast<int64_t>(found) == parts;
}

}  // namespace skerry
