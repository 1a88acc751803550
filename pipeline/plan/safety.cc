#include "pipeline/plan/safety.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>

#include "common/check.h"
#include "common/status.h"
#include "pipeline/plan/route.h"

namespace skerry {
namespace {

constexpr int64_t kAfterAllJoined = std::numeric_limits<int64_t>::max();

// The steps of a plan as paths over numbered slots; they repeat after `steps`.
struct Steps {
  explicit Steps(const PipelinePlan& plan) {
    for (const StageAssignment& stage : plan.stages) {
      first_slot.push_back(slots);
      slots += static_cast<int32_t>(stage.replicas.size());
    }
    origins = static_cast<int32_t>(plan.stages.front().replicas.size());
    for (size_t index = 0; index < plan.paths.size(); ++index) {
      std::vector<int32_t>& way = table.emplace_back();
      for (const Slot& slot : PatchedPath(plan, index, kAfterAllJoined)) {
        way.push_back(first_slot[static_cast<size_t>(slot.stage)] + slot.replica);
      }
    }
    per_step = plan.microbatches_per_step;
    const auto size = static_cast<int64_t>(table.size());
    steps = size / std::gcd(size, int64_t{per_step});
  }
  const std::vector<int32_t>& Way(int64_t step, int32_t microbatch) const {
    return table[static_cast<size_t>((step * per_step + microbatch) %
                                     static_cast<int64_t>(table.size()))];
  }

  std::vector<int32_t> first_slot;          // [stage]
  std::vector<std::vector<int32_t>> table;  // [paths] empty: no origin is left
  int32_t slots = 0;
  int32_t origins = 0;
  int32_t per_step = 0;
  int64_t steps = 0;
};

// Microbatches by slot and origin, of which a window of each origin is under way at a time.
class Tally {
 public:
  Tally(const Steps& steps, int32_t in_flight)
      : origins_(static_cast<size_t>(steps.origins)),
        in_flight_(in_flight),
        counts_(static_cast<size_t>(steps.slots) * origins_) {}
  void Clear() { std::fill(counts_.begin(), counts_.end(), 0); }
  void Add(int32_t slot, int32_t origin) {
    ++counts_[static_cast<size_t>(slot) * origins_ + static_cast<size_t>(origin)];
  }
  int32_t AtOnce(int32_t slot) const {
    int32_t sum = 0;
    for (size_t origin = 0; origin < origins_; ++origin) {
      sum += std::min(in_flight_, counts_[static_cast<size_t>(slot) * origins_ + origin]);
    }
    return sum;
  }

 private:
  size_t origins_;
  int32_t in_flight_;
  std::vector<int32_t> counts_;  // [slots, origins]
};

std::vector<int32_t> AtOnceIn(const Steps& steps, int64_t step, Tally& tally) {
  tally.Clear();
  for (int32_t m = 0; m < steps.per_step; ++m) {
    const std::vector<int32_t>& way = steps.Way(step, m);
    for (const int32_t slot : way) tally.Add(slot, way.front());
  }
  std::vector<int32_t> at_once;
  for (int32_t slot = 0; slot < steps.slots; ++slot) at_once.push_back(tally.AtOnce(slot));
  return at_once;
}

// One round of the reduction: marks what is safe now. False: nothing was.
bool Reduce(const Steps& steps, int64_t step, const std::vector<int32_t>& places, Tally& tally,
            std::vector<bool>& unsafe) {
  tally.Clear();
  for (int32_t m = 0; m < steps.per_step; ++m) {
    const std::vector<int32_t>& way = steps.Way(step, m);
    bool needs_more = false;
    for (auto slot = way.rbegin(); slot != way.rend(); ++slot) {
      if (!unsafe[static_cast<size_t>(*slot)]) continue;
      if (needs_more) tally.Add(*slot, way.front());
      needs_more = true;
    }
  }
  bool any = false;
  for (size_t slot = 0; slot < unsafe.size(); ++slot) {
    if (!unsafe[slot] || tally.AtOnce(static_cast<int32_t>(slot)) >= places[slot]) continue;
    unsafe[slot] = false;
    any = true;
  }
  return any;
}

std::string Named(const Steps& steps, const std::vector<bool>& unsafe) {
  std::string text;
  for (size_t stage = 0; stage < steps.first_slot.size(); ++stage) {
    const auto first = static_cast<size_t>(steps.first_slot[stage]);
    const size_t end = stage + 1 < steps.first_slot.size()
                           ? static_cast<size_t>(steps.first_slot[stage + 1])
                           : unsafe.size();
    for (size_t slot = first; slot < end; ++slot) {
      if (!unsafe[slot]) continue;
      text += absl::StrFormat("%s%d/%d", text.empty() ? "" : ", ", stage, slot - first);
    }
  }
  return text;
}

}  // namespace

SlotCounts HeldAtMost(const PipelinePlan& plan, int32_t in_flight) {
  const Steps steps(plan);
  Tally tally(steps, in_flight);
  std::vector<int32_t> most(static_cast<size_t>(steps.slots));
  for (int64_t step = 0; step < steps.steps; ++step) {
    const std::vector<int32_t> at_once = AtOnceIn(steps, step, tally);
    for (size_t slot = 0; slot < most.size(); ++slot) {
      most[slot] = std::max(most[slot], at_once[slot]);
    }
  }
  SlotCounts counts;
  auto next = most.begin();
  for (const StageAssignment& stage : plan.stages) {
    const auto end = next + static_cast<std::ptrdiff_t>(stage.replicas.size());
    counts.emplace_back(next, end);
    next = end;
  }
  return counts;
}

absl::Status CheckNoDeadlock(const PipelinePlan& plan, int32_t in_flight,
                             const SlotCounts& places) {
  const Steps steps(plan);
  std::vector<int32_t> flat;
  for (const auto& stage : places) flat.insert(flat.end(), stage.begin(), stage.end());
  SKERRY_CHECK(flat.size() == static_cast<size_t>(steps.slots));
  Tally tally(steps, in_flight);
  for (int64_t step = 0; step < steps.steps; ++step) {
    const std::vector<int32_t> at_once = AtOnceIn(steps, step, tally);
    std::vector<bool> unsafe(flat.size());
    for (size_t slot = 0; slot < flat.size(); ++slot) unsafe[slot] = at_once[slot] > flat[slot];
    while (Reduce(steps, step, flat, tally, unsafe)) continue;
    if (std::find(unsafe.begin(), unsafe.end(), true) == unsafe.end()) continue;
    return FailedPrecondition(
        "in step %d of the table slots %s may hold each other up: they have too few places for "
        "microbatches that visit them in different orders",
        step, Named(steps, unsafe));
  }
  return absl::OkStatus();
}

}  // namespace skerry
