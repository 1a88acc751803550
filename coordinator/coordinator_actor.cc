#include "coordinator/coordinator_actor.h"

#include <algorithm>
#include <utility>

#include "common/check.h"
#include "common/round_clock.h"
#include "common/status.h"
#include "coordinator/export.h"
#include "coordinator/planning.h"
#include "coordinator/snapshot.h"
#include "pipeline/plan/route.h"

namespace skerry {

CoordinatorActor::CoordinatorActor(CoordinatorOptions options)
    : options_(std::move(options)), probes_(static_cast<size_t>(options_.probes_at_once)) {
  options_.config.outer = EffectiveOuter(options_.config.outer);
}

absl::StatusOr<std::unique_ptr<CoordinatorActor>> CoordinatorActor::Create(
    CoordinatorOptions options) {
  std::unique_ptr<CoordinatorActor> actor(new CoordinatorActor(std::move(options)));
  const auto journal = std::exchange(actor->options_.journal, {});
  size_t i = 0;
  if (!journal.empty() && IsStateEntry(journal[0])) {
    SKERRY_ASSIGN_OR_RETURN(actor->state_, StateOfEntry(journal[i++]));
  }
  for (; i < journal.size(); ++i) {
    const absl::Status status = actor->state_.Apply(journal[i]);
    if (!status.ok()) return Annotate(status, absl::StrFormat("journal record %d", i + 1));
  }
  actor->Settle();
  return actor;
}

void CoordinatorActor::OnStart(Context& context) {
  started_ = watched_ = context.now();
  for (const auto& [pair, reading] : state_.links) {
    links_.Add(pair.first, pair.second, reading.rtt_s, reading.bytes_per_s, started_).IgnoreError();
    probes_.NoteMeasured(pair);
  }
  for (const LineFinding& finding : state_.lines) {
    links_.AddLine(finding);
    line_tests_.NoteFound(finding);
  }
  for (const auto& [node, record] : state_.nodes) {
    heard_[node] = started_;
    context.ConnectPeer(node, "");
    if (record.alive && TakesPart(node)) active_.insert(node);
  }
  for (const auto& [node, record] : state_.nodes) {
    if (record.alive && HasPlaceFor(node)) active_.insert(node);
  }
  traffic_ = state_.traffic;
  for (const auto& [stage, round] : state_.moved) moved_at_[stage] = started_;
  next_replan_ = started_ + Duration::Seconds(options_.config.replan_s);
  for (const auto& [step, losses] : state_.losses) {
    const auto lost = state_.written_off.find(step);
    const size_t settled =
        losses.by_microbatch.size() + (lost == state_.written_off.end() ? 0 : lost->second.size());
    if (static_cast<int32_t>(settled) != options_.config.pipeline.microbatches_per_step) continue;
    emitted_steps_.insert(step);
    last_step_ = step;
    last_loss_ = MeanLoss(step);
  }
  ReportStatus(context);
  if (state_.exported && LiveNodes().empty()) {
    context.Stop(0, "the run is finished and its model is exported");
    return;
  }
  if (IsLost()) {
    stopping_ = true;
    context.Stop(1, "the run cannot go on: a stage that it cannot do without lost its last node");
    return;
  }
  // An exported run only sends home whoever still waits, for as long as a silent node is awaited.
  const double first_s =
      state_.exported ? options_.config.node_silent_s : options_.config.heartbeat_s;
  duty_timer_ = context.StartTimer(Duration::Seconds(first_s));
}

// A death that could be routed around left its mark in the plan; this one could not.
bool CoordinatorActor::IsLost() const {
  if (!state_.plan || state_.finished) return false;
  return std::any_of(state_.nodes.begin(), state_.nodes.end(),
                     [&](const auto& node) { return !node.second.alive && TakesPart(node.first); });
}

// The only way state changes: the record is persisted, then folded in.
void CoordinatorActor::Record(Context& context, std::string record) {
  const absl::Status status = state_.Apply(record);
  SKERRY_CHECK(status.ok(), "a record of our own making must apply");
  context.Persist(std::move(record));
  Settle();
}

// From the plan on, the configuration is what the planner made of it.
void CoordinatorActor::Settle() {
  if (state_.plan) options_.config = Settled(std::move(options_.config), *state_.plan);
}

void CoordinatorActor::OnMessage(Context& context, const NodeId& from, const Message& message) {
  if (stopping_) return;
  if (from == context.self()) {
    if (const auto* found = std::get_if<Reachability>(&message)) On(context, from, *found);
    return;
  }
  const auto known = state_.nodes.find(from);
  const bool arrives = std::holds_alternative<Hello>(message);
  // A stranger may only say Hello.
  if (known == state_.nodes.end() && !arrives) return void(++refused_);
  if (known != state_.nodes.end()) {
    heard_[from] = context.now();
    const bool leaves = std::holds_alternative<skerry::Leave>(message);
    if (ahead_.contains(from) && !arrives && !leaves) return void(++refused_);
    if (!known->second.alive && !arrives && !leaves) HeardFromGone(context, from, message);
  }
  std::visit([&](const auto& m) { On(context, from, m); }, message);
}

void CoordinatorActor::OnPeerRestarted(Context&, const NodeId& peer) {
  // A new process says Hello; what the old one was measured or asked is void.
  probes_.Forget(peer);
  greeted_.erase(peer);
  std::erase(reserve_, peer);
  told_of_death_.erase(peer);
}

void CoordinatorActor::OnTimer(Context& context, TimerId timer) {
  if (stopping_) return;
  if (timer == peers_timer_) return SendChangedPeers(context);
  if (timer != duty_timer_) return;
  if (state_.exported) {
    context.Stop(0, "the run is finished and its model is exported");
    return;
  }
  duty_timer_ = context.StartTimer(Duration::Seconds(options_.config.heartbeat_s));
  WatchForSilence(context);
  if (!stopping_) TendAhead(context);
  if (stopping_) return;
  HangUpOnDismissed(context);
  TestAgain(context);
  RequestProbes(context);
  PlanWhenReady(context);
  if (!state_.lost.empty()) return ReportStatus(context);
  TendHandovers(context);
  if (stopping_) return;
  TendSumChecks(context);
  TendSizes(context);
  TendCohorts(context);
  TendWorkChecks(context);
  if (stopping_ || !state_.lost.empty()) return ReportStatus(context);
  TendReplan(context);
  TendCheckpoint(context);
  FinishWhenDone(context);
  if (export_) ContinueExport(context);
  // Thousands of nodes take long to write out, and messages wait meanwhile.
  constexpr size_t kNodesADuty = 2000;
  if (++duties_unreported_ * kNodesADuty < state_.nodes.size()) return;
  duties_unreported_ = 0;
  ReportStatus(context);
}

void CoordinatorActor::OnJobDone(Context& context, JobId job) {
  if (stopping_) return;
  if (OnCheckpointJob(context, job) || OnTraceJob(context, job) || OnSumJob(context, job)) return;
  if (job == starting_job_) {
    starting_job_ = 0;
    StartPrepared(context);
  } else if (job == planning_job_) {
    planning_job_ = 0;
    PlanMade(context);
  } else if (job == choosing_job_) {
    choosing_job_ = 0;
    HandoverChosen(context);
  } else if (job == replanning_job_) {
    replanning_job_ = 0;
    ReplanChosen(context);
  } else if (job == writing_job_) {
    writing_job_ = 0;
    Exported(context);
  }
}

std::optional<int32_t> CoordinatorActor::StageOf(const NodeId& node) const {
  if (!state_.plan) return std::nullopt;
  if (stages_.version != state_.plan->version) {
    stages_ = {state_.plan->version, {}};
    for (size_t stage = 0; stage < state_.plan->stages.size(); ++stage) {
      const auto index = static_cast<int32_t>(stage);
      for (const NodeId& holder : Holders(*state_.plan, index)) stages_.of[holder] = index;
    }
  }
  const auto it = stages_.of.find(node);
  if (it == stages_.of.end()) return std::nullopt;
  return it->second;
}

}  // namespace skerry
