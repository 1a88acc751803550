// What nodes report of their training: losses, deltas held, rounds applied.

#include <algorithm>
#include <cmath>

#include "common/status.h"
#include "coordinator/coordinator_actor.h"
#include "pipeline/plan/route.h"

namespace skerry {

void CoordinatorActor::On(Context& context, const NodeId& from, const StepReport& message) {
  const int32_t microbatches = options_.config.pipeline.microbatches_per_step;
  if (StageOf(from) != 0 || message.step < 0 || message.step >= options_.config.steps) {
    return void(++refused_);
  }
  StepReport fresh{message.step, {}};
  const auto known = state_.losses.find(message.step);
  for (const MicrobatchLoss& loss : message.losses) {
    const bool sane = loss.microbatch >= 0 && loss.microbatch < microbatches && loss.tokens >= 0 &&
                      std::isfinite(loss.loss);
    if (!sane) return void(++refused_);
    if (known == state_.losses.end() || !known->second.by_microbatch.contains(loss.microbatch)) {
      fresh.losses.push_back(loss);
    }
  }
  if (fresh.losses.empty()) return;
  Record(context, LossesRecord(fresh));
  const auto& step = state_.losses.at(message.step).by_microbatch;
  if (static_cast<int32_t>(step.size()) == microbatches) EmitStep(context, message.step);
}

// Mean in float64, in microbatch order: the same bits whatever the order of reports.
void CoordinatorActor::EmitStep(Context& context, int64_t step) {
  if (!emitted_steps_.insert(step).second) return;
  double sum = 0;
  int64_t tokens = 0;
  const auto& losses = state_.losses.at(step).by_microbatch;
  for (const auto& [microbatch, loss] : losses) {
    sum += static_cast<double>(loss.loss) * loss.tokens;
    tokens += loss.tokens;
  }
  const double mean = tokens > 0 ? sum / static_cast<double>(tokens) : 0;
  if (step > last_step_) {
    last_step_ = step;
    last_loss_ = mean;
  }
  context.Event("step", absl::StrFormat(R"("step":%d,"loss":%.9g,"tokens":%d,"microbatches":%d)",
                                        step, mean, tokens, losses.size()));
}

void CoordinatorActor::On(Context& context, const NodeId& from, const DeltaHeld& message) {
  const auto stage = StageOf(from);
  if (!stage || message.stage != *stage || StageOf(message.sender) != stage || message.tokens < 0) {
    return void(++refused_);
  }
  const int64_t next = state_.RoundsCommitted(*stage);
  if (message.round < next) {  // frozen already: the commit may have been lost with an earlier life
    context.Send(from, state_.commits.at({*stage, message.round}));
    return;
  }
  constexpr int64_t kRoundsAhead = 4;
  if (message.round > next + kRoundsAhead) return void(++refused_);
  held_[{*stage, message.round}][from][message.sender] = {message.sender, message.tokens,
                                                          message.digest};
  TryCommit(context, *stage);
}

// A round is frozen when every live replica holds every live replica's message, all alike.
void CoordinatorActor::TryCommit(Context& context, int32_t stage) {
  const int64_t round = state_.RoundsCommitted(stage);
  const auto held = held_.find({stage, round});
  if (held == held_.end()) return;
  std::vector<NodeId> live = LiveReplicas(*state_.plan, stage);
  std::sort(live.begin(), live.end());
  RoundCommit commit{stage, round, {}};
  for (const NodeId& sender : live) {
    const Participant own = held->second[sender][sender];
    for (const NodeId& holder : live) {
      const auto& holdings = held->second[holder];
      const auto it = holdings.find(sender);
      if (it == holdings.end() || it->second.node.IsZero()) return;
      if (it->second != own) {
        DeclareDead(context, sender, "it sent different deltas to different replicas");
        return;
      }
    }
    commit.participants.push_back(own);
  }
  if (commit.participants.empty()) return;
  Record(context, CommitRecord(commit));
  held_.erase(held);
  std::string names;
  for (const Participant& p : commit.participants) {
    names += absl::StrFormat("%s\"%s\"", names.empty() ? "" : ",", p.node.Short());
  }
  context.Event("round", absl::StrFormat(R"("stage":%d,"round":%d,"participants":[%s])", stage,
                                         round, names));
  for (const NodeId& replica : live) context.Send(replica, commit);
  TryCommit(context, stage);
}

void CoordinatorActor::On(Context& context, const NodeId& from, const RoundApplied& message) {
  const auto stage = StageOf(from);
  if (!stage || message.stage != *stage || message.round < 0 ||
      message.round >= state_.RoundsCommitted(*stage) || !(message.transfer_s >= 0) ||
      !(message.wait_s >= 0)) {
    return void(++refused_);
  }
  const RunState::StageRound key{message.stage, message.round};
  const auto known = state_.applied.find(key);
  if (known != state_.applied.end() && known->second.contains(from)) return;
  Record(context, AppliedRecord(from, message));
  context.Event(
      "applied",
      absl::StrFormat(
          R"("stage":%d,"round":%d,"node":"%s","digest":"%s","transfer_s":%.4f,"wait_s":%.4f)",
          message.stage, message.round, from.Short(), message.base_digest.Short(),
          message.transfer_s, message.wait_s));
  if (state_.base_digests.at(key) != message.base_digest) {
    context.Event("digest_mismatch", absl::StrFormat(R"("stage":%d,"round":%d,"node":"%s")",
                                                     message.stage, message.round, from.Short()));
    DeclareDead(context, from, "its base parameters differ from its stage's");
  }
}

}  // namespace skerry
