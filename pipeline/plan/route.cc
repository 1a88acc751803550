#include "pipeline/plan/route.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "common/check.h"
#include "pipeline/plan/cohorts.h"

namespace skerry {
namespace {

const StageAssignment& StageOf(const PipelinePlan& plan, int32_t stage) {
  SKERRY_CHECK(stage >= 0 && static_cast<size_t>(stage) < plan.stages.size());
  return plan.stages[static_cast<size_t>(stage)];
}

// The replicas of a slot's stage in the order in which they are asked to fill it on path `index`:
// its own, then those after it, counted cyclically. Or, where the plan spreads, the others in the
// order of the permutation of that number (its digits in the factorial number system, lowest
// first): of successive paths each of the others is asked first equally often, and so on.
class Asking {
 public:
  Asking(const PipelinePlan& plan, const Slot& slot, size_t index)
      : count_(StageOf(plan, slot.stage).replicas.size()),
        own_(static_cast<size_t>(slot.replica)),
        spreads_(plan.settings.spreads),
        index_(index),
        digits_(index) {}

  // The next; nullopt: all have been asked.
  std::optional<int32_t> Next() {
    if (asked_ == count_) return std::nullopt;
    const size_t after = asked_ == 0 || !spreads_ ? asked_ : Spread();
    ++asked_;
    return static_cast<int32_t>((own_ + after) % count_);
  }

 private:
  size_t Spread() {
    if (asked_ == 1) {
      others_.resize(count_ - 1);
      std::iota(others_.begin(), others_.end(), 1);
    }
    const size_t left = others_.size();
    const auto next = others_.begin() + static_cast<std::ptrdiff_t>(digits_ % left);
    digits_ /= left;
    if (digits_ + 1 < left) digits_ += index_;  // few paths have digits for many replicas
    const size_t after = *next;
    others_.erase(next);
    return after;
  }

  size_t count_, own_;
  bool spreads_;
  size_t index_, digits_;
  size_t asked_ = 0;
  std::vector<size_t> others_;  // by how far they are after the own
};

// The replica that fills a slot of path `index`: its own when it works. nullopt: none does.
std::optional<int32_t> StandIn(const PipelinePlan& plan, const Slot& slot, size_t index,
                               int64_t step) {
  const auto& replicas = StageOf(plan, slot.stage).replicas;
  Asking asking(plan, slot, index);
  while (const auto replica = asking.Next()) {
    if (WorksAt(plan, replicas[static_cast<size_t>(*replica)], step)) return replica;
  }
  return std::nullopt;
}

// In plan.paths.
size_t IndexOf(const PipelinePlan& plan, int64_t step, int32_t microbatch) {
  SKERRY_CHECK(!plan.paths.empty() && step >= 0);
  SKERRY_CHECK(microbatch >= 0 && microbatch < plan.microbatches_per_step);
  const int64_t index = step * plan.microbatches_per_step + microbatch;
  return static_cast<size_t>(index % static_cast<int64_t>(plan.paths.size()));
}

// Where `slot` is on the patched form of a path, −1 if it is not.
int32_t HopOf(const PipelinePlan& plan, size_t index, const Slot& slot, int64_t step) {
  const Path& path = plan.paths[index];
  // Most paths visit another replica: told without patching what comes before.
  const auto visits_stage = [&](const Slot& visit) { return visit.stage == slot.stage; };
  const auto own = std::find_if(path.begin(), path.end(), visits_stage);
  if (own == path.end() || StandIn(plan, *own, index, step) != slot.replica) return -1;
  int32_t hop = 0;
  for (const Slot& visit : path) {
    const auto replica = StandIn(plan, visit, index, step);
    if (!replica) {
      if (visit.stage == 0) return -1;
      continue;
    }
    if (visit.stage == slot.stage) return *replica == slot.replica ? hop : -1;
    ++hop;
  }
  return -1;
}

}  // namespace

bool IsDead(const PipelinePlan& plan, const NodeId& node) {
  return std::binary_search(plan.dead.begin(), plan.dead.end(), node);
}

const Joiner* JoinerOf(const PipelinePlan& plan, const NodeId& node) {
  const auto it = std::lower_bound(plan.joining.begin(), plan.joining.end(), node,
                                   [](const Joiner& j, const NodeId& n) { return j.node < n; });
  return it != plan.joining.end() && it->node == node ? &*it : nullptr;
}

bool WorksAt(const PipelinePlan& plan, const NodeId& node, int64_t step) {
  if (IsDead(plan, node)) return false;
  const Joiner* joiner = JoinerOf(plan, node);
  return joiner == nullptr || (joiner->IsFixed() && step >= joiner->from_step);
}

const NodeId& NodeOf(const PipelinePlan& plan, const Slot& slot) {
  const auto& replicas = StageOf(plan, slot.stage).replicas;
  SKERRY_CHECK(slot.replica >= 0 && static_cast<size_t>(slot.replica) < replicas.size());
  return replicas[static_cast<size_t>(slot.replica)];
}

std::optional<Slot> SlotOf(const PipelinePlan& plan, const NodeId& node) {
  for (size_t stage = 0; stage < plan.stages.size(); ++stage) {
    const auto& replicas = plan.stages[stage].replicas;
    const auto it = std::find(replicas.begin(), replicas.end(), node);
    if (it != replicas.end()) {
      return Slot{static_cast<int32_t>(stage), static_cast<int32_t>(it - replicas.begin())};
    }
  }
  return std::nullopt;
}

std::vector<NodeId> Holders(const PipelinePlan& plan, int32_t stage) {
  std::vector<NodeId> holders;
  for (const NodeId& node : StageOf(plan, stage).replicas) {
    if (!IsDead(plan, node)) holders.push_back(node);
  }
  return holders;
}

std::vector<NodeId> LiveReplicas(const PipelinePlan& plan, int32_t stage) {
  std::vector<NodeId> live = Holders(plan, stage);
  std::erase_if(live, [&](const NodeId& node) {
    const Joiner* joiner = JoinerOf(plan, node);
    return joiner != nullptr && !joiner->IsFixed();
  });
  return live;
}

std::vector<NodeId> ParticipantsOf(const PipelinePlan& plan, int32_t stage, int64_t round) {
  std::vector<NodeId> participants = SpeakersAmong(plan, stage, LiveReplicas(plan, stage));
  std::erase_if(participants, [&](const NodeId& node) {
    const Joiner* joiner = JoinerOf(plan, node);
    if (joiner != nullptr && joiner->from_round > round) return true;
    return IsAbsent(plan, stage, round, node);
  });
  return participants;
}

bool IsAbsent(const PipelinePlan& plan, int32_t stage, int64_t round, const NodeId& node) {
  return !plan.absent.empty() &&
         std::binary_search(plan.absent.begin(), plan.absent.end(), Absence{stage, round, node});
}

int32_t RoundsCovered(const PipelinePlan& plan, int32_t stage, int64_t round, const NodeId& node,
                      int64_t fragments) {
  const Joiner* joiner = JoinerOf(plan, node);
  const int64_t first = joiner == nullptr ? 0 : std::max<int64_t>(0, joiner->from_round);
  int32_t covered = 1;
  for (int64_t before = round - fragments; before >= first && IsAbsent(plan, stage, before, node);
       before -= fragments) {
    ++covered;
  }
  return covered;
}

Path PatchedPath(const PipelinePlan& plan, size_t index, int64_t step) {
  const Path& path = plan.paths[index];
  Path patched;
  patched.reserve(path.size());
  for (const Slot& visit : path) {
    const auto replica = StandIn(plan, visit, index, step);
    if (replica) {
      patched.push_back({visit.stage, *replica});
    } else if (visit.stage == 0) {
      return {};
    }
  }
  return patched;
}

Path PathOf(const PipelinePlan& plan, int64_t step, int32_t microbatch) {
  return PatchedPath(plan, IndexOf(plan, step, microbatch), step);
}

LedPath PathAround(const PipelinePlan& plan, int64_t step, int32_t microbatch, bool may_leave_out,
                   const std::function<Shun(const NodeId&)>& shun) {
  LedPath led;
  const size_t index = IndexOf(plan, step, microbatch);
  for (const Slot& visit : plan.paths[index]) {
    const auto& replicas = StageOf(plan, visit.stage).replicas;
    Asking asking(plan, visit, index);
    std::optional<int32_t> replica, taken, second_best;
    std::vector<int32_t> shunned;  // in the order of asking
    while (!taken && (replica = asking.Next())) {
      const NodeId& node = replicas[static_cast<size_t>(*replica)];
      if (!WorksAt(plan, node, step)) continue;
      const Shun how = visit.stage == 0 ? Shun::kNo : shun(node);
      if (how == Shun::kNo) taken = replica;
      if (how != Shun::kNo) shunned.push_back(*replica);
      if (how == Shun::kRather && !may_leave_out && !second_best) second_best = replica;
    }
    if (!taken && visit.stage == 0) return {};
    if (!taken) taken = second_best;
    for (const int32_t late : shunned) {
      if (taken == late) break;
      led.passed.push_back(replicas[static_cast<size_t>(late)]);
    }
    if (taken) led.path.push_back({visit.stage, *taken});
  }
  return led;
}

std::optional<Slot> HomeOf(const PipelinePlan& plan, int64_t step, int32_t microbatch) {
  const size_t index = IndexOf(plan, step, microbatch);
  const Path& path = plan.paths[index];
  if (path.empty()) return std::nullopt;
  const auto replica = StandIn(plan, path.front(), index, step);
  if (!replica) return std::nullopt;
  return Slot{path.front().stage, *replica};
}

std::vector<PlannedVisit> VisitsOf(const PipelinePlan& plan, int64_t step, const NodeId& node) {
  const auto slot = SlotOf(plan, node);
  if (!slot || !WorksAt(plan, node, step)) return {};
  std::vector<PlannedVisit> visits;
  for (int32_t microbatch = 0; microbatch < plan.microbatches_per_step; ++microbatch) {
    const int32_t hop = HopOf(plan, IndexOf(plan, step, microbatch), *slot, step);
    if (hop >= 0) visits.push_back({microbatch, hop});
  }
  return visits;
}

}  // namespace skerry
