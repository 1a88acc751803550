#include "pipeline/exec/cohort.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/check.h"
#include "common/status.h"
#include "pipeline/plan/cohorts.h"

namespace skerry {
namespace {

// A count as two values that float32 holds exactly.
constexpr int64_t kLow = 1 << 20;
constexpr int64_t kCountValues = 2;
// Added to the second by who has a lane, to the first by who sums in parts: still exact, and
// whoever does not know of that rounds it away.
constexpr float kHasLane = 0.25F, kSumsInParts = 0.25F;

bool IsMarked(float said) {
  return said != std::floor(said);
}

}  // namespace

void Cohort::OnPlan(Context& context, const PipelinePlan& plan) {
  std::vector<NodeId> members = CohortOf(plan, options_.self);
  if (members.empty()) return;  // whoever is out of the plan starts over
  const uint64_t formation = FormationOf(plan, options_.stage, members);
  if (formation == now_.formation) return;
  members_ = std::move(members);
  if (sum_step_ < 0) {  // where all begin
    first_step_ = plan.start.step;
    sum_step_ = first_step_ - 1;
  }
  Form(context, formation);
  TryToSum(context);
}

void Cohort::Leave(Context& context) {
  now_.formation = 0;
  now_.lane.reset();
  if (now_.ring) now_.ring->Abort(context, Aborted("it has left"));
}

void Cohort::Form(Context& context, uint64_t formation) {
  Ring past = std::exchange(now_, Ring());
  now_.formation = formation;
  if (past.ring && past.ring->status().ok()) NoteSilent(context.now(), *past.ring);
  past.lane.reset();
  if (past.ring) past.ring->Abort(context, Aborted("the plan names other members"));
  if (past.ring && past.ring->busy()) past_.push_back(std::move(past));
  doing_ = Doing::kNothing;
  broken_.reset();
  has_agreed_ = IsAlone();
  if (has_agreed_) return;
  TransportRingOptions options;
  options.group = formation;
  options.members = members_;
  options.patience = kPatience;
  options.send = options_.send;
  now_.ring = std::make_unique<TransportRing>(
      std::move(options), [this, formation](Context& c, const absl::Status& status) {
        OnRingEnd(c, formation, status);
      });
  now_.ring->Start(context);
  doing_ = Doing::kAgreeing;
  const int64_t has = sum_step_ + 1;
  now_.values = std::make_shared<std::vector<float>>(members_.size() * kCountValues);
  const auto at = static_cast<size_t>(now_.ring->rank() * kCountValues);
  (*now_.values)[at] = static_cast<float>(has / kLow) + kSumsInParts;
  (*now_.values)[at + 1] = static_cast<float>(has % kLow) + (options_.lane ? kHasLane : 0);
  now_.ring->AllGather(context, *now_.values);
}

// Whoever has not spoken for half of the patience was about to be blamed.
void Cohort::NoteSilent(Instant now, const TransportRing& ring) const {
  for (const NodeId& node : ring.SilentFor(now, kPatience / 2)) options_.silent(node);
}

void Cohort::OnRingEnd(Context& context, uint64_t formation, const absl::Status& status) {
  if (formation != now_.formation) return;
  const Doing done = std::exchange(doing_, Doing::kNothing);
  if (!status.ok()) {
    now_.lane.reset();
    NoteSilent(context.now(), *now_.ring);
    broken_ = CohortBroken{options_.stage, formation, now_.ring->blamed(), ErrorText(status)};
    return options_.broken(context, *broken_);
  }
  const auto values = std::exchange(now_.values, nullptr);
  if (done == Doing::kAgreeing) {
    if (!Agreed(context, *values)) return;
    Introduce(context);
  } else if (done == Doing::kCatchingUp) {
    if (sum_step_ + 1 < most_) Keep(context.now(), most_ - 1, values);
    Introduce(context);
  } else if (done == Doing::kIntroducing) {
    MeetOnLane(context, *values);
  } else if (done == Doing::kGathering) {
    if (now_.part == 0 || AllHaveIt(context, *values)) return SumOnLane(context);
  } else if (done == Doing::kConfirming) {
    if (AllHaveIt(context, *values)) Keep(context.now(), own_step_, std::move(now_.sum));
  } else if (++now_.part == PartsOfSum()) {
    Keep(context.now(), own_step_, std::move(now_.sum));
  }
  TryToSum(context);
  options_.summed(context);
}

// Which sums are there: true if all have the same. Where not, those who lack one are given it.
bool Cohort::Agreed(Context& context, const std::vector<float>& said) {
  std::vector<int64_t> has;
  all_have_lanes_ = now_.in_parts = true;
  for (size_t r = 0; r < members_.size(); ++r) {
    const float high = said[kCountValues * r], low = said[kCountValues * r + 1];
    has.push_back(std::llround(high) * kLow + std::llround(low));
    all_have_lanes_ = all_have_lanes_ && IsMarked(low);
    now_.in_parts = now_.in_parts && IsMarked(high);
  }
  const auto first = std::max_element(has.begin(), has.end());
  most_ = *first;
  if (std::all_of(has.begin(), has.end(), [&](int64_t n) { return n == most_; })) return true;
  // Who lacks one has contributed to it, or it would not be there.
  const bool is_behind = sum_step_ + 1 < most_;
  if (is_behind && (sum_step_ + 2 < most_ || own_step_ != most_ - 1 || work_ == nullptr)) {
    now_.ring->Abort(context, DataLoss("it is behind the others' sums"));
    return false;
  }
  doing_ = Doing::kCatchingUp;
  const auto root = static_cast<int32_t>(first - has.begin());
  if (root == now_.ring->rank()) {
    now_.values = sum_.values;
  } else {
    const auto values = static_cast<size_t>(work_->GradientValues()) + 1;
    now_.values = std::make_shared<std::vector<float>>(values);
  }
  now_.ring->SetStandsFor(StandsFor());
  now_.ring->Broadcast(context, *now_.values, root);
  return false;
}

double Cohort::StandsFor() const {
  return static_cast<double>(work_->GradientValuesStoodFor()) /
         static_cast<double>(std::max<int64_t>(1, work_->GradientValues()));
}

void Cohort::Keep(Instant now, int64_t step, std::shared_ptr<std::vector<float>> values) {
  sum_step_ = step;
  sum_ = {static_cast<int32_t>(std::lround(values->back())), std::move(values)};
  times_.summing += now - given_;
  own_.reset();
  now_.part = 0;
}

void Cohort::SetWork(StageWork* work) {
  work_ = work;
  if (work != nullptr) parts_ = work->GradientParts();
}

void Cohort::Contribute(Context& context, int64_t step, int32_t microbatches) {
  if (step == last_.step) {
    if (std::exchange(last_.is_early, false)) last_.since = context.now();
    return;
  }
  SKERRY_CHECK(work_ != nullptr && step > last_.step && last_.is_over);
  last_ = {step, microbatches, context.now(), false};
  if (options_.overlap_steps == 0) Give(context);
}

const Cohort::Sum* Cohort::Take(Context& context) {
  const int64_t due = last_.step - options_.overlap_steps;
  const bool is_first = due < first_step_;
  if (!is_first && sum_step_ != due) return nullptr;
  last_.is_over = true;
  // Not before: what comes of it takes the place of the last. Nobody takes what the last step adds.
  if (options_.overlap_steps > 0 && last_.step + 1 < options_.steps) Give(context);
  if (is_first) return &nothing_;
  tokens_ += int64_t{sum_.microbatches} * work_->microbatch_tokens();
  ++times_.sums;
  times_.waiting += context.now() - last_.since;
  return &sum_;
}

bool Cohort::MayGiveParts() const {
  return work_ != nullptr && parts_.size() > 1 && options_.overlap_steps == 0 && !IsAlone() &&
         has_agreed_ && SumsInParts() && last_.is_over && own_ == nullptr && taking_.empty();
}

void Cohort::BeginToGive(Instant now) {
  SKERRY_CHECK(own_ == nullptr && taking_.empty());
  own_step_ = last_.step;
  given_ = now;
  own_ = std::make_shared<std::vector<float>>();
  own_parts_ = 0;
}

void Cohort::Give(Context& context) {
  BeginToGive(context.now());
  SubmitTaking(context, parts_.size(), 1,
               [work = work_, microbatches = last_.microbatches](std::vector<float>& into) {
                 into.resize(static_cast<size_t>(work->GradientValues()) + 1);
                 into.back() = static_cast<float>(microbatches);
                 return work->TakeGradients(std::span(into).first(into.size() - 1));
               });
}

void Cohort::GivePart(Context& context, const GradientsMade& made) {
  if (made.part == 0) {
    SKERRY_CHECK(MayGiveParts() && made.step > last_.step);
    last_ = {made.step, made.accumulated, context.now(), false, true};
    BeginToGive(context.now());
  }
  const auto range = parts_[made.part];
  SubmitTaking(context, made.part + 1, 1.0 / static_cast<double>(parts_.size()),
               [work = work_, made, range](std::vector<float>& into) {
                 if (made.part == 0) {  // nobody reads it yet
                   into.resize(static_cast<size_t>(work->GradientValues()) + 1);
                   into.back() = static_cast<float>(made.accumulated);
                 }
                 const auto values = std::span(into).subspan(static_cast<size_t>(range.first),
                                                             static_cast<size_t>(range.size));
                 return work->TakePart(made.part, made.step, made.microbatches, values);
               });
}

// `share` of all that is to be taken.
void Cohort::SubmitTaking(Context& context, size_t parts, double share,
                          std::function<absl::Status(std::vector<float>&)> take) {
  Taking taking{0, parts, own_, std::make_shared<absl::Status>()};
  const double cost_s = work_->Cost(WorkKind::kAccumulate).seconds();
  taking.job = options_.submit(context, {"take gradients", Duration::Seconds(cost_s * share),
                                         [take = std::move(take), into = taking.into,
                                          status = taking.status] { *status = take(*into); }});
  taking_.push_back(std::move(taking));
}

bool Cohort::OnTaken(Context& context, JobId job) {
  if (taking_.empty() || taking_.front().job != job) return false;
  const Taking done = std::move(taking_.front());
  taking_.erase(taking_.begin());
  if (!done.status->ok()) {
    options_.failed(context, *done.status);
    return true;
  }
  // A new formation may have had the sum of it already.
  if (own_ == done.into) own_parts_ = done.parts;
  TryToSum(context);
  return true;
}

// The same at all members: they give up a lane at the same moment of the formation.
bool Cohort::SumsInParts() const {
  return now_.in_parts && (members_.size() == 2 || now_.lane != nullptr);
}

bool Cohort::HasGiven(size_t part) const {
  return own_ != nullptr && own_parts_ >= (SumsInParts() ? part + 1 : parts_.size());
}

// The microbatches go with the first part, which ends where they stand.
StageWork::GradientPart Cohort::RangeOf(size_t part) const {
  if (!SumsInParts()) return {0, std::ssize(*own_)};
  StageWork::GradientPart range = parts_[part];
  if (part == 0) ++range.size;
  return range;
}

void Cohort::TryToSum(Context& context) {
  if (own_ == nullptr || !has_agreed_ || doing_ != Doing::kNothing || broken_) return;
  if (IsAlone()) {
    if (own_parts_ == parts_.size()) Keep(context.now(), own_step_, std::exchange(own_, nullptr));
    return;
  }
  if (now_.lane && now_.part == PartsOfSum())
    return GatherOnRing(context, Doing::kConfirming, now_.last_came ? 1 : 0);
  if (!HasGiven(now_.part)) return;
  if (now_.part == 0) now_.sum = std::make_shared<std::vector<float>>();
  if (now_.lane)
    return GatherOnRing(context, Doing::kGathering, now_.part > 0 && now_.last_came ? 1 : 0);
  doing_ = Doing::kCopying;
  const auto range = RangeOf(now_.part);
  const double cost_s = work_->Cost(WorkKind::kAccumulate).seconds() *
                        static_cast<double>(range.size) / static_cast<double>(own_->size());
  Job copy{"copy gradients", Duration::Seconds(cost_s), [from = own_, to = now_.sum, range] {
             to->resize(from->size());
             std::copy_n(from->begin() + range.first, range.size, to->begin() + range.first);
           }};
  copy.queue = JobQueue::kBeside;
  copy_job_ = options_.submit(context, std::move(copy));
}

bool Cohort::OnJobDone(Context& context, JobId job) {
  if (OnTaken(context, job)) return true;
  if (job == copy_job_ && job != 0) {
    copy_job_ = 0;
    if (doing_ != Doing::kCopying) return true;
    doing_ = Doing::kSumming;
    const auto range = RangeOf(now_.part);
    now_.ring->SetStandsFor(StandsFor());
    now_.ring->AllReduce(context, std::span(*now_.sum).subspan(static_cast<size_t>(range.first),
                                                               static_cast<size_t>(range.size)));
    return true;
  }
  if (now_.ring && now_.ring->OnJobDone(context, job)) return true;
  const bool is_past = std::any_of(past_.begin(), past_.end(), [&](const Ring& past) {
    return past.ring->OnJobDone(context, job);
  });
  std::erase_if(past_, [](const Ring& past) { return !past.ring->busy(); });
  return is_past;
}

bool Cohort::OnMessage(Context& context, const NodeId& from, const Message& message) {
  return now_.ring && now_.ring->OnMessage(context, from, message);
}

bool Cohort::OnTimer(Context& context, TimerId timer) {
  if (timer == lane_timer_ && timer != 0) {
    LookAtLane(context);
    return true;
  }
  return now_.ring && now_.ring->OnTimer(context, timer);
}

void Cohort::OnPeerRestarted(Context& context, const NodeId& peer) {
  if (now_.ring) now_.ring->OnPeerRestarted(context, peer);
}

void Cohort::OnHeartbeat(Context& context) {
  if (broken_) options_.broken(context, *broken_);
}

void Cohort::DeviceWasBusy(Instant now) {
  if (now_.ring) now_.ring->DeviceWasBusy(now);
}

std::string Cohort::WaitingFor() const {
  if (!IsWaiting()) return "";
  return broken_ ? "a plan: " + broken_->why : "gradients of its cohort";
}

}  // namespace skerry
