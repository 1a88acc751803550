#include "pipeline/exec/step_tracer.h"

#include <utility>

namespace skerry {

void StepTracer::Begin(int64_t step, int64_t plan_version, Instant now) {
  trace_.reset();
  if (!IsTraced(step, inner_steps_)) return;
  trace_ = StepTrace{step, plan_version, now.nanos() / 1000, {}};
  began_ = closed_ = now;
}

void StepTracer::Add(int64_t step, const TracedTask& task, Instant ready, Instant start,
                     Instant end) {
  if (!trace_ || trace_->step != step || trace_->tasks.size() >= kTracedTasksMax) return;
  const auto since = [&](Instant at) { return (at - began_).nanos() / 1000; };
  TracedTask& traced = trace_->tasks.emplace_back(task);
  traced.ready_us = since(ready);
  traced.start_us = since(start);
  traced.end_us = since(end);
}

std::optional<StepTrace> StepTracer::End(Instant now) {
  if (!trace_) return std::nullopt;
  Add(trace_->step, {TracedTask::Kind::kOptimizer}, closed_, closed_, now);
  return std::exchange(trace_, std::nullopt);
}

}  // namespace skerry
