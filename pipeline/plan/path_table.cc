#include "pipeline/plan/path_table.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include "common/check.h"
#include "common/rng.h"

namespace skerry {
namespace {

constexpr int32_t kMixMax = 16;       // paths after which the mix of skip counts repeats, at most
constexpr int32_t kStepsInTable = 4;  // at least so many steps before the table repeats
constexpr double kGolden = 0.6180339887498949;  // spreads any number of points evenly
constexpr double kUnevenMax = 1.02;

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

// Which stages a path leaves out is evened out over each origin's paths first, so that a column's
// replicas carry its load; or over all paths first, where the table is too small for both.
enum class Evenness { kPerOrigin, kOverall };

class TableBuilder {
 public:
  TableBuilder(const PathTableInput& input, Evenness evenness)
      : input_(input),
        evenness_(evenness),
        paths_max_(PathsMax(
            static_cast<size_t>(std::accumulate(input.replicas.begin(), input.replicas.end(), 0)))),
        rng_(input.seed, "paths"),
        skippable_(static_cast<int32_t>(input.replicas.size()) - 1),
        mix_(MixFor(input.skip_ratio * skippable_)),
        skipped_(input.replicas.size()),
        skipped_of_(static_cast<size_t>(input.replicas[0]),
                    std::vector<int32_t>(input.replicas.size())) {}

  std::vector<Path> Build() {
    const int32_t size = Size();
    for (int32_t i = 0; i < size; ++i) drafts_.push_back(NextDraft(i));
    std::vector<Path> paths(drafts_.size());
    for (size_t i = 0; i < paths.size(); ++i) paths[i] = {{0, drafts_[i].origin}};
    for (int32_t stage = 1; stage <= skippable_; ++stage) Deal(stage, paths);
    paths = InTurn(std::move(paths));
    for (Path& path : paths) Swap(path);
    return paths;
  }

 private:
  // A path before its replicas are known.
  struct Draft {
    int32_t origin = 0;
    double place = 0;  // in [0, 1): what share of every stage's replicas comes before its own
    std::set<int32_t> skips;
  };

  // Most visits of a replica over fewest, minus one, if the table had `size` paths.
  double Imbalance(int32_t size) const {
    double worst = 0;
    const auto add = [&](int64_t low, int64_t high) {
      const double ratio = low == 0 ? 1e6 : static_cast<double>(high) / static_cast<double>(low);
      worst = std::max(worst, ratio - 1);
    };
    const int32_t origins = input_.replicas[0];
    const int64_t skips = origins * mix_.In(size / origins);  // the mix goes by origins' turns
    for (size_t stage = 0; stage < input_.replicas.size(); ++stage) {
      const int32_t count = input_.replicas[stage];
      const int64_t least = stage == 0 ? size : size - (skips + skippable_ - 1) / skippable_;
      const int64_t most = stage == 0 ? size : size - skips / skippable_;
      add(least, most);
      add(least / count, (most + count - 1) / count);
    }
    return worst;
  }

  // The smallest table that is large enough, exact, and a whole number of steps; best if every
  // origin's part of it is exact, too; or else nearly so.
  int32_t Size() const {
    const int32_t first = input_.replicas[0];
    const int32_t wanted = std::min(kStepsInTable * input_.microbatches_per_step, paths_max_);
    const auto best_multiple = [&](int32_t unit, int32_t from, double& imbalance) {
      int32_t best = 0;
      for (int32_t size = unit; size <= paths_max_; size += unit) {
        if (size < from || Imbalance(size) >= imbalance) continue;
        best = size;
        imbalance = Imbalance(size);
      }
      return best;
    };
    const int32_t mixed = std::lcm(first, mix_.of);
    const int32_t stepwise = std::lcm(mixed, std::min(input_.microbatches_per_step, paths_max_));
    const int64_t each = std::lcm<int64_t>(int64_t{first} * mix_.of * std::max(1, skippable_),
                                           input_.microbatches_per_step);
    double imbalance = 1e-9;
    if (each <= paths_max_) {
      const int32_t size = best_multiple(static_cast<int32_t>(each), wanted, imbalance);
      if (size > 0) return size;
    }
    const int64_t turns = int64_t{first} * mix_.of;  // whole turns of the mix for every origin
    for (const int64_t unit : {std::lcm(turns, int64_t{input_.microbatches_per_step}), turns}) {
      if (unit > paths_max_) continue;
      const int32_t size = best_multiple(static_cast<int32_t>(unit), wanted, imbalance);
      if (size > 0) return size;
    }
    if (const int32_t size = best_multiple(stepwise, wanted, imbalance)) return size;
    if (const int32_t size = best_multiple(mixed, wanted, imbalance)) return size;
    if (const int32_t size = best_multiple(mixed, 1, imbalance)) return size;
    imbalance = std::numeric_limits<double>::infinity();
    if (const int32_t size = best_multiple(first, wanted, imbalance)) return size;
    const int32_t size = best_multiple(first, 1, imbalance);
    return size > 0 ? size : first;
  }

  // The stages skipped least so far, chance among equals.
  std::set<int32_t> NextSkips(int32_t origin, int32_t count) {
    std::vector<int32_t>& own = skipped_of_[static_cast<size_t>(origin)];
    const bool own_first = evenness_ == Evenness::kPerOrigin;
    const auto key = [&](int32_t stage) {
      const auto s = static_cast<size_t>(stage + 1);
      return own_first ? std::pair(own[s], skipped_[s]) : std::pair(skipped_[s], own[s]);
    };
    std::vector<int32_t> stages = Shuffled(rng_, skippable_);
    std::stable_sort(stages.begin(), stages.end(),
                     [&](int32_t a, int32_t b) { return key(a) < key(b); });
    std::set<int32_t> skips;
    for (int32_t i = 0; i < count; ++i) {
      const int32_t stage = stages[static_cast<size_t>(i)] + 1;
      ++skipped_[static_cast<size_t>(stage)];
      ++own[static_cast<size_t>(stage)];
      skips.insert(stage);
    }
    return skips;
  }

  // When a step's microbatches do not divide over the origins, strict turns keep any window even.
  int32_t NextOrigin(int32_t index) {
    const int32_t count = input_.replicas[0];
    if (input_.microbatches_per_step % count != 0) return index % count;
    if (index % count == 0) unused_ = Shuffled(rng_, count);
    return unused_[static_cast<size_t>(index % count)];
  }

  Draft NextDraft(int32_t index) {
    const int32_t origins = input_.replicas[0];
    Draft draft;
    draft.origin = NextOrigin(index);
    const int32_t turn = index / origins;
    draft.skips = NextSkips(draft.origin, std::min(mix_.At(turn), skippable_));
    const double within = std::fmod(0.5 + kGolden * turn, 1.0);
    draft.place = (draft.origin + within) / origins;
    return draft;
  }

  // The visits of a stage, by place, in equal parts to its replicas.
  void Deal(int32_t stage, std::vector<Path>& paths) {
    std::vector<size_t> visits;
    for (size_t i = 0; i < drafts_.size(); ++i) {
      if (!drafts_[i].skips.contains(stage)) visits.push_back(i);
    }
    std::stable_sort(visits.begin(), visits.end(),
                     [&](size_t a, size_t b) { return drafts_[a].place < drafts_[b].place; });
    const auto replicas = static_cast<size_t>(input_.replicas[static_cast<size_t>(stage)]);
    for (size_t i = 0; i < visits.size(); ++i) {
      const auto replica = static_cast<int32_t>(i * replicas / visits.size());
      paths[visits[i]].push_back({stage, replica});
    }
  }

  // Visits that a slot, or a stage, is ahead of its even share, times the size of the table.
  struct Ahead {
    int64_t total = 0;
    int64_t by = 0;
  };

  // The same paths in another order, the origins' turns as before: in every turn the one that
  // leaves slots and stages nearest to their even shares (the goal chasing of Monden's Toyota
  // Production System, 1983), so that any window is even.
  std::vector<Path> InTurn(std::vector<Path> paths) const {
    const auto size = static_cast<int64_t>(paths.size());
    std::vector<size_t> first_slot;
    size_t slots = 0;
    for (const int32_t count : input_.replicas) {
      first_slot.push_back(std::exchange(slots, slots + static_cast<size_t>(count)));
    }
    const auto index_of = [&](const Slot& slot) {
      return first_slot[static_cast<size_t>(slot.stage)] + static_cast<size_t>(slot.replica);
    };
    std::vector<Ahead> of_slot(slots), of_stage(input_.replicas.size());
    const auto stage_of = [&](const Slot& slot) -> Ahead& {
      return of_stage[static_cast<size_t>(slot.stage)];
    };
    std::vector<std::vector<size_t>> left(static_cast<size_t>(input_.replicas[0]));
    for (size_t i = 0; i < paths.size(); ++i) {
      left[static_cast<size_t>(paths[i].front().replica)].push_back(i);
      for (const Slot& slot : paths[i]) {
        ++of_slot[index_of(slot)].total;
        ++stage_of(slot).total;
      }
    }
    const auto growth = [&](const Path& path) {
      int64_t sum = 0;
      for (const Slot& slot : path) {
        sum += of_slot[index_of(slot)].by + 2 * stage_of(slot).by + size;
      }
      return sum;
    };
    std::vector<Path> ordered;
    for (const Path& turn : paths) {
      for (Ahead& ahead : of_slot) ahead.by -= ahead.total;
      for (Ahead& ahead : of_stage) ahead.by -= ahead.total;
      std::vector<size_t>& own = left[static_cast<size_t>(turn.front().replica)];
      auto next = own.begin();
      int64_t least = std::numeric_limits<int64_t>::max();
      for (auto it = own.begin(); it != own.end(); ++it) {
        const int64_t sum = growth(paths[*it]);
        if (sum < least) {
          least = sum;
          next = it;
        }
      }
      ordered.push_back(paths[*next]);
      own.erase(next);
      for (const Slot& slot : ordered.back()) {
        of_slot[index_of(slot)].by += size;
        stage_of(slot).by += size;
      }
    }
    return ordered;
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

  const PathTableInput& input_;
  Evenness evenness_;
  int32_t paths_max_;
  Rng rng_;
  int32_t skippable_;
  SkipMix mix_;
  std::vector<Draft> drafts_;
  std::vector<int32_t> skipped_;                  // per stage, so far
  std::vector<std::vector<int32_t>> skipped_of_;  // [origin][stage] the same of its paths
  std::vector<int32_t> unused_;                   // origins whose turn is still to come
};

// Most visits over fewest, of stages after the first or of the replicas of one stage.
double UnevennessOf(const std::vector<Path>& paths, const std::vector<int32_t>& replicas) {
  std::vector<std::vector<int64_t>> visits;
  for (const int32_t count : replicas) visits.emplace_back(static_cast<size_t>(count));
  for (const Path& path : paths) {
    for (const Slot& slot : path) {
      ++visits[static_cast<size_t>(slot.stage)][static_cast<size_t>(slot.replica)];
    }
  }
  double worst = 1;
  const auto note = [&](const std::vector<int64_t>& counts) {
    const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
    worst = std::max(
        worst, static_cast<double>(*most) / static_cast<double>(std::max<int64_t>(1, *least)));
  };
  std::vector<int64_t> later;
  for (size_t stage = 0; stage < visits.size(); ++stage) {
    note(visits[stage]);
    if (stage == 0) continue;
    later.push_back(std::accumulate(visits[stage].begin(), visits[stage].end(), int64_t{0}));
  }
  if (!later.empty()) note(later);
  return worst;
}

}  // namespace

std::vector<Path> MakePathTable(const PathTableInput& input) {
  SKERRY_CHECK(!input.replicas.empty() && input.microbatches_per_step >= 1 && input.swaps >= 0);
  SKERRY_CHECK(input.skip_ratio >= 0 && input.skip_ratio <= 0.5);
  for (const int32_t count : input.replicas) SKERRY_CHECK(count >= 1);
  std::vector<Path> columns = TableBuilder(input, Evenness::kPerOrigin).Build();
  const double uneven = UnevennessOf(columns, input.replicas);
  if (uneven <= kUnevenMax) return columns;
  std::vector<Path> even = TableBuilder(input, Evenness::kOverall).Build();
  return UnevennessOf(even, input.replicas) < uneven ? even : columns;
}

}  // namespace skerry
