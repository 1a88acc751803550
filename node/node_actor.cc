#include "node/node_actor.h"

#include <algorithm>
#include <utility>

#include "common/check.h"
#include "common/digest.h"
#include "common/status.h"
#include "node/node_results.h"
#include "pipeline/plan/memory_model.h"
#include "pipeline/plan/route.h"

namespace skerry {
namespace {

// Commits hold a node back after 2τ steps at most, in every mode; reports of that many steps may be
// lost with a coordinator.
size_t ReportsKept(const RunConfig& config) {
  return static_cast<size_t>(2 * config.outer.inner_steps + 2);
}

}  // namespace

NodeActor::NodeActor(NodeActorOptions options)
    : options_(std::move(options)),
      fetcher_(options_.shards, [this](Context& context, Message message) {
        Send(context, options_.coordinator, std::move(message));
      }) {}

// ---- joining -----------------------------------------------------------------------------------

void NodeActor::OnStart(Context& context) {
  SayHello(context);
  hello_timer_ = context.StartTimer(kHelloPatience);
}

void NodeActor::Send(Context& context, const NodeId& to, Message message) {
  bytes_sent_ += WireSize(message);
  if (RoundBytes* bytes = BytesOf(message)) bytes->sent += WireSize(message);
  context.Send(to, std::move(message));
}

void NodeActor::SayHello(Context& context) {
  Send(
      context, options_.coordinator,
      Hello{options_.ticket, options_.endpoint, options_.region, options_.software, options_.device,
            plan_.version, step_, base_version(), options_.listens, options_.relays});
}

void NodeActor::Fail(Context& context, const absl::Status& status) {
  if (state_ == State::kStopped) return;
  state_ = State::kStopped;
  const std::string reason = ErrorText(status);
  Send(context, options_.coordinator, skerry::Leave{reason});
  context.Stop(1, reason);
}

void NodeActor::Leave(Context& context, const std::string& reason) {
  if (state_ == State::kStopped) return;
  state_ = State::kStopped;
  Send(context, options_.coordinator, skerry::Leave{reason});
  context.Stop(0, reason);
}

void NodeActor::OnMessage(Context& context, const NodeId& from, const skerry::Message& message) {
  bytes_received_ += WireSize(message);
  if (RoundBytes* bytes = BytesOf(message)) bytes->received += WireSize(message);
  if (state_ == State::kStopped) return;
  std::visit([&](const auto& m) { On(context, from, m); }, message);
}

void NodeActor::On(Context& context, const NodeId& from, const Welcome& message) {
  if (from != options_.coordinator) return void(++refused_);
  if (!config_) {
    config_ = message.config;
    shard_names_ = message.shards;
    heartbeat_timer_ = context.StartTimer(Duration::Seconds(config_->heartbeat_s));
  }
  if (state_ == State::kJoining) state_ = State::kIdle;
  SendHeartbeat(context);
}

void NodeActor::On(Context& context, const NodeId& from, const Refused& message) {
  if (from != options_.coordinator) return void(++refused_);
  state_ = State::kStopped;
  context.Stop(2, "the coordinator refused this node: " + message.reason);
}

// ---- measuring ---------------------------------------------------------------------------------

void NodeActor::On(Context& context, const NodeId& from, const ProbeRequest& message) {
  if (from != options_.coordinator || !peers_.contains(message.target)) return void(++refused_);
  prober_.OnRequest(context, message);
}

void NodeActor::On(Context& context, const NodeId& from, const Ping& message) {
  Send(context, from, Pong{message.nonce});
}

void NodeActor::On(Context& context, const NodeId& from, const Pong& message) {
  if (const auto reading = prober_.OnPong(context, from, message)) {
    Send(context, options_.coordinator, *reading);
  }
}

// ---- plan --------------------------------------------------------------------------------------

void NodeActor::On(Context& context, const NodeId& from, const PlanUpdate& message) {
  if (from != options_.coordinator || !config_) return void(++refused_);
  if (message.plan.version <= plan_.version) return;
  if (state_ == State::kJoining) return;  // what is sent after the Welcome counts
  const PipelinePlan before = std::exchange(plan_, message.plan);
  config_ = Settled(*std::move(config_), plan_);
  const auto slot = SlotOf(plan_, options_.self);
  const bool dead = !slot || IsDead(plan_, options_.self);
  const Joiner* joiner = JoinerOf(plan_, options_.self);
  if (state_ == State::kIdle) {
    if (dead) return ReplayEarly(context);
    stage_ = slot->stage;
    return joiner != nullptr ? Join(context) : Prepare(context);
  }
  if (!dead && IsMovedBy(plan_)) return MoveTo(context, slot->stage);
  if (dead || (joiner != nullptr ? joiner->since : 0) != joined_since_) {
    return StartOver(context, "the run went on without this node");
  }
  SendPendingToJoiners(context, before);
  SendMovedPieces(context, before);
  DropStaleState(context);
  if (pipeline_) pipeline_->OnPlan(context, plan_);
  ReplayEarly(context);
  Advance(context);
}

void NodeActor::Prepare(Context& context) {
  state_ = State::kPreparing;
  if (stage_ == 0) {
    fetcher_.Start(context, shard_names_);
    if (!fetcher_.status().ok()) return Fail(context, fetcher_.status());
    if (!fetcher_.Done()) return;
  }
  BuildStage(context);
}

void NodeActor::BuildStage(Context& context) {
  results_ = std::make_shared<Results>();
  heavy_ = Heavy::kBuild;
  heavy_job_ =
      SubmitTracked(context, {"build stage", Duration::Millis(100),
                              [results = results_, build = options_.build, config = *config_,
                               stage = plan_.stages[static_cast<size_t>(stage_)],
                               ends = stage_ == 0, shards = shard_names_] {
                                auto work = build(config, stage, ends, shards);
                                results->status = work.status();
                                if (work.ok()) results->work = *std::move(work);
                              }});
}

void NodeActor::StageBuilt(Context& context) {
  work_ = std::move(results_->work);
  GiveTables(context);
  if (state_ == State::kStopped) return;
  if (state_ == State::kCatchingUp) return TendJoining(context);
  rounds_ = std::make_unique<RoundKeeper>(stage_, options_.self, 0, Clock().RoundsAhead());
  StartTraining(context, 0);
}

// From step `step` on.
void NodeActor::StartTraining(Context& context, int64_t step) {
  step_ = step;
  StageActor::Options options;
  options.self = options_.self;
  options.first_step = step;
  options.lag_max = 2 * config_->outer.inner_steps + 1;
  options.in_flight = config_->pipeline.in_flight;
  options.slow_link_codec = config_->pipeline.slow_link_codec;
  options.gradients_max = HoldsOf(*config_, plan_, stage_, options_.device.memory_bytes).gradients;
  options.work = work_.get();
  if (config_->pipeline.detours) options.late_floor = Duration::Seconds(config_->node_silent_s) / 2;
  options.tick = Duration::Seconds(config_->heartbeat_s);
  options.pass_on = [this](Context& c, const Message& message) { PassOn(c, message); };
  options.send = [this](Context& c, const NodeId& to, skerry::Message m) {
    Send(c, to, std::move(m));
  };
  options.report = [this](Context& c, const StepReport& report) {
    recent_reports_.push_back(report);
    if (recent_reports_.size() > ReportsKept(*config_)) recent_reports_.pop_front();
    Send(c, options_.coordinator, report);
  };
  options.submit = [this](Context& c, Job job) { return SubmitTracked(c, std::move(job)); };
  options.failed = [this](Context& c, const absl::Status& status) { Fail(c, status); };
  MeasureLateness();
  pipeline_ = std::make_unique<StageActor>(std::move(options), plan_);
  state_ = State::kTraining;
  context.Event("training",
                absl::StrFormat(R"("stage":%d,"first_layer":%d,"last_layer":%d)", stage_,
                                plan_.stages[static_cast<size_t>(stage_)].first_layer,
                                plan_.stages[static_cast<size_t>(stage_)].last_layer));
  ReplayEarly(context);
  Advance(context);
}

void NodeActor::Advance(Context& context) {
  if (state_ == State::kCatchingUp) return CatchUp(context);
  if (SaveStateIfAsked(context)) return;
  // After the last step a node still computes for others what a death has sent around again.
  if (state_ == State::kFinished && heavy_ == Heavy::kNone) pipeline_->SubmitNext(context);
  if (state_ != State::kTraining) return;
  if (heavy_ == Heavy::kNone && ReduceIfReady(context)) return;
  if (heavy_ == Heavy::kNone) {
    if (open_ && !pipeline_->StepOpen()) {
      heavy_ = Heavy::kOptimizer;
      results_ = std::make_shared<Results>();
      heavy_job_ = SubmitTracked(context, {"optimizer", work_->Cost(WorkKind::kOptimizer),
                                           [work = work_.get(), results = results_, step = step_,
                                            count = pipeline_->step_microbatches()] {
                                             results->status = work->OptimizerStep(step, count);
                                           }});
      return;
    }
    if (!open_) {
      if (EncodeAtBoundary(context)) return;
      if (ApplyDueRound(context)) return;
      const bool waits =
          boundaries_.contains(rounds_->next()) && boundaries_[rounds_->next()].waiting.has_value();
      if (!waits && step_ == config_->steps) {
        state_ = State::kFinished;
        context.Event("finished", absl::StrFormat(R"("step":%d)", step_));
        SendHeartbeat(context);
        return;
      }
      if (!waits) {
        open_ = true;
        pipeline_->BeginStep(context, step_);
        if (!pipeline_->StepOpen()) return Advance(context);
      }
    }
  }
  if (heavy_ == Heavy::kNone) pipeline_->SubmitNext(context);
}

// ---- jobs --------------------------------------------------------------------------------------

void NodeActor::OnJobDone(Context& context, JobId job) {
  if (const auto it = submitted_.find(job); it != submitted_.end()) {
    busy_ += context.now() - it->second;
    submitted_.erase(it);
  }
  if (state_ == State::kStopped) return;
  if (fetcher_.OnJobDone(context, job)) {
    if (!fetcher_.status().ok()) return Fail(context, fetcher_.status());
    const bool builds = state_ == State::kPreparing || state_ == State::kCatchingUp;
    if (fetcher_.Done() && builds && !work_ && heavy_ == Heavy::kNone) BuildStage(context);
    return;
  }
  if (job == heavy_job_ && heavy_ != Heavy::kNone) {
    const Heavy done = std::exchange(heavy_, Heavy::kNone);
    if (!results_->status.ok() && done == Heavy::kRestore) return StateRestored(context);
    if (!results_->status.ok()) return Fail(context, results_->status);
    switch (done) {
      case Heavy::kBuild:
        return StageBuilt(context);
      case Heavy::kOptimizer:
        ++step_;
        open_ = false;
        break;
      case Heavy::kEncode:
        Encoded(context);
        break;
      case Heavy::kReduce:
        Reduced(context);
        break;
      case Heavy::kApply:
        ApplyDone(context);
        break;
      case Heavy::kExport:
        base_bytes_ = results_->base;
        for (auto& [to, request] : std::exchange(base_requests_, {}))
          ServeBase(context, to, request);
        break;
      case Heavy::kSave:
        StateSaved(context);
        break;
      case Heavy::kRestore:
        return StateRestored(context);
      case Heavy::kCatchUp:
        return CaughtUp(context);
      case Heavy::kStart:
        return StartReplica(context);
      case Heavy::kNone:
        break;
    }
  } else if (pipeline_) {
    pipeline_->OnJobDone(context, job);
  }
  Advance(context);
}

// ---- life --------------------------------------------------------------------------------------

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
  if (state_ == State::kCatchingUp && state_fetcher_ && !restored_) {
    beat.waiting_for = state_fetcher_->WaitingFor();
  }
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
  if (timer != heartbeat_timer_ || state_ == State::kStopped) return;
  SendHeartbeat(context);
  heartbeat_timer_ = context.StartTimer(Duration::Seconds(config_->heartbeat_s));
  DropStaleState(context);
  if (state_ == State::kCatchingUp) TendJoining(context);
  if (!pipeline_) return;
  pipeline_->OnTick(context);
  SayIfLate(context);
  Advance(context);
}

void NodeActor::OnPeerRestarted(Context& context, const NodeId& peer) {
  if (state_ == State::kStopped || peer != options_.coordinator) return;
  SayHello(context);
  if (state_ == State::kPreparing || state_ == State::kCatchingUp) fetcher_.Resume(context);
  for (const StepReport& report : recent_reports_) Send(context, peer, report);
  for (const Message& message : passed_on_) Send(context, peer, message);
  for (const skerry::RoundApplied& applied : recent_applied_) Send(context, peer, applied);
  if (!rounds_) return;
  for (const auto& [round, said] : said_) Send(context, peer, said);
  for (const DeltaHeld& held : rounds_->HeldNow()) Send(context, peer, held);
  for (const DeltaHeld& refused : rounds_->RefusedNow()) Send(context, peer, refused);
  reported_sums_.clear();
  if (IsShardedStage()) ReportSums(context);
}

}  // namespace skerry
