#include "node/node_actor.h"

#include <algorithm>
#include <utility>

#include "common/check.h"
#include "common/digest.h"
#include "common/status.h"
#include "node/node_results.h"
#include "pipeline/plan/route.h"

namespace skerry {
namespace {

// Reports of as many steps may be lost with a coordinator as others can be behind; where no stage
// has rounds nobody waits for it, and it may have been away for long.
size_t ReportsKept(const RunConfig& config) {
  constexpr int32_t kLossesKept = 65'536;
  const int64_t steps = kLossesKept / config.pipeline.microbatches_per_step;
  return static_cast<size_t>(std::max<int64_t>(steps, RoundClock(config).StepsBehind() + 1));
}

// What a peer sent under a plan from before the run went back to a checkpoint.
bool IsOfVoidedPast(const Message& message, int64_t since) {
  return since > 0 &&
         std::visit(
             [&](const auto& m) {
               using M = std::decay_t<decltype(m)>;
               if constexpr (requires { m.plan_version; } && !std::is_same_v<M, Hello>) {
                 return m.plan_version < since;
               } else {
                 return false;
               }
             },
             message);
}

}  // namespace

NodeActor::NodeActor(NodeActorOptions options)
    : options_(std::move(options)),
      prober_([this](Context& c, const NodeId& to, Message m) { Send(c, to, std::move(m)); },
              options_.shown ? LinkProber::Pings::kTrains : LinkProber::Pings::kSingle,
              options_.handling_s_per_byte),
      fetcher_(options_.shards, options_.coordinator,
               [this](Context& context, const NodeId& to, Message message) {
                 Send(context, to, std::move(message));
               }),
      giver_(options_.shards),
      work_checks_(options_.self) {}

// ---- joining -----------------------------------------------------------------------------------

void NodeActor::OnStart(Context& context) {
  SayHello(context);
  hello_timer_ = context.StartTimer(hello_patience_);
}

void NodeActor::Send(Context& context, const NodeId& to, Message message) {
  sent_[static_cast<size_t>(ClassOf(message))] += WireSize(message);
  if (RoundBytes* bytes = BytesOf(message)) bytes->sent += WireSize(message);
  SeekStranger(context, to);
  context.Send(to, std::move(message));
}

void NodeActor::SayHello(Context& context) {
  Hello hello{options_.ticket,  options_.endpoint, options_.region, options_.software,
              options_.device,  plan_->version,    step_,           base_version(),
              options_.listens, options_.relays,   options_.process};
  hello.device.spreads = true;
  Send(context, options_.coordinator, hello);
}

void NodeActor::Fail(Context& context, const absl::Status& status) {
  if (state_ == State::kStopped) return;
  state_ = State::kStopped;
  const std::string reason = ErrorText(status);
  Send(context, options_.coordinator, skerry::Leave{reason});
  context.Stop(1, reason);
}

void NodeActor::Leave(Context& context, const std::string& reason) {
  if (state_ == State::kStopped || BeginFarewell(context, reason)) return;
  state_ = State::kStopped;
  Send(context, options_.coordinator, skerry::Leave{reason});
  context.Stop(0, reason);
}

void NodeActor::OnMessage(Context& context, const NodeId& from, const skerry::Message& message) {
  received_[static_cast<size_t>(ClassOf(message))] += WireSize(message);
  if (RoundBytes* bytes = BytesOf(message)) bytes->received += WireSize(message);
  if (state_ == State::kStopped) return;
  passing_on_.Heard(from);
  if (IsOfVoidedPast(message, plan_->start.since)) return void(++refused_);
  if (cohort_ && cohort_->OnMessage(context, from, message)) return;
  std::visit([&](const auto& m) { On(context, from, m); }, message);
}

void NodeActor::On(Context& context, const NodeId& from, const Welcome& message) {
  if (from != options_.coordinator) return void(++refused_);
  if (!config_) {
    config_ = message.config;
    const MemoryOffer offer = OfferOf(options_.device);
    const absl::Status splits = offer.split == DeviceSplit::kTensors
                                    ? CheckTensorSplit(*config_, offer.devices)
                                    : absl::OkStatus();
    if (!splits.ok()) return Fail(context, splits);
    shard_names_ = message.shards;
    heartbeat_timer_ = context.StartTimer(Duration::Seconds(config_->heartbeat_s));
  }
  if (state_ == State::kJoining) state_ = State::kIdle;
  SendHeartbeat(context);
}

void NodeActor::On(Context& context, const NodeId& from, const Refused& message) {
  if (from != options_.coordinator) return void(++refused_);
  if (message.waits && state_ == State::kJoining) {  // it will say when somebody has decided
    context.CancelTimer(hello_timer_);
    hello_patience_ = Duration::Seconds(60);
    awaits_approval_ = true;
    hello_timer_ = context.StartTimer(hello_patience_);
    return;
  }
  state_ = State::kStopped;
  context.Stop(2, "the coordinator refused this node: " + message.reason +
                      (message.reason.find("[SK-") == std::string::npos ? " [SK-refused]" : ""));
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
  const auto shown = options_.shown ? options_.shown(from) : std::nullopt;
  if (const auto reading = prober_.OnPong(context, from, message, shown)) {
    Send(context, options_.coordinator, *reading);
  }
}

// ---- plan --------------------------------------------------------------------------------------

void NodeActor::On(Context& context, const NodeId& from, const PlanUpdate& message) {
  if (from != options_.coordinator || !config_) return void(++refused_);
  if (message.plan->version <= plan_->version) return;
  if (state_ == State::kJoining) return;  // what is sent after the Welcome counts
  const SharedPlan before = std::exchange(plan_, message.plan);
  NoteReducers(before);
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
  SendPending(context, before);
  SpeakAnew(context, before);
  AskForUnheard(context, false);
  SendMovedPieces(context, before);
  WithdrawObsolete(context, before);
  TendJoining(context);
  if (pipeline_) pipeline_->OnPlan(context, plan_);
  ReplayEarly(context);
  TendGiving(context);
  Advance(context);
}

void NodeActor::Prepare(Context& context) {
  state_ = State::kPreparing;
  JoinCohort(context);
  if (stage_ != 0 || HasData(context)) BuildStage(context);
}

void NodeActor::BuildStage(Context& context) {
  results_ = std::make_shared<Results>();
  heavy_ = Heavy::kBuild;
  heavy_job_ =
      SubmitTracked(context, {"build stage", Duration::Millis(100),
                              [results = results_, build = options_.build, config = *config_,
                               order = OrderFor(), shards = shard_names_] {
                                auto work = build(config, order, shards);
                                results->status = work.status();
                                if (work.ok()) results->work = *std::move(work);
                              }});
}

void NodeActor::StageBuilt(Context& context) {
  work_ = std::move(results_->work);
  if (cohort_) cohort_->SetWork(work_.get());
  GiveTables(context);
  if (state_ == State::kStopped) return;
  if (state_ == State::kCatchingUp) {  // who else could look at what it holds may have gone
    const auto decodes = [this](const Delta& delta) { return Decodes(delta); };
    for (const DeltaHeld& refused : rounds_->RefuseUnless(decodes)) {
      Send(context, options_.coordinator, refused);
    }
    // Who sums what the others who take part looked at; alone it is everything.
    const auto are_sums = [this](int64_t round, const RoundShape& shape, const auto& sums) {
      const bool is_whole = shape.participants.size() > 1 ||
                            static_cast<int32_t>(sums.size()) == work_->pieces(round);
      return is_whole && work_->CheckSums(round, sums).ok();
    };
    for (const int64_t round : rounds_->RefuseSumsUnless(are_sums)) reported_sums_.erase(round);
    if (IsShardedStage()) ReportSums(context);
    return transfer_->Begin(context, work_.get());
  }
  if (BeginsWithCheckpoint()) return TendStart(context);
  rounds_ = std::make_unique<RoundKeeper>(stage_, options_.self, 0, Clock().RoundsAhead());
  StartTraining(context, 0);
}

// From step `step` on.
void NodeActor::StartTraining(Context& context, int64_t step) {
  step_ = step;
  StageActor::Options options;
  options.self = options_.self;
  options.first_step = step;
  options.lag_max = Clock().StepsBehind();
  options.in_flight = config_->pipeline.in_flight;
  options.inner_steps = config_->outer.inner_steps;
  options.slow_link_codec = config_->pipeline.slow_link_codec;
  options.gradients_max = Holds().gradients;
  options.work = work_.get();
  if (config_->pipeline.detours) options.late_floor = Duration::Seconds(config_->node_silent_s) / 2;
  options.may_leave_out = config_->pipeline.skip_ratio > 0;
  options.tick = Duration::Seconds(config_->heartbeat_s);
  options.pass_on = [this](Context& c, const Message& message) { PassOn(c, message); };
  options.send = [this](Context& c, const NodeId& to, skerry::Message m) {
    if (work_checks_.Watches()) CopyForCheck(c, to, m, true);
    Send(c, to, std::move(m));
  };
  options.sizes = [this](Context& c, BoundarySizes sizes) {
    Send(c, options_.coordinator, std::move(sizes));
  };
  options.report = [this](Context& c, const StepReport& report) {
    recent_reports_.push_back(report);
    if (recent_reports_.size() > ReportsKept(*config_)) recent_reports_.pop_front();
    Send(c, options_.coordinator, report);
  };
  options.submit = [this](Context& c, Job job) { return SubmitTracked(c, std::move(job)); };
  options.gives = [this] { return cohort_ ? cohort_->MayGiveParts() : work_->SumsParts(); };
  options.give = [this](Context& c, const GradientsMade& made) { GivePart(c, made); };
  options.failed = [this](Context& c, const absl::Status& status) { FailAtWork(c, status); };
  MeasureLateness();
  pipeline_ = std::make_unique<StageActor>(std::move(options), plan_);
  state_ = State::kTraining;
  const StageHolds holds = Holds();
  context.Event(
      "training",
      absl::StrFormat(R"("stage":%d,"first_layer":%d,"last_layer":%d,"recomputed_layers":%d%s%s)",
                      stage_, plan_->stages[static_cast<size_t>(stage_)].first_layer,
                      plan_->stages[static_cast<size_t>(stage_)].last_layer, holds.recomputed,
                      (SplitOf(holds, OfferOf(options_.device)) == DeviceSplit::kTensors
                           ? std::string(R"(,"devices_share":"tensors")")
                           : "") +
                          (holds.offloads ? R"(,"optimizer":"host")" : ""),
                      absl::StrFormat(R"(,"parked_stashes":%d)", holds.parked)));
  ReplayEarly(context);
  Advance(context);
}

void NodeActor::Advance(Context& context) {
  if (state_ == State::kCatchingUp) return CatchUp(context);
  if (KeepCheckpointIfDue(context) || SaveForJoinersIfDue(context)) return;
  TendFarewell(context);
  // After the last step a node still computes for others what a death has sent around again.
  if (state_ == State::kFinished && heavy_ == Heavy::kNone) pipeline_->SubmitNext(context);
  if (state_ != State::kTraining) return;
  const bool is_over = open_ && !pipeline_->StepOpen();
  if (is_over && cohort_ && StepTogether(context)) return;
  if (heavy_ == Heavy::kNone && ReduceIfReady(context)) return;
  if (heavy_ == Heavy::kNone) {
    if (is_over && !cohort_) {
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
      if (!waits && step_ == config_->steps) return Finish(context);
      if (!waits && !IsPaused()) {
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
  Duration took;  // of the device
  if (const auto it = submitted_.find(job); it != submitted_.end()) {
    if (it->second.queue == JobQueue::kDevice) {
      took = context.now() - std::max(it->second.at, device_done_);
      busy_ += took;
      device_done_ = context.now();
    }
    const bool out_of_memory = *it->second.out_of_memory;
    submitted_.erase(it);
    if (out_of_memory) {
      return FailAtWork(context, ResourceExhausted("stage %d: no memory left", stage_));
    }
  }
  if (state_ == State::kStopped) return;
  if (cohort_) cohort_->DeviceWasBusy(context.now());
  if (cohort_ && cohort_->OnJobDone(context, job)) return Advance(context);
  if (fetcher_.OnJobDone(context, job)) {
    if (!fetcher_.status().ok()) return Fail(context, fetcher_.status());
    const bool builds = state_ == State::kPreparing || state_ == State::kCatchingUp;
    if (fetcher_.Done() && builds && !work_ && heavy_ == Heavy::kNone) BuildStage(context);
    return;
  }
  if (job == left_overs_job_ && left_overs_job_ != 0) return LeftOversMade(context);
  if (OnSumJob(context, job) || OnWorkJob(context, job)) return;
  if (job == chunk_job_ && chunk_job_ != 0) return ChunksDigested(context);
  if (job == digest_job_ && digest_job_ != 0) return StateDigested(context);
  if (job == heavy_job_ && heavy_ != Heavy::kNone) {
    const Heavy done = std::exchange(heavy_, Heavy::kNone);
    if (!results_->status.ok() && done == Heavy::kRestore) return StateRestored(context);
    if (!results_->status.ok()) return FailAtWork(context, results_->status);
    return HeavyDone(context, done);
  }
  if (pipeline_) pipeline_->OnJobDone(context, job, took);
  Advance(context);
}

void NodeActor::HeavyDone(Context& context, Heavy done) {
  switch (done) {
    case Heavy::kBuild:
      return StageBuilt(context);
    case Heavy::kOptimizer:
      ++step_;
      open_ = false;
      if (auto trace = pipeline_->TakeTrace(context.now()); trace && options_.traces)
        Send(context, options_.coordinator, *std::move(trace));
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
      for (auto& [to, request] : std::exchange(base_requests_, {})) ServeBase(context, to, request);
      break;
    case Heavy::kCheckpoint:
      CheckpointKept(context);
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
  Advance(context);
}

}  // namespace skerry
