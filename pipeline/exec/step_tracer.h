// Notes when the device of one node did what in some steps, for people: one step of each outer
// round, so that all nodes of a pipeline trace the same ones without talking.
//
// A part of the StageActor. Costs nothing in the other steps; in a traced one 48 bytes a task.
#pragma once

#include <cstdint>
#include <optional>

#include "common/instant.h"
#include "wire/message/message.h"

namespace skerry {

class StepTracer {
 public:
  // `inner_steps` as in OuterConfig.
  explicit StepTracer(int64_t inner_steps) : inner_steps_(inner_steps) {}

  void Begin(int64_t step, int64_t plan_version, Instant now);
  // A task of step `step` is over. Times may be before Begin: what came early waited for it.
  void Add(int64_t step, const TracedTask& task, Instant ready, Instant start, Instant end);
  // Every microbatch of the step is accumulated.
  void Close(Instant now) { closed_ = now; }
  // The optimizer's step is done. The trace, of a step that is traced; once.
  std::optional<StepTrace> End(Instant now);

 private:
  int64_t inner_steps_;
  std::optional<StepTrace> trace_;
  Instant began_;
  Instant closed_;
};

}  // namespace skerry
