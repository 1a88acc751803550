// Traffic of the pipeline: handed to the StageActor, or kept until it can be.

#include <memory>
#include <new>
#include <utility>

#include "node/node_actor.h"

namespace skerry {

bool NodeActor::MustWait(int64_t plan_version, bool is_ready) const {
  return plan_version > plan_->version || (stage_ >= 0 && !is_ready);
}

void NodeActor::Keep(const NodeId& from, skerry::Message message) {
  if (early_.size() < kEarlyMax) early_.emplace_back(from, std::move(message));
}

void NodeActor::ReplayEarly(Context& context) {
  for (auto& [from, message] : std::exchange(early_, {})) {
    std::visit([&, sender = from](const auto& m) { On(context, sender, m); }, message);
  }
}

// What was sent to an earlier self, whose part has gone to others, is refused.
void NodeActor::On(Context& context, const NodeId& from, const Activation& message) {
  if (MustWait(message.plan_version, pipeline_ != nullptr)) return Keep(from, message);
  if (!pipeline_ || message.plan_version < joined_since_) return void(++refused_);
  if (work_checks_.Watches()) CopyForCheck(context, from, message, false);
  pipeline_->OnActivation(context, from, message);
  Advance(context);
}

void NodeActor::On(Context& context, const NodeId& from, const Gradient& message) {
  if (MustWait(message.plan_version, pipeline_ != nullptr)) return Keep(from, message);
  if (!pipeline_ || message.plan_version < joined_since_) return void(++refused_);
  if (work_checks_.Watches()) CopyForCheck(context, from, message, false);
  pipeline_->OnGradient(context, from, message);
  Advance(context);
}

void NodeActor::On(Context& context, const NodeId& from, const MicrobatchVoid& message) {
  if (MustWait(message.plan_version, pipeline_ != nullptr)) return Keep(from, message);
  if (!pipeline_ || message.plan_version < joined_since_) return void(++refused_);
  pipeline_->OnVoid(context, from, message);
  Advance(context);
}

// The coordinator passes on what a stage-0 node said, where their own link may be late.
void NodeActor::On(Context& context, const NodeId& from, const VoidList& message) {
  if (MustWait(message.plan_version, pipeline_ != nullptr)) return Keep(from, message);
  if (!pipeline_ || message.plan_version < joined_since_) return void(++refused_);
  pipeline_->OnVoidList(context, from, message, from == options_.coordinator);
  Advance(context);
}

void NodeActor::On(Context& context, const NodeId& from, const HopLate& message) {
  if (!pipeline_) return void(++refused_);
  pipeline_->OnHopLate(context, from, message);
}

void NodeActor::PassOn(Context& context, const Message& message) {
  passed_on_.push_back(message);
  if (passed_on_.size() > kPassedOnMax) passed_on_.pop_front();
  Send(context, options_.coordinator, message);
}

JobId NodeActor::SubmitTracked(Context& context, Job job) {
  // Large vectors throw where buffers of a backend say so; the node that has no memory must live to
  // tell (FailAtWork).
  auto out_of_memory = std::make_shared<bool>(false);
  job.run = [run = std::move(job.run), out_of_memory] {
    try {
      run();
    } catch (const std::bad_alloc&) {
      *out_of_memory = true;
    }
  };
  const JobQueue queue = job.queue;
  const JobId id = context.Submit(std::move(job));
  submitted_[id] = {context.now(), std::move(out_of_memory), queue};
  return id;
}

// What the stage has held and what waited for it; payloads under way to others are left out.
int64_t NodeActor::HeldBytesPeak() const {
  const int64_t stage = work_ ? work_->HeldBytesPeak() : 0;
  if (stage == 0) return 0;
  return stage + (pipeline_ ? pipeline_->input_bytes_peak() : 0) +
         (rounds_ ? rounds_->held_bytes_peak() : 0);
}

}  // namespace skerry
