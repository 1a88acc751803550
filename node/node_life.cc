// What others hear of a node now and then, and what it says again to a coordinator that restarted.

#include <numeric>

#include "node/node_actor.h"
#include "pipeline/plan/route.h"

namespace skerry {

// The coordinator says how far the run may train.
void NodeActor::On(Context& context, const NodeId& from, const Heartbeat& message) {
  if (from != options_.coordinator) return void(++refused_);
  run_pause_.reset();
  if (!message.waiting_for.empty()) run_pause_ = {message.step, message.waiting_for};
  if (state_ != State::kTraining) return;
  SendHeartbeat(context);
  Advance(context);
}

Phase NodeActor::phase() const {
  switch (state_) {
    case State::kJoining:
      return Phase::kJoining;
    case State::kIdle:
      return plan_->version > 0 ? Phase::kStandby : Phase::kWaitingForPlan;
    case State::kPreparing:
      return Phase::kFetchingData;
    case State::kCatchingUp:
      return restored_ ? Phase::kCatchingUp : Phase::kFetchingData;
    case State::kTraining: {
      const auto it = boundaries_.find(rounds_->next());
      if (!open_ && it != boundaries_.end() && it->second.waiting) return Phase::kWaitingForRound;
      if (IsPaused()) return Phase::kWaitingForPeers;
      if (cohort_ && cohort_->IsWaiting()) return Phase::kWaitingForPeers;
      return pipeline_->IsWaiting() ? Phase::kWaitingForPeers : Phase::kTraining;
    }
    case State::kFinished:
    case State::kStopped:
      return Phase::kFinished;
  }
  return Phase::kJoining;
}

// With what its cohort took, for people who wonder whether that is worth it.
void NodeActor::Finish(Context& context) {
  state_ = State::kFinished;
  std::string fields = absl::StrFormat(R"("step":%d)", step_);
  if (cohort_) {
    const Cohort::Times& times = cohort_->times();
    fields += absl::StrFormat(R"(,"sums":%d,"summing_s":%.3f,"waiting_for_sums_s":%.3f)",
                              times.sums, times.summing.seconds(), times.waiting.seconds());
  }
  context.Event("finished", fields);
  SendHeartbeat(context);
}

std::string NodeActor::WaitingFor(Phase phase) const {
  if (phase == Phase::kWaitingForPeers) {
    if (IsPaused()) return run_pause_->who;
    const std::string of_pipeline = pipeline_->WaitingFor();
    return of_pipeline.empty() && cohort_ ? cohort_->WaitingFor() : of_pipeline;
  }
  if (transfer_) return transfer_->WaitingFor();
  if (state_fetcher_ && !restored_) return state_fetcher_->WaitingFor();
  return phase == Phase::kWaitingForRound ? rounds_->Missing(rounds_->next()) : "";
}

NodeLook NodeActor::Look() const {
  NodeLook look;
  look.phase = phase();
  look.step = step_;
  look.base_version = base_version();
  look.tokens = pipeline_ ? pipeline_->tokens() : 0;
  look.busy_s = busy_.seconds();
  look.memory_bytes = HeldBytesPeak();
  look.memory_offered = OfferOf(options_.device).total();
  look.sent = sent_;
  look.received = received_;
  look.is_reachable = is_reachable_;
  look.peers = static_cast<int32_t>(peers_.size());
  look.waiting_for = WaitingFor(look.phase);
  look.awaits_approval = look.phase == Phase::kJoining && awaits_approval_;
  look.is_paused = look.phase == Phase::kWaitingForPeers && IsPaused();
  if (!config_) return look;
  look.run = config_->name;
  look.steps = config_->steps;
  look.heartbeat_s = config_->heartbeat_s;
  look.inner_steps = config_->outer.inner_steps;
  look.stages = static_cast<int32_t>(plan_->stages.size());
  if (stage_ < 0 || look.stages <= stage_) return look;
  look.stage = stage_;
  const StageAssignment& stage = plan_->stages[static_cast<size_t>(stage_)];
  look.first_layer = stage.first_layer;
  look.last_layer = stage.last_layer;
  look.replicas = static_cast<int32_t>(LiveReplicas(plan_, stage_).size());
  return look;
}

void NodeActor::SendHeartbeat(Context& context) {
  Heartbeat beat;
  beat.phase = phase();
  beat.step = step_;
  beat.base_version = base_version();
  beat.tokens = pipeline_ ? pipeline_->tokens() : 0;
  beat.bytes_sent = std::accumulate(sent_.begin(), sent_.end(), int64_t{0});
  beat.bytes_received = std::accumulate(received_.begin(), received_.end(), int64_t{0});
  beat.busy_s = busy_.seconds();
  beat.round_wait_s = round_wait_s_;
  beat.round_transfer_s = round_transfer_s_;
  beat.memory_bytes = HeldBytesPeak();
  if (pipeline_) beat.backward_s = pipeline_->backwards().took.seconds();
  if (pipeline_) beat.backwards = pipeline_->backwards().count;
  beat.waiting_for = WaitingFor(beat.phase);
  Send(context, options_.coordinator, beat);
}

void NodeActor::OnTimer(Context& context, TimerId timer) {
  // A coordinator that died after it took the Hello may never have said Welcome.
  if (timer == hello_timer_ && state_ == State::kJoining) {
    SayHello(context);
    hello_timer_ = context.StartTimer(hello_patience_);
    return;
  }
  if (farewell_ && timer == farewell_->deadline) return EndFarewell(context);
  if (transfer_ && transfer_->OnTimer(context, timer)) return;
  if (cohort_ && !submitted_.empty()) cohort_->DeviceWasBusy(context.now());
  if (cohort_ && cohort_->OnTimer(context, timer)) return;
  if (fetcher_.OnTimer(context, timer)) return;
  if (timer != heartbeat_timer_ || state_ == State::kStopped) return;
  SendHeartbeat(context);
  for (auto peer = peers_.begin(); options_.shown && peer != peers_.end(); ++peer) {
    const auto news = prober_.News(options_.shown(peer->first));
    if (news) Send(context, options_.coordinator, *news);
  }
  if (cohort_) cohort_->OnHeartbeat(context);
  Seek(context, sought_);
  heartbeat_timer_ = context.StartTimer(Duration::Seconds(config_->heartbeat_s));
  TendGiving(context);
  DropStaleCheckpoint(context);
  if (giving_ && !giving_->root.IsZero()) SayRoot(context);
  if (state_ == State::kPreparing && BeginsWithCheckpoint()) TendStart(context);
  if (!pipeline_) return;
  pipeline_->OnTick(context);
  SayIfLate(context);
  AskForUnheard(context, true);
  Advance(context);
}

void NodeActor::OnPeerRestarted(Context& context, const NodeId& peer) {
  if (cohort_ && state_ != State::kStopped) cohort_->OnPeerRestarted(context, peer);
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
  if (!IsShardedStage()) return;
  for (const RoundKeeper::Shared& shared : rounds_->SharedNow()) SayMade(context, shared.delta);
  if (farewell_) return;  // of what it vouched for it vouches once
  reported_sums_.clear();
  ReportSums(context);
}

}  // namespace skerry
