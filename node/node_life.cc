// What others hear of a node now and then, and what it says again to a coordinator that restarted.

#include "node/node_actor.h"

namespace skerry {

Phase NodeActor::phase() const {
  switch (state_) {
    case State::kJoining:
      return Phase::kJoining;
    case State::kIdle:
      return plan_.version > 0 ? Phase::kStandby : Phase::kWaitingForPlan;
    case State::kPreparing:
      return Phase::kFetchingData;
    case State::kCatchingUp:
      return restored_ ? Phase::kCatchingUp : Phase::kFetchingData;
    case State::kTraining: {
      const auto it = boundaries_.find(rounds_->next());
      if (!open_ && it != boundaries_.end() && it->second.waiting) return Phase::kWaitingForRound;
      return pipeline_->WaitingFor().empty() ? Phase::kTraining : Phase::kWaitingForPeers;
    }
    case State::kFinished:
    case State::kStopped:
      return Phase::kFinished;
  }
  return Phase::kJoining;
}

void NodeActor::SendHeartbeat(Context& context) {
  Heartbeat beat;
  beat.phase = phase();
  beat.step = step_;
  beat.base_version = base_version();
  beat.tokens = pipeline_ ? pipeline_->tokens() : 0;
  beat.bytes_sent = bytes_sent_;
  beat.bytes_received = bytes_received_;
  beat.busy_s = busy_.seconds();
  beat.round_wait_s = round_wait_s_;
  beat.round_transfer_s = round_transfer_s_;
  beat.memory_bytes = HeldBytesPeak();
  if (beat.phase == Phase::kWaitingForRound) beat.waiting_for = rounds_->Missing(rounds_->next());
  if (state_fetcher_ && !restored_) beat.waiting_for = state_fetcher_->WaitingFor();
  if (transfer_) beat.waiting_for = transfer_->WaitingFor();
  if (beat.phase == Phase::kWaitingForPeers) beat.waiting_for = pipeline_->WaitingFor();
  Send(context, options_.coordinator, beat);
}

void NodeActor::OnTimer(Context& context, TimerId timer) {
  // A coordinator that died after it took the Hello may never have said Welcome.
  if (timer == hello_timer_ && state_ == State::kJoining) {
    SayHello(context);
    hello_timer_ = context.StartTimer(kHelloPatience);
    return;
  }
  if (farewell_ && timer == farewell_->deadline) return EndFarewell(context);
  if (transfer_ && transfer_->OnTimer(context, timer)) return;
  if (timer != heartbeat_timer_ || state_ == State::kStopped) return;
  SendHeartbeat(context);
  Seek(context, sought_);
  heartbeat_timer_ = context.StartTimer(Duration::Seconds(config_->heartbeat_s));
  TendGiving(context);
  DropStaleCheckpoint(context);
  if (giving_ && !giving_->root.IsZero()) SayRoot(context);
  if (state_ == State::kPreparing && BeginsWithCheckpoint()) TendStart(context);
  if (!pipeline_) return;
  pipeline_->OnTick(context);
  SayIfLate(context);
  Advance(context);
}

void NodeActor::OnPeerRestarted(Context& context, const NodeId& peer) {
  if (state_ == State::kStopped || peer != options_.coordinator) return;
  SayHello(context);
  Seek(context, sought_);
  if (state_ == State::kPreparing || state_ == State::kCatchingUp) fetcher_.Resume(context);
  for (const StepReport& report : recent_reports_) Send(context, peer, report);
  for (const Message& message : passed_on_) Send(context, peer, message);
  for (const skerry::RoundApplied& applied : recent_applied_) Send(context, peer, applied);
  if (!rounds_) return;
  if (giving_ && (giving_->is_over || !giving_->root.IsZero())) SayRoot(context);
  for (const auto& [round, said] : said_) Send(context, peer, said);
  for (const DeltaHeld& held : rounds_->HeldNow()) Send(context, peer, held);
  for (const DeltaHeld& refused : rounds_->RefusedNow()) Send(context, peer, refused);
  if (farewell_) return;  // of what it vouched for it vouches once
  reported_sums_.clear();
  if (IsShardedStage()) ReportSums(context);
}

}  // namespace skerry
