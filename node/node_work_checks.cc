// Checks of pipeline work, as the node's actor sees them (work_checks.h).

#include <utility>

#include "node/node_actor.h"

namespace skerry {

// What passes between this node and one whose work is checked goes to the checker, too.
void NodeActor::CopyForCheck(Context& context, const NodeId& other, const skerry::Message& message,
                             bool was_sent) {
  auto copy = work_checks_.CopyOf(other, message, was_sent);
  if (copy) Send(context, copy->first, std::move(copy->second));
}

void NodeActor::On(Context& context, const NodeId& from, const WorkCheck& message) {
  const bool is_asked = from == options_.coordinator && config_ &&
                        config_->pipeline.work_checks > 0 && pipeline_ != nullptr &&
                        message.suspect != options_.self;
  if (!is_asked) return void(++refused_);
  work_checks_.Watch(message);
  if (message.checker == options_.self) return;
  SeekStranger(context, message.checker);
}

void NodeActor::On(Context& context, const NodeId& from, const WorkCopy& message) {
  const bool is_taken = work_ && pipeline_ && stage_ > 0 &&
                        IsBoundary(*work_, {message.values, message.codec}) &&
                        work_checks_.Take(from, message);
  if (!is_taken) return void(++refused_);
  auto whole = work_checks_.TakeWhole();
  if (!whole) return;
  auto found = std::make_shared<std::optional<WorkDistance>>();
  const Duration cost = work_->Cost(WorkKind::kForward) + work_->Cost(WorkKind::kBackward);
  // What cannot be computed, for want of memory or as it cannot be decoded, is not checked.
  const JobId job = context.Submit(
      {"check work", cost, [work = work_.get(), found, parts = std::move(whole->parts)] {
         try {
           const auto distance = MeasureWork(*work, parts);
           if (distance.ok()) *found = *distance;
         } catch (const std::bad_alloc&) {
         }
       }});
  work_checks_.jobs[job] = {whole->check, std::move(found)};
}

bool NodeActor::OnWorkJob(Context& context, JobId id) {
  const auto done = work_checks_.jobs.extract(id);
  if (done.empty()) return false;
  const auto& [check, found] = done.mapped();
  if (*found) {
    Send(context, options_.coordinator,
         WorkChecked{check.step, check.microbatch, check.suspect, (*found)->forward,
                     (*found)->backward});
  }
  return true;
}

}  // namespace skerry
