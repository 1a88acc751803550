// The backward pass that ends a step of a node in a cohort, in parts.

#include <algorithm>
#include <utility>

#include "pipeline/exec/stage_actor.h"

namespace skerry {

// Whether this backward pass is all that the open step still lacks.
bool StageActor::EndsStep(Key key, const Visit& visit) const {
  if (!options_.gives || visit.task != Task::kBackward || visit.counted) return false;
  if (!step_open_ || key.first != step_ || !pending_.contains(key.second)) return false;
  const bool is_last = std::all_of(pending_.begin(), pending_.end(), [&](int32_t microbatch) {
    const auto other = visits_.find({step_, microbatch});
    return microbatch == key.second ||
           (other != visits_.end() && other->second.state == State::kDone);
  });
  return is_last && options_.gives();
}

// The first opens the pass and the last closes it; one that was refused or has failed ends there.
std::function<Job(size_t part)> StageActor::PartsOf(
    Key key, const PassInput& input, DeltaCodec send_as,
    const std::shared_ptr<WorkResult>& result) const {
  StageWork* work = options_.work;
  const size_t count = work->GradientParts().size();
  const Duration cost =
      Duration::Seconds(work->Cost(WorkKind::kBackward).seconds() / static_cast<double>(count));
  auto opened = std::make_shared<WorkResult>();
  return [=, step = key.first, microbatch = key.second](size_t part) -> Job {
    return {"backward", cost, [=] {
              if (part == 0) *opened = OpenPass(*work, input);
              if (opened->is_refused) return void(*result = *opened);
              *result = work->RunBackwardPart(step, microbatch, opened->values, part);
              if (part + 1 == count) *result = ClosePass(*work, *opened, *result, send_as);
            }};
  };
}

// A part is done: what is in it is given away, and the next one begins. False: it was the last, or
// nobody wants the rest.
bool StageActor::RunNextPart(Context& context) {
  if (!running_.parts || !running_.result->status.ok() || running_.result->is_refused) return false;
  const Key key = running_.key;
  if (running_.part == 0) {
    const auto it = visits_.find(key);
    const bool is_wanted = it != visits_.end() && it->second.state == State::kRunning &&
                           it->second.attempt == running_.attempt;
    if (!is_wanted) return false;
    if (EndsStep(key, it->second)) GiveFrom(key);
  }
  if (!running_.given.empty())
    options_.give(context, {step_, running_.part, accumulated_, running_.given});
  if (++running_.part == options_.work->GradientParts().size()) return false;
  running_.job = options_.submit(context, running_.parts(running_.part));
  return true;
}

// From here on all of the step's microbatches count as accumulated.
void StageActor::GiveFrom(Key key) {
  running_.given.assign(pending_.begin(), pending_.end());
  for (const int32_t microbatch : running_.given) {
    counted_.insert({step_, microbatch});
    tokens_ += options_.work->microbatch_tokens();
    ++accumulated_;
    if (microbatch != key.second) visits_.erase({step_, microbatch});
  }
  pending_.clear();
  visits_[key].counted = true;
}

// What is given away ends with its last part.
void StageActor::Discard(Context& context, Key key) const {
  if (IsGivenAway(key)) return;
  StageWork* work = options_.work;
  context.Submit({"discard", Duration(), [work, key] { work->Discard(key.first, key.second); }});
}

}  // namespace skerry
