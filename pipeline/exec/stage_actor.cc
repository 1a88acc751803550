#include "pipeline/exec/stage_actor.h"

#include <algorithm>
#include <utility>

#include "common/check.h"
#include "common/status.h"
#include "pipeline/plan/route.h"

namespace skerry {
StageActor::StageActor(Options options, PipelinePlan plan)
    : options_(std::move(options)), plan_(std::move(plan)), step_(options_.first_step - 1) {
  SKERRY_CHECK(options_.work != nullptr && options_.in_flight >= 1);
}

NodeId StageActor::NodeAt(const Path& path, int32_t hop) const {
  const Slot slot = path[static_cast<size_t>(hop) % path.size()];
  return plan_.stages[static_cast<size_t>(slot.stage)].replicas[static_cast<size_t>(slot.replica)];
}

bool StageActor::IsOwn(const Visit& visit) const {
  return visit.hop == 0;
}

// A stranger's path is believed only if every slot exists and no stage comes twice.
bool StageActor::PathIsValid(const Path& path) const {
  if (path.empty() || path.size() > plan_.stages.size() || path.front().stage != 0) return false;
  std::set<int32_t> stages;
  return std::all_of(path.begin(), path.end(), [&](const Slot& slot) {
    return slot.stage >= 0 && static_cast<size_t>(slot.stage) < plan_.stages.size() &&
           slot.replica >= 0 &&
           static_cast<size_t>(slot.replica) <
               plan_.stages[static_cast<size_t>(slot.stage)].replicas.size() &&
           stages.insert(slot.stage).second;
  });
}

void StageActor::BeginStep(Context& context, int64_t step) {
  SKERRY_CHECK(!step_open_ && step > step_);
  step_ = step;
  step_open_ = true;
  accumulated_ = std::exchange(carried_, 0);
  report_ = {step, {}};
  losses_.clear();
  std::erase_if(voided_, [&](const Key& key) { return key.first < step; });
  std::erase_if(counted_, [&](const Key& key) { return key.first < step - 1 - options_.lag_max; });
  for (const PlannedVisit& planned : VisitsOf(plan_, step, options_.self)) {
    if (voided_.contains({step, planned.microbatch})) continue;
    pending_.insert(planned.microbatch);
    Visit& visit = visits_[{step, planned.microbatch}];
    if (visit.path.empty()) {
      visit.path = PathOf(plan_, step, planned.microbatch);
      visit.hop = planned.hop;
    }
  }
  CloseStepIfOver(context);
}

void StageActor::MakeReady(Key key, Visit& visit, Task task, Payload input) {
  static_cast<void>(key);
  visit.state = State::kReady;
  visit.task = task;
  visit.input = std::move(input);
}

void StageActor::OnActivation(Context& context, const NodeId& from, const Activation& activation) {
  const Key key{activation.step, activation.microbatch};
  const auto length = static_cast<int32_t>(activation.path.size());
  const bool valid =
      PathIsValid(activation.path) && activation.hop >= 1 && activation.hop <= length &&
      activation.microbatch >= 0 && activation.microbatch < plan_.microbatches_per_step &&
      activation.step >= 0 && SizeOf(activation.values) == options_.work->boundary_bytes() &&
      NodeAt(activation.path, activation.hop) == options_.self &&
      NodeAt(activation.path, activation.hop - 1) == from &&
      WorksAt(plan_, from, activation.step) && WorksAt(plan_, options_.self, activation.step) &&
      WorksAt(plan_, NodeAt(activation.path, 0), activation.step) && visits_.size() < kVisitsMax;
  if (!valid) {
    ++refused_;
    return;
  }
  const auto it = visits_.find(key);
  if (activation.hop == length) {  // back home: the head's turn
    if (it == visits_.end() || !IsOwn(it->second) || it->second.state != State::kAway ||
        it->second.attempt != activation.attempt) {
      ++refused_;
      return;
    }
    MakeReady(key, it->second, Task::kLoss, activation.values);
    return;
  }
  // The heir of a dead data node begins anew what was done here with the dead one, and not counted.
  if (it != visits_.end() && it->second.state == State::kDone &&
      it->second.path.front() != activation.path.front() &&
      !WorksAt(plan_, NodeAt(it->second.path, 0), activation.step)) {
    Drop(context, key);
  }
  Visit& visit = visits_[key];
  if (activation.attempt < visit.attempt ||
      (activation.attempt == visit.attempt && visit.state != State::kExpected)) {
    ++refused_;
    return;
  }
  visit.attempt = activation.attempt;
  visit.path = activation.path;
  visit.hop = activation.hop;
  visit.counted = counted_.contains(key);
  MakeReady(key, visit, Task::kForward, activation.values);
}

void StageActor::OnGradient(Context&, const NodeId& from, const Gradient& gradient) {
  const auto it = visits_.find({gradient.step, gradient.microbatch});
  if (it == visits_.end() || it->second.state != State::kAway ||
      it->second.attempt != gradient.attempt || it->second.hop != gradient.hop ||
      SizeOf(gradient.values) != options_.work->boundary_bytes() ||
      NodeAt(it->second.path, gradient.hop + 1) != from) {
    ++refused_;
    return;
  }
  MakeReady(it->first, it->second, Task::kBackward, gradient.values);
}

int32_t StageActor::OwnInFlight() const {
  return static_cast<int32_t>(std::count_if(visits_.begin(), visits_.end(), [&](const auto& entry) {
    return IsOwn(entry.second) && entry.second.state != State::kExpected &&
           entry.second.state != State::kDone;
  }));
}

bool StageActor::SubmitNext(Context& context) {
  if (running_.job != 0) return false;
  auto best = visits_.end();
  auto start = visits_.end();
  for (auto it = visits_.begin(); it != visits_.end() && it->first.first <= step_; ++it) {
    const Visit& visit = it->second;
    if (visit.state == State::kReady && (best == visits_.end() || visit.task < best->second.task)) {
      best = it;
    }
    if (start == visits_.end() && visit.state == State::kExpected && IsOwn(visit)) start = it;
  }
  if (best == visits_.end() && start != visits_.end() && OwnInFlight() < options_.in_flight) {
    start->second.task = Task::kStart;
    best = start;
  }
  if (best == visits_.end()) return false;
  Run(context, best->first, best->second);
  return true;
}

void StageActor::Run(Context& context, Key key, Visit& visit) {
  StageWork* work = options_.work;
  auto result = std::make_shared<WorkResult>();
  const Payload input = std::move(visit.input);
  visit.input = nullptr;
  visit.state = State::kRunning;
  const auto [step, microbatch] = key;
  Job job;
  switch (visit.task) {
    case Task::kStart:
      job = {"start", work->Cost(WorkKind::kForward),
             [=, step = step, m = microbatch] { *result = work->ForwardFirst(step, m); }};
      break;
    case Task::kForward:
      job = {"forward", work->Cost(WorkKind::kForward),
             [=, step = step, m = microbatch] { *result = work->Forward(step, m, input); }};
      break;
    case Task::kLoss:
      job = {"loss", work->Cost(WorkKind::kLoss),
             [=, step = step, m = microbatch] { *result = work->Loss(step, m, input); }};
      break;
    case Task::kBackward:
      job = {"backward", work->Cost(WorkKind::kBackward),
             [=, step = step, m = microbatch] { *result = work->Backward(step, m, input); }};
      break;
  }
  running_ = {0, key, visit.task, visit.attempt, result};
  running_.job = options_.submit(context, std::move(job));
}

bool StageActor::OnJobDone(Context& context, JobId job) {
  if (running_.job == 0 || job != running_.job) return false;
  const Running done = std::exchange(running_, Running{});
  if (!done.result->status.ok()) {
    options_.failed(context, done.result->status);
    return true;
  }
  const auto it = visits_.find(done.key);
  // Voided or restarted meanwhile: what was computed belongs to nobody.
  if (it == visits_.end() || it->second.state != State::kRunning ||
      it->second.attempt != done.attempt) {
    return true;
  }
  Finish(context, done.key, it->second, *done.result);
  return true;
}

void StageActor::Finish(Context& context, Key key, Visit& visit, const WorkResult& result) {
  const bool alone = visit.path.size() == 1;
  switch (visit.task) {
    case Task::kStart:
    case Task::kForward:
      visit.state = State::kAway;
      if (alone) {
        MakeReady(key, visit, Task::kLoss, result.values);
      } else {
        options_.send(context, NodeAt(visit.path, visit.hop + 1),
                      Activation{key.first, key.second, visit.attempt, visit.hop + 1, plan_.version,
                                 visit.path, result.values});
      }
      break;
    case Task::kLoss:
      RecordLoss(key, result);
      visit.state = State::kAway;
      if (alone) {
        MakeReady(key, visit, Task::kBackward, result.values);
      } else {
        const auto last = static_cast<int32_t>(visit.path.size()) - 1;
        options_.send(
            context, NodeAt(visit.path, last),
            Gradient{key.first, key.second, visit.attempt, last, plan_.version, result.values});
      }
      break;
    case Task::kBackward:
      visit.state = State::kDone;
      if (visit.hop > 0) {
        options_.send(context, NodeAt(visit.path, visit.hop - 1),
                      Gradient{key.first, key.second, visit.attempt, visit.hop - 1, plan_.version,
                               result.values});
      }
      AccumulateReady(context);
      CloseStepIfOver(context);
      break;
  }
}

void StageActor::RecordLoss(Key key, const WorkResult& result) {
  if (key.first == step_) losses_[key.second] = {key.second, result.tokens, result.loss};
}

// In microbatch order within the step; what is not of the open step's plan counts as soon as it is
// there.
void StageActor::AccumulateReady(Context& context) {
  StageWork* work = options_.work;
  const auto accumulate = [&](const Key& key) {
    context.Submit({"accumulate", work->Cost(WorkKind::kAccumulate),
                    [work, key] { work->Accumulate(key.first, key.second); }});
    tokens_ += work->microbatch_tokens();
    counted_.insert(key);
    ++(step_open_ ? accumulated_ : carried_);
  };
  while (!pending_.empty()) {
    const Key key{step_, *pending_.begin()};
    const auto it = visits_.find(key);
    if (it == visits_.end() || it->second.state != State::kDone) break;
    accumulate(key);
    visits_.erase(it);
    pending_.erase(pending_.begin());
  }
  std::vector<Key> extras;
  for (const auto& [key, visit] : visits_) {
    const bool planned = key.first == step_ && pending_.contains(key.second);
    if (visit.state == State::kDone && !planned) extras.push_back(key);
  }
  for (const Key& key : extras) {
    if (visits_[key].counted) {
      Drop(context, key);
    } else {
      accumulate(key);
      visits_.erase(key);
    }
  }
}

void StageActor::CloseStepIfOver(Context& context) {
  if (!step_open_ || !pending_.empty()) return;
  step_open_ = false;
  if (losses_.empty()) return;
  for (const auto& [microbatch, loss] : losses_) report_.losses.push_back(loss);
  options_.report(context, report_);
}

std::string StageActor::WaitingFor() const {
  if (running_.job != 0 || !step_open_) return "";
  for (const int32_t microbatch : pending_) {
    const auto it = visits_.find({step_, microbatch});
    if (it == visits_.end() || it->second.path.empty()) continue;
    const Visit& visit = it->second;
    const auto length = static_cast<int32_t>(visit.path.size());
    if (visit.state == State::kExpected && visit.hop > 0) {
      return absl::StrFormat("activation of microbatch %d from %s", microbatch,
                             NodeAt(visit.path, visit.hop - 1).Short());
    }
    if (visit.state == State::kAway) {
      const bool last = visit.hop + 1 == length;
      return absl::StrFormat(
          "%s of microbatch %d from %s",
          IsOwn(visit) && losses_.count(microbatch) == 0 ? "last activation" : "gradient",
          microbatch, NodeAt(visit.path, last ? 0 : visit.hop + 1).Short());
    }
  }
  return "";
}

}  // namespace skerry
