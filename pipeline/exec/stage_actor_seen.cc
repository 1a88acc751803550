// What people see of a stage: when its device did what, and what it waits for.
#include "common/status.h"
#include "pipeline/exec/stage_actor.h"

namespace skerry {

void StageActor::Trace(const Context& context, const Running& done, const Visit& visit) {
  constexpr TracedTask::Kind kKinds[] = {TracedTask::Kind::kBackward, TracedTask::Kind::kLoss,
                                         TracedTask::Kind::kForward, TracedTask::Kind::kStart};
  tracer_.Add(done.key.first,
              {kKinds[static_cast<int>(done.task)], done.key.second, done.attempt, visit.hop},
              done.ready, done.start, context.now());
}

// What came and what is sent on, of one visit. Alone on its path a node has no neighbours.
void StageActor::NoteSizes(const Running& done, const Visit& visit) {
  const auto length = static_cast<int32_t>(visit.path.size());
  if (!options_.sizes || length < 2) return;
  const int64_t step = done.key.first;
  const auto before = [&] {
    return NodeAt(visit.path, visit.hop > 0 ? visit.hop - 1 : length - 1);
  };
  const bool is_back = done.task == Task::kBackward;
  if (done.result->log2_came && done.task != Task::kStart) {
    tally_.Note(step, is_back ? NodeAt(visit.path, visit.hop + 1) : before(), is_back, false,
                *done.result->log2_came);
  }
  if (!done.result->log2_made || done.result->is_refused) return;
  if (done.task == Task::kStart || done.task == Task::kForward) {
    tally_.Note(step, NodeAt(visit.path, visit.hop + 1), false, true, *done.result->log2_made);
  } else if (!is_back || visit.hop > 0) {
    tally_.Note(step, before(), true, true, *done.result->log2_made);
  }
}

void StageActor::TellSizes(Context& context, int64_t step) {
  for (BoundarySizes& sizes : tally_.TakeBefore(step)) options_.sizes(context, std::move(sizes));
}

std::optional<StageActor::Awaited> StageActor::Awaits() const {
  if (running_.job != 0 || !step_open_) return std::nullopt;
  for (const int32_t microbatch : pending_) {
    const auto it = visits_.find({step_, microbatch});
    if (it == visits_.end() || it->second.path.empty()) continue;
    const Visit& visit = it->second;
    if (visit.state == State::kExpected && visit.hop > 0)
      return Awaited{"activation", microbatch, NodeAt(visit.path, visit.hop - 1)};
    if (visit.state != State::kAway) continue;
    if (IsOwn(visit) && losses_.count(microbatch) == 0) {
      const auto last = static_cast<int32_t>(visit.path.size()) - 1;
      return Awaited{"last activation", microbatch, NodeAt(visit.path, last)};
    }
    return Awaited{"gradient", microbatch, NodeAt(visit.path, visit.hop + 1)};
  }
  return std::nullopt;
}

std::string StageActor::WaitingFor() const {
  const std::optional<Awaited> awaited = Awaits();
  if (!awaited) return "";
  return absl::StrFormat("%s of microbatch %d from %s", awaited->what, awaited->microbatch,
                         awaited->from.Short());
}

}  // namespace skerry
