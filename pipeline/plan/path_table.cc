#include "pipeline/plan/path_table.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "common/check.h"
#include "common/rng.h"

namespace skerry {
namespace {

constexpr int32_t kMixMax = 16;        // paths after which the mix of skip counts repeats, at most
constexpr int32_t kStepsInTable = 4;   // at least so many steps before the table repeats
constexpr double kMeetingsWanted = 4;  // times each pair of replicas should meet, on average

// Skips per path: `whole` for all and one more for `part` of every `of` paths.
struct SkipMix {
  int32_t whole = 0;
  int32_t part = 0;
  int32_t of = 1;
  int32_t At(int64_t path) const {
    return whole + static_cast<int32_t>((path + 1) * part / of - path * part / of);
  }
  int64_t In(int64_t paths) const { return paths * whole + paths * part / of; }
};

SkipMix MixFor(double skips) {
  SkipMix mix;
  mix.whole = static_cast<int32_t>(std::floor(skips + 1e-9));
  const double fraction = std::max(0.0, skips - mix.whole);
  double nearest = 2;
  for (int32_t of = 1; of <= kMixMax; ++of) {
    const auto part = static_cast<int32_t>(std::lround(fraction * of));
    const double error = std::abs(fraction - static_cast<double>(part) / of);
    if (error < nearest - 1e-9) {
      nearest = error;
      mix.part = part;
      mix.of = of;
    }
  }
  return mix;
}

void Shuffle(Rng& rng, std::vector<int32_t>& values) {
  for (size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[rng.Below(i)]);
}

std::vector<int32_t> Shuffled(Rng& rng, int32_t count) {
  std::vector<int32_t> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), 0);
  Shuffle(rng, values);
  return values;
}

class TableBuilder {
 public:
  explicit TableBuilder(const PathTableInput& input)
      : input_(input),
        rng_(input.seed, "paths"),
        skippable_(static_cast<int32_t>(input.replicas.size()) - 1),
        mix_(MixFor(input.skip_ratio * skippable_)),
        skipped_(input.replicas.size()),
        unused_(input.replicas.size()) {
    int32_t slots = 0;
    for (const int32_t count : input.replicas) {
      first_slot_.push_back(slots);
      slots += count;
    }
    meetings_.resize(static_cast<size_t>(slots), std::vector<int32_t>(static_cast<size_t>(slots)));
  }

  std::vector<Path> Build() {
    std::vector<Path> paths;
    const int32_t size = Size();
    for (int32_t i = 0; i < size; ++i) paths.push_back(NextPath(i));
    return paths;
  }

 private:
  // Most visits of a replica over fewest, minus one, if the table had `size` paths.
  double Imbalance(int32_t size) const {
    double worst = 0;
    const auto add = [&](int64_t low, int64_t high) {
      const double ratio = low == 0 ? 1e6 : static_cast<double>(high) / static_cast<double>(low);
      worst = std::max(worst, ratio - 1);
    };
    const int64_t skips = mix_.In(size);
    for (size_t stage = 0; stage < input_.replicas.size(); ++stage) {
      const int32_t count = input_.replicas[stage];
      const int64_t least = stage == 0 ? size : size - (skips + skippable_ - 1) / skippable_;
      const int64_t most = stage == 0 ? size : size - skips / skippable_;
      add(least, most);
      add(least / count, (most + count - 1) / count);
    }
    return worst;
  }

  int32_t WantedSize() const {
    std::vector<int32_t> counts = input_.replicas;
    std::sort(counts.rbegin(), counts.rend());
    const double pairs = counts.size() < 2 ? counts[0] : static_cast<double>(counts[0]) * counts[1];
    const double kept = 1 - input_.skip_ratio;
    const double wanted = std::max<double>(kStepsInTable * input_.microbatches_per_step,
                                           kMeetingsWanted * pairs / (kept * kept));
    return static_cast<int32_t>(std::min<double>(wanted, kPathsMax));
  }

  // The smallest table that is large enough, exact, and a whole number of steps; or else nearly so.
  int32_t Size() const {
    const int32_t first = input_.replicas[0];
    const int32_t wanted = WantedSize();
    const auto best_multiple = [&](int32_t unit, int32_t from, double& imbalance) {
      int32_t best = 0;
      for (int32_t size = unit; size <= kPathsMax; size += unit) {
        if (size < from || Imbalance(size) >= imbalance) continue;
        best = size;
        imbalance = Imbalance(size);
      }
      return best;
    };
    const int32_t mixed = std::lcm(first, mix_.of);
    const int32_t stepwise = std::lcm(mixed, std::min(input_.microbatches_per_step, kPathsMax));
    double imbalance = 1e-9;
    if (const int32_t size = best_multiple(stepwise, wanted, imbalance)) return size;
    if (const int32_t size = best_multiple(mixed, wanted, imbalance)) return size;
    if (const int32_t size = best_multiple(mixed, 1, imbalance)) return size;
    imbalance = std::numeric_limits<double>::infinity();
    if (const int32_t size = best_multiple(first, wanted, imbalance)) return size;
    const int32_t size = best_multiple(first, 1, imbalance);
    return size > 0 ? size : first;
  }

  // The stages skipped least so far, chance among equals: counts never differ by more than one.
  std::set<int32_t> NextSkips(int32_t count) {
    std::vector<int32_t> stages = Shuffled(rng_, skippable_);
    std::stable_sort(stages.begin(), stages.end(), [&](int32_t a, int32_t b) {
      return skipped_[static_cast<size_t>(a + 1)] < skipped_[static_cast<size_t>(b + 1)];
    });
    std::set<int32_t> skips;
    for (int32_t i = 0; i < count; ++i) {
      const int32_t stage = stages[static_cast<size_t>(i)] + 1;
      ++skipped_[static_cast<size_t>(stage)];
      skips.insert(stage);
    }
    return skips;
  }

  // When a step's microbatches do not divide over the origins, strict turns keep any window even.
  int32_t NextOrigin(int32_t index) {
    const int32_t count = input_.replicas[0];
    if (input_.microbatches_per_step % count != 0) return index % count;
    if (index % count == 0) unused_[0] = Shuffled(rng_, count);
    return unused_[0][static_cast<size_t>(index % count)];
  }

  // Of the replicas that have not had their turn, the one that has met the path's others least.
  int32_t NextReplica(int32_t stage, const Path& path) {
    std::vector<int32_t>& unused = unused_[static_cast<size_t>(stage)];
    if (unused.empty()) unused = Shuffled(rng_, input_.replicas[static_cast<size_t>(stage)]);
    const auto met = [&](int32_t replica) {
      int32_t total = 0;
      for (const Slot& slot : path) total += Meetings(slot, {stage, replica});
      return total;
    };
    const auto least = std::min_element(unused.begin(), unused.end(),
                                        [&](int32_t a, int32_t b) { return met(a) < met(b); });
    const int32_t replica = *least;
    unused.erase(least);
    return replica;
  }

  Path NextPath(int32_t index) {
    const std::set<int32_t> skips = NextSkips(std::min(mix_.At(index), skippable_));
    Path path = {{0, NextOrigin(index)}};
    for (int32_t stage = 1; stage <= skippable_; ++stage) {
      if (skips.contains(stage)) continue;
      const Slot next{stage, NextReplica(stage, path)};
      for (const Slot& slot : path) ++Meetings(slot, next);
      path.push_back(next);
    }
    Swap(path);
    return path;
  }

  void Swap(Path& path) {
    if (input_.swaps == 0) return;
    auto left = static_cast<int32_t>(rng_.Below(static_cast<uint64_t>(input_.swaps) + 1));
    std::vector<bool> moved(path.size());
    for (const int32_t at : Shuffled(rng_, static_cast<int32_t>(path.size()))) {
      const auto i = static_cast<size_t>(at);
      if (left == 0) return;
      if (i == 0 || i + 1 >= path.size() || moved[i] || moved[i + 1]) continue;
      std::swap(path[i], path[i + 1]);
      moved[i] = moved[i + 1] = true;
      --left;
    }
  }

  int32_t& Meetings(const Slot& a, const Slot& b) {
    const auto index = [&](const Slot& slot) {
      return static_cast<size_t>(first_slot_[static_cast<size_t>(slot.stage)] + slot.replica);
    };
    return meetings_[index(a)][index(b)];
  }

  const PathTableInput& input_;
  Rng rng_;
  int32_t skippable_;
  SkipMix mix_;
  std::vector<int32_t> skipped_;                // per stage, so far
  std::vector<std::vector<int32_t>> unused_;    // per stage: replicas whose turn is still to come
  std::vector<int32_t> first_slot_;             // per stage
  std::vector<std::vector<int32_t>> meetings_;  // [slots, slots] earlier stage first
};

}  // namespace

std::vector<Path> MakePathTable(const PathTableInput& input) {
  SKERRY_CHECK(!input.replicas.empty() && input.microbatches_per_step >= 1 && input.swaps >= 0);
  SKERRY_CHECK(input.skip_ratio >= 0 && input.skip_ratio <= 0.5);
  for (const int32_t count : input.replicas) SKERRY_CHECK(count >= 1);
  return TableBuilder(input).Build();
}

}  // namespace skerry
