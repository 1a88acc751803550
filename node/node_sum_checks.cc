// A node's share of checks of sums: says what it sent and summed, shows how it came to its own
// sums, follows what others show (docs/PROTOCOL.md, "A sum is checked").

#include <algorithm>
#include <utility>

#include "common/digest.h"
#include "localsgd/sum_proof.h"
#include "node/node_actor.h"
#include "pipeline/exec/shown_sum.h"

namespace skerry {
namespace {

// Without the sums.
Payload Shown(const SumCheck& check, const StageWork::Reduction& reduction,
              const std::vector<Payload>& left_over) {
  ShownSum shown;
  for (size_t p = 0; p < check.summed.size(); ++p) {
    Bytes digests;
    for (const auto& messages : reduction.messages) {
      const Digest digest = DigestOf(View(messages[p].payload));
      digests.insert(digests.end(), digest.bytes.begin(), digest.bytes.end());
    }
    shown.parts.push_back(MakePayload(std::move(digests)));
  }
  for (size_t i = 0; i < check.drawn.size(); ++i) {
    ShownSum::Piece piece{left_over[i], {}};
    const auto at = std::find(reduction.pieces.begin(), reduction.pieces.end(), check.drawn[i]);
    if (at == reduction.pieces.end()) return nullptr;
    for (const auto& message :
         reduction.messages[static_cast<size_t>(at - reduction.pieces.begin())]) {
      piece.messages.push_back(message.payload);
    }
    shown.drawn.push_back(std::move(piece));
  }
  return PackShown(shown);
}

}  // namespace

std::vector<Participant> SummedOf(const StageWork::Reduction& reduction) {
  if (reduction.messages.empty()) return {};
  std::vector<Participant> summed;
  const size_t participants = reduction.messages.front().size();
  for (size_t p = 0; p < participants; ++p) {
    std::vector<Digest> pieces;
    for (const auto& messages : reduction.messages) {
      pieces.push_back(DigestOf(View(messages[p].payload)));
    }
    const StageWork::Accepted& of = reduction.messages.front()[p];
    summed.push_back({of.sender, of.tokens, PartDigest(pieces)});
  }
  std::sort(summed.begin(), summed.end(),
            [](const Participant& a, const Participant& b) { return a.node < b.node; });
  return summed;
}

// What this node sent, by the plan's reducers, and what it summed.
void NodeActor::AddStatement(SumsHeld* held) {
  if (!work_) return;  // a joiner that has no stage yet has sent and summed nothing
  const auto sent = sum_checks_.sent.find(held->round);
  const std::vector<NodeId>& reducers = ReducersOfRound(held->round);
  const auto own = std::find_if(held->sums.begin(), held->sums.end(),
                                [&](const Participant& sum) { return sum.node == options_.self; });
  if (!ChecksSums() || sent == sum_checks_.sent.end() || own == held->sums.end()) return;
  std::map<NodeId, std::vector<Digest>> parts;
  for (size_t i = 0; i < reducers.size(); ++i) parts[reducers[i]].push_back(sent->second[i]);
  for (const auto& [reducer, pieces] : parts) {
    held->statement.sent.push_back({reducer, own->tokens, PartDigest(pieces)});
  }
  const auto reduced = sum_checks_.reduced.find({held->round, held->shape});
  if (reduced == sum_checks_.reduced.end()) return;
  held->statement.summed = reduced->second.summed;
  held->statement.states = reduced->second.states;
}

void NodeActor::On(Context& context, const NodeId& from, const SumCheck& message) {
  if (from != options_.coordinator || message.stage != stage_ || !work_ || !rounds_ ||
      !IsShardedStage()) {
    return void(++refused_);
  }
  if (message.reducer == options_.self) return ShowSum(context, message);
  const RoundShape& shape = ShapeOfRound(message.round);
  if (message.checker != options_.self || shape.id != message.shape) return void(++refused_);
  const std::vector<NodeId>& reducers = ReducersOfRound(message.round);
  std::vector<int32_t> own;
  for (size_t i = 0; i < reducers.size(); ++i) {
    if (reducers[i] == message.reducer) own.push_back(static_cast<int32_t>(i));
  }
  // What is not shown for so long the coordinator has asked for itself.
  if (sum_checks_.awaited.size() >= SumChecks::kAwaitedMax) sum_checks_.awaited.pop_front();
  const DeltaSum* sum = rounds_->SumOf(message.reducer, message.round, message.shape);
  const Payload sums = sum == nullptr ? Payload() : sum->payload;
  sum_checks_.awaited.push_back({message, std::move(own), sums});
  const auto early = sum_checks_.early.find(message.reducer);
  if (early == sum_checks_.early.end() || early->second.stage != message.stage ||
      early->second.round != message.round) {
    return;
  }
  const SumChecks::Shown shown = sum_checks_.early.extract(early).mapped();
  On(context, message.reducer, SumShown{shown.stage, shown.round, shown.payload});
}

// It comes before the commit, so what the sum was made of is all here.
void NodeActor::ShowSum(Context& context, const SumCheck& check) {
  for (const SumChecks::Shown& shown : sum_checks_.shown) {
    if (shown.stage != check.stage || shown.round != check.round) continue;
    return SendShown(context, check, shown);
  }
  std::vector<NodeId> participants;
  for (const Participant& p : check.summed) participants.push_back(p.node);
  std::vector<int32_t> own;
  for (const PieceState& state : check.states) own.push_back(state.piece);
  auto reduction = rounds_->ReductionOf(check.round, participants, own);
  const DeltaSum* sum = rounds_->OwnSum(check.round, check.shape);
  if (!reduction || sum == nullptr) {
    return Send(context, check.checker, SumShown{check.stage, check.round, nullptr});
  }
  auto shown = std::make_shared<Payload>();
  const JobId job = SubmitTracked(
      context, {"show sums", work_->Cost(WorkKind::kReduce),
                [work = work_.get(), check, shown, reduction = *std::move(reduction)] {
                  auto left_over = work->LeftOverBefore(check);
                  if (left_over.ok()) *shown = Shown(check, reduction, *left_over);
                }});
  sum_checks_.jobs[job] = {check, std::move(shown), nullptr, sum->payload};
}

// Every replica of the stage has the sums; who is none needs them too.
void NodeActor::SendShown(Context& context, const SumCheck& check, const SumChecks::Shown& shown) {
  if (check.checker != options_.coordinator) {
    return Send(context, check.checker, SumShown{check.stage, check.round, shown.payload});
  }
  auto whole = std::make_shared<Payload>();
  const JobId job =
      SubmitTracked(context, {"show sums", work_->Cost(WorkKind::kReduce), [check, shown, whole] {
                                *whole = WithSums(shown.payload, check.summed.size(),
                                                  check.drawn.size(), shown.sums);
                              }});
  sum_checks_.jobs[job] = {check, std::move(whole), nullptr, nullptr};
}

void NodeActor::On(Context& context, const NodeId& from, const SumShown& message) {
  const auto it = std::find_if(sum_checks_.awaited.begin(), sum_checks_.awaited.end(),
                               [&](const SumChecks::Awaited& a) {
                                 return a.check.reducer == from && a.check.stage == message.stage &&
                                        a.check.round == message.round;
                               });
  if (!work_) return void(++refused_);
  if (it == sum_checks_.awaited.end()) {
    // The coordinator is heard over another way, perhaps later. One showing is kept of each other
    // replica that sums in a round under way.
    const bool may_come = ChecksSums() && IsShardedStage() && rounds_ && message.stage == stage_ &&
                          from != options_.self && rounds_->IsAhead(message.round);
    const std::vector<NodeId> reducers =
        may_come ? ReducersOfRound(message.round) : std::vector<NodeId>();
    if (std::find(reducers.begin(), reducers.end(), from) == reducers.end()) {
      return void(++refused_);
    }
    sum_checks_.early[from] = {message.stage, message.round, message.payload};
    return;
  }
  auto verdict = std::make_shared<SumVerdict>(SumVerdict::kNotShown);
  const JobId job = SubmitTracked(
      context, {"check sums", work_->Cost(WorkKind::kReduce),
                [work = work_.get(), awaited = *it, verdict, shown = message.payload] {
                  const SumCheck& check = awaited.check;
                  *verdict = work->CheckShown(
                      check, awaited.own,
                      WithSums(shown, check.summed.size(), check.drawn.size(), awaited.sums));
                }});
  sum_checks_.jobs[job] = {it->check, nullptr, std::move(verdict), nullptr};
  sum_checks_.awaited.erase(it);
}

bool NodeActor::OnSumJob(Context& context, JobId id) {
  const auto done = sum_checks_.jobs.extract(id);
  if (done.empty()) return false;
  const SumChecks::Job& job = done.mapped();
  if (job.verdict) {
    Send(context, options_.coordinator,
         SumChecked{job.check.stage, job.check.round, job.check.reducer, *job.verdict});
  } else if (job.sums) {
    sum_checks_.shown.push_back({job.check.stage, job.check.round, *job.shown, job.sums});
    if (sum_checks_.shown.size() > kSumsShownMax) sum_checks_.shown.pop_front();
    SendShown(context, job.check, SumChecks::Shown(sum_checks_.shown.back()));
  } else {
    Send(context, job.check.checker, SumShown{job.check.stage, job.check.round, *job.shown});
  }
  Advance(context);
  return true;
}

}  // namespace skerry
