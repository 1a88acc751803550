#include "routing/joint_columns.h"

#include <catch2/catch.hpp>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "common/rng.h"
#include "routing/joint_state.h"

namespace skerry {
namespace {

SkipPipeProblem Problem(std::vector<int32_t> stage_sizes, int32_t length) {
  SkipPipeProblem problem;
  problem.stage_sizes = std::move(stage_sizes);
  problem.path_length = length;
  problem.in_flight = 3;
  problem.waves = 2;
  const auto n = static_cast<size_t>(
      std::accumulate(problem.stage_sizes.begin(), problem.stage_sizes.end(), 0));
  problem.forward_s.assign(n, 1);
  // No two alike, or their exchange would not be tried.
  for (size_t i = 0; i < n * n; ++i) problem.transfer_s.push_back(1 + static_cast<double>(i));
  return problem;
}

std::vector<std::vector<int32_t>> InOrder(const SkipPipeProblem& problem) {
  std::vector<std::vector<int32_t>> partitions;
  int32_t next = 0;
  for (const int32_t size : problem.stage_sizes) {
    partitions.emplace_back();
    for (int32_t i = 0; i < size; ++i) partitions.back().push_back(next++);
  }
  return partitions;
}

TEST_CASE("Columns hold every later node once, each column different stages",
          "[routing][columns]") {
  const int32_t length = GENERATE(4, 6);  // a third skipped, nothing skipped
  const SkipPipeProblem problem = Problem({5, 3, 3, 3, 3, 3}, length);

  const auto columns = CutIntoColumns(problem, InOrder(problem));

  CHECK(columns.size() == (length == 4 ? 5 : 3));
  std::set<int32_t> held;
  for (const auto& column : columns) {
    std::vector<int32_t> stages = {0};
    for (const int32_t node : column) {
      stages.push_back(1 + (node - 5) / 3);
      CHECK(held.insert(node).second);
    }
    CHECK(IsAllowedPath(problem, stages));
    CHECK(std::set<int32_t>(stages.begin(), stages.end()).size() == stages.size());
  }
  CHECK(held.size() == 15);
}

TEST_CASE("What cannot be cut into columns has none", "[routing][columns]") {
  const SkipPipeProblem uneven = Problem({4, 3, 2, 3}, 3);
  CHECK(CutIntoColumns(uneven, InOrder(uneven)).empty());
  const SkipPipeProblem left_over = Problem({4, 3, 3, 3}, 3);  // nine nodes, two a column
  CHECK(CutIntoColumns(left_over, InOrder(left_over)).empty());

  auto state = JointState::Create(left_over, InOrder(left_over), 1e9);
  REQUIRE(state.ok());
  const auto before = state->schedule().path;
  CHECK_FALSE(state->ArrangeInColumns());
  CHECK(state->schedule().path == before);
}

TEST_CASE("A plan in columns visits stages equally, and exchanges of nodes keep its columns",
          "[routing][columns]") {
  const SkipPipeProblem problem = Problem({5, 3, 3, 3, 3, 3}, 4);
  auto state = JointState::Create(problem, InOrder(problem), 1e9);
  REQUIRE(state.ok());
  REQUIRE(state->ArrangeInColumns());
  Rng rng(1);

  for (int i = 0; i < 200; ++i) {
    state->Move({true, true, false}, {}, rng);
    const SkipPipeSchedule plan = state->ToSchedule();
    REQUIRE(ValidateSchedule(problem, plan).ok());
    std::map<int32_t, std::set<int32_t>> mates;
    std::map<int32_t, int32_t> visits;
    for (const SkipPipeMicrobatch& microbatch : plan.microbatches) {
      for (size_t hop = 0; hop < microbatch.path.size(); ++hop) {
        ++visits[microbatch.path[hop]];
        mates[microbatch.path[hop]].insert(microbatch.path.begin(), microbatch.path.end());
      }
    }
    for (const auto& [node, met] : mates) CHECK(met.size() == 4);
    for (const auto& [node, count] : visits) CHECK(count == 6);
  }
}

}  // namespace
}  // namespace skerry
