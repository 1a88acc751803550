#include "pipeline/exec/stage_actor.h"

#include <algorithm>
#include <utility>

#include "common/check.h"
#include "common/status.h"
#include "pipeline/plan/route.h"

namespace skerry {
StageActor::StageActor(Options options, SharedPlan plan)
    : options_(std::move(options)),
      plan_(std::move(plan)),
      step_(options_.first_step - 1),
      tracer_(options_.inner_steps) {
  SKERRY_CHECK(options_.work != nullptr && options_.in_flight >= 1);
  if (options_.late_floor <= Duration()) return;
  lateness_.emplace(Lateness::Options{options_.late_floor, options_.tick, options_.lag_max,
                                      Duration::Seconds(plan_->settings.step_s)});
  avoidance_.emplace(options_.late_floor);
}

NodeId StageActor::NodeAt(const Path& path, int32_t hop) const {
  const Slot slot = path[static_cast<size_t>(hop) % path.size()];
  return plan_->stages[static_cast<size_t>(slot.stage)].replicas[static_cast<size_t>(slot.replica)];
}

bool StageActor::IsOwn(const Visit& visit) const {
  return visit.hop == 0;
}

// A stranger's path is believed only if every slot exists and no stage comes twice.
bool StageActor::PathIsValid(const Path& path) const {
  if (path.empty() || path.size() > plan_->stages.size() || path.front().stage != 0) return false;
  std::vector<uint8_t> visits(plan_->stages.size());
  return std::all_of(path.begin(), path.end(), [&](const Slot& slot) {
    return slot.stage >= 0 && static_cast<size_t>(slot.stage) < plan_->stages.size() &&
           slot.replica >= 0 &&
           static_cast<size_t>(slot.replica) <
               plan_->stages[static_cast<size_t>(slot.stage)].replicas.size() &&
           visits[static_cast<size_t>(slot.stage)]++ == 0;
  });
}

void StageActor::BeginStep(Context& context, int64_t step) {
  SKERRY_CHECK(!step_open_ && step > step_);
  step_ = step;
  step_open_ = true;
  accumulated_ = std::exchange(carried_, 0);
  report_ = {step, {}};
  tracer_.Begin(step, plan_->version, context.now());
  TellSizes(context, step);
  losses_.clear();
  std::erase_if(voided_, [&](const Key& key) { return key.first < step; });
  const int64_t oldest = step - 1 - options_.lag_max;
  std::erase_if(counted_, [&](const Key& key) { return key.first < oldest; });
  std::erase_if(void_, [&](const auto& entry) { return entry.first.first < oldest; });
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

void StageActor::MakeReady(const Context& context, Visit& visit, Task task, PassInput input) {
  visit.ready = context.now();
  visit.state = State::kReady;
  visit.task = task;
  visit.input = std::move(input);
  int64_t bytes = 0;
  for (const auto& [other, held] : visits_) bytes += SizeOf(held.input.values);
  input_bytes_peak_ = std::max(input_bytes_peak_, bytes);
}

// Before anything is done with it: what comes in has exactly the size of a payload, or of one as
// the run's codec for slow links makes it.
bool StageActor::HasRightSize(const PassInput& input) const {
  const bool may_be = input.codec == DeltaCodec::kNone || input.codec == options_.slow_link_codec;
  return may_be && IsBoundary(*options_.work, input);
}

// How the result of the visit's task travels. The plan's list is of what may be encoded: nothing
// depends on it, and a way that is led elsewhere meanwhile carries what was made for the old one.
DeltaCodec StageActor::SendAs(const Visit& visit) const {
  const auto length = static_cast<int32_t>(visit.path.size());
  if (length < 2 || (visit.task == Task::kBackward && visit.hop == 0)) return DeltaCodec::kNone;
  int32_t to = visit.hop + 1;
  if (visit.task == Task::kLoss) to = length - 1;
  if (visit.task == Task::kBackward) to = visit.hop - 1;
  const bool slow = std::binary_search(plan_->slow_links.begin(), plan_->slow_links.end(),
                                       SlowLink{options_.self, NodeAt(visit.path, to)});
  return slow ? options_.slow_link_codec : DeltaCodec::kNone;
}

void StageActor::OnActivation(Context& context, const NodeId& from, const Activation& activation) {
  const Key key{activation.step, activation.microbatch};
  const auto length = static_cast<int32_t>(activation.path.size());
  const bool valid =
      PathIsValid(activation.path) && activation.hop >= 1 && activation.hop <= length &&
      activation.microbatch >= 0 && activation.microbatch < plan_->microbatches_per_step &&
      activation.step >= 0 && HasRightSize({activation.values, activation.codec}) &&
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
    MakeReady(context, it->second, Task::kLoss, {activation.values, activation.codec});
    return;
  }
  if (IsVoid(key, NodeAt(activation.path, 0), activation.attempt)) return void(++refused_);
  if (it != visits_.end() && !MakesWay(context, it, activation)) return void(++refused_);
  Visit& visit = visits_[key];
  visit.attempt = activation.attempt;
  visit.path = activation.path;
  visit.hop = activation.hop;
  visit.counted = counted_.contains(key);
  visit.has_gradient = false;
  MakeReady(context, visit, Task::kForward, {activation.values, activation.codec});
}

// Whether what is here of the microbatch gives its place to the attempt that comes.
bool StageActor::MakesWay(Context& context, Visits::iterator it, const Activation& activation) {
  const Visit& here = it->second;
  if (here.state == State::kExpected) return activation.attempt >= here.attempt;
  // An heir counts its attempts anew: of the dead one's only a gradient can be left that waits for
  // its turn, and the heir's takes its place.
  const bool is_heirs = here.state == State::kDone &&
                        here.path.front() != activation.path.front() &&
                        !WorksAt(plan_, NodeAt(here.path, 0), activation.step);
  // A new attempt comes over other nodes than the void of the one before, and may be here first.
  const bool is_newer = activation.attempt > here.attempt && !IsOwn(here);
  if (is_heirs || is_newer) Drop(context, it->first);
  return is_heirs || is_newer;
}

void StageActor::OnGradient(Context& context, const NodeId& from, const Gradient& gradient) {
  const auto it = visits_.find({gradient.step, gradient.microbatch});
  if (it == visits_.end() || it->second.state != State::kAway ||
      it->second.attempt != gradient.attempt || it->second.hop != gradient.hop ||
      !HasRightSize({gradient.values, gradient.codec}) ||
      NodeAt(it->second.path, gradient.hop + 1) != from) {
    ++refused_;
    return;
  }
  NoteAnswer(context, it->first, it->second);
  MakeReady(context, it->second, Task::kBackward, {gradient.values, gradient.codec});
}

int32_t StageActor::OwnInFlight() const {
  return static_cast<int32_t>(std::count_if(visits_.begin(), visits_.end(), [&](const auto& entry) {
    return IsOwn(entry.second) && entry.second.state != State::kExpected &&
           entry.second.state != State::kDone;
  }));
}

// Whether nothing of the open step has its turn before it.
bool StageActor::IsNext(Key key) const {
  return key.first != step_ || !pending_.contains(key.second) || *pending_.begin() == key.second;
}

// Whoever has the next turn always may, else a full house would wait for the one it keeps out.
bool StageActor::MayTakeGradient(Key key, const Visit& visit) const {
  const bool takes =
      !visit.has_gradient && (visit.task == Task::kLoss || visit.task == Task::kBackward);
  if (!takes || options_.gradients_max <= 0 || IsNext(key)) return true;
  int32_t held = 0;
  bool next_holds = false;
  for (const auto& [other, there] : visits_) {
    held += there.has_gradient ? 1 : 0;
    next_holds = next_holds || (there.has_gradient && IsNext(other));
  }
  return held + (next_holds ? 0 : 1) < options_.gradients_max;
}

bool StageActor::SubmitNext(Context& context) {
  if (running_.job != 0) return false;
  auto best = visits_.end();
  auto start = visits_.end();
  for (auto it = visits_.begin(); it != visits_.end() && it->first.first <= step_; ++it) {
    const Visit& visit = it->second;
    if (visit.state == State::kReady && (best == visits_.end() || visit.task < best->second.task) &&
        MayTakeGradient(it->first, visit)) {
      best = it;
    }
    if (start == visits_.end() && visit.state == State::kExpected && IsOwn(visit)) start = it;
  }
  const bool may_start =
      start != visits_.end() &&
      (OwnInFlight() < options_.in_flight || (options_.gradients_max > 0 && IsNext(start->first)));
  if (best == visits_.end() && may_start) {
    start->second.task = Task::kStart;
    ChoosePath(context, start->first, start->second);
    best = start;
  }
  if (best == visits_.end()) return false;
  Run(context, best->first, best->second);
  return true;
}

void StageActor::Run(Context& context, Key key, Visit& visit) {
  StageWork* work = options_.work;
  auto result = std::make_shared<WorkResult>();
  const PassInput input = std::exchange(visit.input, {});
  const DeltaCodec send_as = SendAs(visit);
  visit.state = State::kRunning;
  visit.has_gradient =
      visit.has_gradient || visit.task == Task::kLoss || visit.task == Task::kBackward;
  const auto [step, microbatch] = key;
  const auto pass = [=](auto compute) {
    return [=] { *result = RunPass(*work, input, send_as, compute); };
  };
  Job job;
  switch (visit.task) {
    case Task::kStart:
      job = {"start", work->Cost(WorkKind::kForward),
             pass([=, step = step, m = microbatch](const Payload&) {
               return work->ForwardFirst(step, m);
             })};
      break;
    case Task::kForward:
      job = {"forward", work->Cost(WorkKind::kForward),
             pass([=, step = step, m = microbatch](const Payload& in) {
               return work->Forward(step, m, in);
             })};
      break;
    case Task::kLoss:
      job = {"loss", work->Cost(WorkKind::kLoss),
             pass([=, step = step, m = microbatch](const Payload& in) {
               return work->Loss(step, m, in);
             })};
      break;
    case Task::kBackward:
      job = {"backward", work->Cost(WorkKind::kBackward),
             pass([=, step = step, m = microbatch](const Payload& d_out) {
               return work->Backward(step, m, d_out);
             })};
      break;
  }
  const Instant ready = visit.task == Task::kStart ? context.now() : visit.ready;
  running_ = {0, key, visit.task, visit.attempt, ready, context.now(), result};
  if (EndsStep(key, visit)) {
    running_.parts = PartsOf(key, input, send_as, result);
    job = running_.parts(0);
  }
  running_.job = options_.submit(context, std::move(job));
}

bool StageActor::OnJobDone(Context& context, JobId job, Duration took) {
  if (running_.job == 0 || job != running_.job) return false;
  running_.took += took;
  if (RunNextPart(context)) return true;
  const Running done = std::exchange(running_, Running{});
  if (!done.result->status.ok()) {
    options_.failed(context, done.result->status);
    return true;
  }
  if (done.task == Task::kBackward && !done.result->is_refused)
    backwards_ = {backwards_.count + 1, backwards_.took + done.took};
  const auto it = visits_.find(done.key);
  // Voided or restarted meanwhile: what was computed belongs to nobody.
  if (it == visits_.end() || it->second.state != State::kRunning ||
      it->second.attempt != done.attempt) {
    CloseStepIfOver(context);
    return true;
  }
  NoteSizes(done, it->second);
  if (done.result->is_refused) {  // as if it had not come
    ++refused_;
    it->second.state = done.task == Task::kForward ? State::kExpected : State::kAway;
    return true;
  }
  Trace(context, done, it->second);
  Finish(context, done.key, it->second, *done.result);
  return true;
}

void StageActor::Finish(Context& context, Key key, Visit& visit, const WorkResult& result) {
  const bool alone = visit.path.size() == 1;
  visit.sent = LateClock(context);
  if (visit.task == Task::kStart) {
    visit.started = visit.sent;
    visit.was_disturbed = false;
  }
  switch (visit.task) {
    case Task::kStart:
    case Task::kForward:
      visit.state = State::kAway;
      if (alone) {
        MakeReady(context, visit, Task::kLoss, {result.values});
      } else {
        options_.send(context, NodeAt(visit.path, visit.hop + 1),
                      Activation{key.first, key.second, visit.attempt, visit.hop + 1,
                                 plan_->version, visit.path, result.values, result.codec});
      }
      break;
    case Task::kLoss:
      RecordLoss(key, result);
      visit.state = State::kAway;
      if (alone) {
        MakeReady(context, visit, Task::kBackward, {result.values});
      } else {
        const auto last = static_cast<int32_t>(visit.path.size()) - 1;
        options_.send(context, NodeAt(visit.path, last),
                      Gradient{key.first, key.second, visit.attempt, last, plan_->version,
                               result.values, result.codec});
      }
      break;
    case Task::kBackward:
      visit.state = State::kDone;
      if (visit.hop > 0) {
        options_.send(context, NodeAt(visit.path, visit.hop - 1),
                      Gradient{key.first, key.second, visit.attempt, visit.hop - 1, plan_->version,
                               result.values, result.codec});
      } else if (avoidance_) {
        avoidance_->OnOver(key, visit.sent);
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
    ++(step_open_ && running_.given.empty() ? accumulated_ : carried_);
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
  if (!step_open_ || !pending_.empty() || !running_.given.empty()) return;
  step_open_ = false;
  tracer_.Close(context.now());
  if (losses_.empty()) return;
  for (const auto& [microbatch, loss] : losses_) report_.losses.push_back(loss);
  options_.report(context, report_);
}

}  // namespace skerry
