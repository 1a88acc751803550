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
// Added to the second by who has a lane: still exact, and whoever does not know of lanes rounds it
// away.
constexpr float kHasLane = 0.25F;

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
  (*now_.values)[at] = static_cast<float>(has / kLow);
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
    now_.sum = std::make_shared<std::vector<float>>();
    now_.lane->Sum(own_, now_.sum);
    doing_ = Doing::kOnLane;
    return WaitForLane(context);
  } else if (done == Doing::kConfirming) {
    if (AllHaveIt(context, *values)) Keep(context.now(), own_step_, std::move(now_.sum));
  } else {
    Keep(context.now(), own_step_, values);
  }
  TryToSum(context);
  options_.summed(context);
}

// Which sums are there: true if all have the same. Where not, those who lack one are given it.
bool Cohort::Agreed(Context& context, const std::vector<float>& said) {
  std::vector<int64_t> has;
  all_have_lanes_ = true;
  for (size_t r = 0; r < members_.size(); ++r) {
    const float low = said[kCountValues * r + 1];
    has.push_back(std::llround(said[kCountValues * r]) * kLow + std::llround(low));
    all_have_lanes_ = all_have_lanes_ && low != std::floor(low);
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
}

void Cohort::Contribute(Context& context, int64_t step, int32_t microbatches) {
  if (step == last_.step) return;
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

void Cohort::Give(Context& context) {
  SKERRY_CHECK(own_ == nullptr && take_job_ == 0);
  own_step_ = last_.step;
  given_ = context.now();
  taken_ = std::make_shared<std::vector<float>>();
  take_status_ = std::make_shared<absl::Status>();
  take_job_ = options_.submit(
      context,
      {"take gradients", work_->Cost(WorkKind::kAccumulate),
       [work = work_, into = taken_, status = take_status_, microbatches = last_.microbatches] {
         into->resize(static_cast<size_t>(work->GradientValues()) + 1);
         *status = work->TakeGradients(std::span(*into).first(into->size() - 1));
         into->back() = static_cast<float>(microbatches);
       }});
}

void Cohort::TryToSum(Context& context) {
  if (!own_ || !has_agreed_ || doing_ != Doing::kNothing || broken_) return;
  if (IsAlone()) return Keep(context.now(), own_step_, std::exchange(own_, nullptr));
  if (now_.lane) return GatherOnRing(context, Doing::kGathering, 0);
  doing_ = Doing::kCopying;
  now_.values = std::make_shared<std::vector<float>>();
  copy_job_ = options_.submit(context, {"copy gradients", work_->Cost(WorkKind::kAccumulate),
                                        [from = own_, to = now_.values] { *to = *from; }});
}

bool Cohort::OnJobDone(Context& context, JobId job) {
  if (job == take_job_ && job != 0) {
    take_job_ = 0;
    if (!take_status_->ok()) {
      options_.failed(context, *take_status_);
      return true;
    }
    // A new formation may have had the sum of it already.
    if (sum_step_ < own_step_) own_ = taken_;
    taken_.reset();
    TryToSum(context);
    return true;
  }
  if (job == copy_job_ && job != 0) {
    copy_job_ = 0;
    if (doing_ != Doing::kCopying) return true;
    doing_ = Doing::kSumming;
    now_.ring->SetStandsFor(StandsFor());
    now_.ring->AllReduce(context, *now_.values);
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
  if (last_.is_over) return "";
  return broken_ ? "a plan: " + broken_->why : "gradients of its cohort";
}

}  // namespace skerry
