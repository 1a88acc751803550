#include "pipeline/plan/validate_loads.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "common/status.h"
#include "pipeline/plan/path_table.h"
#include "pipeline/plan/validate.h"

namespace skerry {
namespace {

bool IsBalanced(const std::vector<int64_t>& counts) {
  const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
  if (*least == 0) return false;
  const double ratio = static_cast<double>(*most) / static_cast<double>(*least);
  return ratio <= kParticipationRatioMax || *most - *least <= 1;
}

absl::Status CheckBalance(const PipelinePlan& plan, const RunConfig& config) {
  std::vector<std::vector<int64_t>> visits;
  for (const StageAssignment& stage : plan.stages) visits.emplace_back(stage.replicas.size());
  int64_t skipped = 0;
  for (const Path& path : plan.paths) {
    skipped += static_cast<int64_t>(plan.stages.size() - path.size());
    for (const Slot& slot : path) {
      ++visits[static_cast<size_t>(slot.stage)][static_cast<size_t>(slot.replica)];
    }
  }
  std::vector<int64_t> participation;
  for (size_t s = 0; s < visits.size(); ++s) {
    if (!IsBalanced(visits[s])) {
      return InvalidArgument("the replicas of stage %d carry unequal loads", s);
    }
    int64_t total = 0;
    for (const int64_t count : visits[s]) total += count;
    if (s > 0) participation.push_back(total);
  }
  if (participation.empty()) return absl::OkStatus();
  if (!IsBalanced(participation)) {
    return InvalidArgument("stages after stage 0 do not take part equally often");
  }
  const double wanted = config.pipeline.skip_ratio * static_cast<double>(plan.stages.size() - 1);
  const double average = static_cast<double>(skipped) / static_cast<double>(plan.paths.size());
  // A table that cannot hold whole cycles of its mix is off by one skip at most.
  const double slack = 1.0 / 32 + 1.0 / static_cast<double>(plan.paths.size());
  if (std::abs(average - wanted) > slack) {
    return InvalidArgument("paths skip %.3f stages on average, want %.3f", average, wanted);
  }
  return absl::OkStatus();
}

// Visits of the first so many paths of the table, by slot.
class Prefixes {
 public:
  explicit Prefixes(const PipelinePlan& plan) {
    for (const StageAssignment& stage : plan.stages) {
      first_slot_.push_back(slots_);
      slots_ += stage.replicas.size();
    }
    first_slot_.push_back(slots_);
    size_ = static_cast<int64_t>(plan.paths.size());
    counts_.resize((plan.paths.size() + 1) * slots_);
    for (size_t i = 0; i < plan.paths.size(); ++i) {
      std::copy_n(counts_.begin() + At(i), slots_, counts_.begin() + At(i + 1));
      for (const Slot& slot : plan.paths[i]) {
        ++counts_[(i + 1) * slots_ + first_slot_[static_cast<size_t>(slot.stage)] +
                  static_cast<size_t>(slot.replica)];
      }
    }
  }

  // Visits of each replica of a stage by `paths` paths, beginning with this one.
  std::vector<int64_t> Visits(size_t stage, int64_t first, int64_t paths) const {
    std::vector<int64_t> visits;
    const int64_t end = first + paths % size_;
    for (size_t slot = first_slot_[stage]; slot < first_slot_[stage + 1]; ++slot) {
      int64_t count = paths / size_ * Upto(slot, size_) - Upto(slot, first);
      count += end <= size_ ? Upto(slot, end) : Upto(slot, size_) + Upto(slot, end - size_);
      visits.push_back(count);
    }
    return visits;
  }

 private:
  std::ptrdiff_t At(size_t paths) const { return static_cast<std::ptrdiff_t>(paths * slots_); }
  int64_t Upto(size_t slot, int64_t paths) const {
    return counts_[static_cast<size_t>(paths) * slots_ + slot];
  }

  int64_t size_ = 0;  // of the table
  size_t slots_ = 0;
  std::vector<size_t> first_slot_;  // [stages + 1]
  std::vector<int32_t> counts_;     // [size + 1, slots]
};

// Takes note of one group of counts that should be equal.
void Note(const std::vector<int64_t>& counts, double& ratio, int64_t& apart) {
  if (counts.empty()) return;
  const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
  ratio = std::max(ratio,
                   static_cast<double>(*most) / static_cast<double>(std::max<int64_t>(1, *least)));
  apart = std::max(apart, *most - *least);
}

bool IsEven(double ratio, int64_t apart, int64_t apart_max) {
  return ratio <= kParticipationRatioMax || apart <= apart_max;
}

// How far apart whole visits may be: one each time that a table comes round which is too long to be
// made longer, with parts of it at both ends.
int64_t ApartMax(const PipelinePlan& plan) {
  size_t slots = 0;
  for (const StageAssignment& stage : plan.stages) slots += stage.replicas.size();
  const int64_t paths = kParticipationSteps * plan.microbatches_per_step;
  const auto size = static_cast<int64_t>(plan.paths.size());
  return kUnevenVisitsMax + (2 * size > PathsMax(slots) ? kUnevenVisitsMax + paths / size : 0);
}

}  // namespace

Unevenness WorstParticipation(const PipelinePlan& plan) {
  const Prefixes prefixes(plan);
  const auto size = static_cast<int64_t>(plan.paths.size());
  const int64_t per_step = plan.microbatches_per_step;
  Unevenness worst;
  for (int64_t step = 0; step < size / std::gcd(size, per_step); ++step) {
    std::vector<int64_t> later;
    for (size_t stage = 0; stage < plan.stages.size(); ++stage) {
      const std::vector<int64_t> visits =
          prefixes.Visits(stage, step * per_step % size, kParticipationSteps * per_step);
      Note(visits, worst.replicas, worst.replicas_apart);
      if (stage > 0) later.push_back(std::accumulate(visits.begin(), visits.end(), int64_t{0}));
    }
    Note(later, worst.stages, worst.stages_apart);
  }
  return worst;
}

absl::Status CheckLoads(const PipelinePlan& plan, const RunConfig& config) {
  SKERRY_RETURN_IF_ERROR(CheckBalance(plan, config));
  const Unevenness worst = WorstParticipation(plan);
  if (!IsEven(worst.stages, worst.stages_apart, kUnevenVisitsMax)) {
    return InvalidArgument(
        "over some %d steps a stage takes part %.3f times as often as another, want at most %.2f",
        kParticipationSteps, worst.stages, kParticipationRatioMax);
  }
  if (!IsEven(worst.replicas, worst.replicas_apart, ApartMax(plan))) {
    return InvalidArgument(
        "over some %d steps a replica carries %.3f times the load of another, want at most %.2f",
        kParticipationSteps, worst.replicas, kParticipationRatioMax);
  }
  return absl::OkStatus();
}

}  // namespace skerry
