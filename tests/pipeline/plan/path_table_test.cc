#include "pipeline/plan/path_table.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <set>

namespace skerry {
namespace {

std::map<Slot, int64_t> Visits(const std::vector<Path>& paths) {
  std::map<Slot, int64_t> visits;
  for (const Path& path : paths) {
    for (const Slot& slot : path) ++visits[slot];
  }
  return visits;
}

double SkippedOnAverage(const std::vector<Path>& paths, size_t stages) {
  double skipped = 0;
  for (const Path& path : paths) skipped += static_cast<double>(stages - path.size());
  return skipped / static_cast<double>(paths.size());
}

bool AreEqual(const std::vector<int64_t>& counts) {
  return std::adjacent_find(counts.begin(), counts.end(), std::not_equal_to<>()) == counts.end();
}

TEST_CASE("Path table: equal loads, equal participation, the skip ratio on average", "[plan]") {
  for (const int32_t stages : {1, 2, 3, 4, 6, 8}) {
    for (const int32_t replicas : {1, 2, 3, 4}) {
      for (const double skip : {0.0, 0.25, 1.0 / 3, 0.5}) {
        for (const int32_t microbatches : {replicas, 8, 12}) {
          PathTableInput input{std::vector<int32_t>(static_cast<size_t>(stages), replicas), skip, 0,
                               microbatches, 7};
          const std::vector<Path> paths = MakePathTable(input);
          CAPTURE(stages, replicas, skip, microbatches, paths.size());
          REQUIRE(paths.size() <= kPathsMax);
          const double average = SkippedOnAverage(paths, static_cast<size_t>(stages));
          REQUIRE(average == Approx(skip * (stages - 1)).margin(1.0 / 32));

          const auto visits = Visits(paths);
          REQUIRE(visits.size() == static_cast<size_t>(stages * replicas));
          std::vector<int64_t> later;
          std::vector<int64_t> first;
          for (const auto& [slot, count] : visits) {
            (slot.stage == 0 ? first : later).push_back(count);
          }
          REQUIRE(AreEqual(first));
          REQUIRE(AreEqual(later));
          for (const Path& path : paths) {
            REQUIRE(path.front().stage == 0);
            REQUIRE(std::is_sorted(path.begin(), path.end()));
            const double kept = stages - skip * (stages - 1);
            REQUIRE(static_cast<double>(path.size()) >= std::floor(kept - 1e-6));
            REQUIRE(static_cast<double>(path.size()) <= std::ceil(kept + 1e-6));
          }
        }
      }
    }
  }
}

TEST_CASE("Path table: unequal stages carry loads within 2 % or one visit", "[plan]") {
  const std::vector<int32_t> replicas = {2, 3, 2, 5};
  const std::vector<Path> paths = MakePathTable({replicas, 0.25, 0, 8, 1});
  std::map<int32_t, std::vector<int64_t>> by_stage;
  for (const auto& [slot, count] : Visits(paths)) by_stage[slot.stage].push_back(count);
  for (const auto& [stage, counts] : by_stage) {
    const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
    CAPTURE(stage, *least, *most);
    CHECK(
        (static_cast<double>(*most) <= 1.02 * static_cast<double>(*least) || *most - *least <= 1));
  }
}

TEST_CASE("Path table: every step starts equally often at each stage-0 replica", "[plan]") {
  const int32_t origins = GENERATE(1, 2, 4);
  const int32_t microbatches = 8;
  const std::vector<Path> paths = MakePathTable({{origins, 2, 2, 3}, 0.25, 0, microbatches, 3});
  for (size_t step = 0; step < paths.size(); ++step) {
    std::map<int32_t, int32_t> starts;
    for (size_t m = 0; m < 8; ++m) ++starts[paths[(step * 8 + m) % paths.size()][0].replica];
    REQUIRE(starts.size() == static_cast<size_t>(origins));
    for (const auto& [replica, count] : starts) REQUIRE(count == microbatches / origins);
  }
}

// With whom a slot shares paths, of another stage.
std::map<std::pair<Slot, int32_t>, std::set<int32_t>> Company(const std::vector<Path>& paths) {
  std::map<std::pair<Slot, int32_t>, std::set<int32_t>> company;
  for (const Path& path : paths) {
    for (const Slot& slot : path) {
      for (const Slot& other : path) {
        if (other.stage != slot.stage) company[{slot, other.stage}].insert(other.replica);
      }
    }
  }
  return company;
}

TEST_CASE("Path table: stages of equal size form columns that never cross", "[plan]") {
  const int32_t replicas = GENERATE(2, 3, 4);
  const int32_t microbatches = GENERATE(8, 12, 30);
  const std::vector<Path> paths =
      MakePathTable({std::vector<int32_t>(4, replicas), 0.25, 0, microbatches, 11});
  for (const Path& path : paths) {
    for (const Slot& slot : path) REQUIRE(slot.replica == path.front().replica);
  }
}

TEST_CASE("Path table: a slot meets as few of a stage of another size as equal loads allow",
          "[plan]") {
  const std::vector<int32_t> replicas = GENERATE(
      std::vector<int32_t>{3, 9, 9, 3}, std::vector<int32_t>{2, 9, 6}, std::vector<int32_t>{6, 2});
  const auto company = Company(MakePathTable({replicas, 0.25, 0, 30, 11}));
  for (const auto& [key, others] : company) {
    const auto& [slot, stage] = key;
    const double own = replicas[static_cast<size_t>(slot.stage)];
    const double met = replicas[static_cast<size_t>(stage)];
    CAPTURE(slot.stage, slot.replica, stage);
    // An interval of 1 / own overlaps so many of 1 / met, and one more at either end.
    CHECK(static_cast<double>(others.size()) <= std::ceil(met / own) + 2);
    CHECK(*others.rbegin() - *others.begin() + 1 == static_cast<int32_t>(others.size()));
  }
}

TEST_CASE("Path table: within any few steps a column's replicas carry equal loads", "[plan]") {
  const std::vector<Path> paths = MakePathTable({{2, 2, 2, 2}, 0.25, 0, 8, 3});
  for (size_t first = 0; first < paths.size(); ++first) {
    std::map<Slot, int64_t> visits;
    for (size_t i = first; i < first + 32; ++i) {
      for (const Slot& slot : paths[i % paths.size()]) ++visits[slot];
    }
    for (const auto& [slot, count] : visits) {
      if (slot.stage > 0) REQUIRE(std::abs(count - 12) <= 2);
    }
  }
}

TEST_CASE("Path table: swaps exchange neighbours after stage 0, loads stay equal", "[plan]") {
  const int32_t swaps = GENERATE(1, 2);
  const std::vector<Path> paths = MakePathTable({{2, 2, 2, 2, 2}, 0.25, swaps, 8, 5});
  int32_t swapped = 0;
  std::vector<int64_t> later;
  for (const Path& path : paths) {
    REQUIRE(path.front().stage == 0);
    int32_t inversions = 0;
    for (size_t i = 0; i < path.size(); ++i) {
      for (size_t j = i + 1; j < path.size(); ++j) inversions += path[i].stage > path[j].stage;
    }
    REQUIRE(inversions <= swaps);
    swapped += inversions > 0;
  }
  for (const auto& [slot, count] : Visits(paths)) {
    if (slot.stage > 0) later.push_back(count);
  }
  CHECK(swapped > 0);
  CHECK(AreEqual(later));
}

TEST_CASE("Path table: the same input gives the same table, another seed another", "[plan]") {
  const PathTableInput input{{2, 2, 2, 2}, 0.25, 1, 8, 5};
  PathTableInput other = input;
  other.seed = 6;
  CHECK(MakePathTable(input) == MakePathTable(input));
  CHECK(MakePathTable(input) != MakePathTable(other));
}

TEST_CASE("Path table: stays bounded for large fleets and large steps", "[plan]") {
  CHECK(MakePathTable({std::vector<int32_t>(20, 5), 0.25, 0, 1000, 5}).size() <= kPathsMax);
  CHECK(MakePathTable({{7, 11, 13, 9}, 0.33, 0, 14, 5}).size() <= kPathsMax);
}

}  // namespace
}  // namespace skerry
