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
      const bool is_on_its_way = IsOwn(visit) && losses_.count(microbatch) == 0;
      return absl::StrFormat(
          "%s of microbatch %d from %s", is_on_its_way ? "last activation" : "gradient", microbatch,
          NodeAt(visit.path, is_on_its_way ? length - 1 : visit.hop + 1).Short());
    }
  }
  return "";
}

}  // namespace skerry
