// A deliberately broken protocol must be caught: every mutation of mutations.cmake, by the rule
// that it breaks, within a few seeds of the swarm. So a rule that sees nothing is seen.

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "sim/swarm.h"
#include "tests/sim/mutants/mutant.h"

namespace skerry {
namespace {

int awake = 0;

struct Mutant {
  int number;
  const char* rule;  // how the complaint begins
  const char* what;  // is broken
  uint64_t first;    // seed of the swarm; the next few are tried too
  int32_t draw = 2;  // of the swarm
};

constexpr uint64_t kSeedsEach = 40;
constexpr uint64_t kSeedsSearched = 1000;
constexpr int kQuickRestarts = 24;  // wants a run of its own

const Mutant kMutants[] = {
    // The coordinator.
    {1, "rounds_atomic", "a round is committed before all its replicas hold all its messages", 1},
    {2, "rounds_atomic", "a commit is sent that was not journalled", 1},
    {3, "rounds_atomic", "replicas are sent different sets of one round", 1},
    {4, "base_agreement", "who reports another base than the others is left in its place", 2},
    {5, "plan_agreement", "the plan after a death is sent but not journalled", 10},
    {6, "liveness", "a process that lost its stage with its memory keeps its place", 12},
    {7, "liveness", "nobody is ever silent for too long", 2},
    {8, "was put out", "a coordinator that was stopped takes the others for silent", 898},
    {9, "ledger_exact", "a microbatch that is reported again is credited again", 10},
    // The node.
    {10, "liveness", "plans after the first are not heeded", 2},
    {11, "ledger_exact", "reports are not said again to a coordinator that died with them", 21},
    {12, "liveness", "nor is it told again which deltas are held", 10},
    {13, "rounds_on_time", "one replica lands its rounds a step before the others", 1},
    {14, "ended although", "a delta that no codec made is held, and ends who lands it", 10},
    {15, "base_agreement", "a replica leaves its own delta out of the sum", 1},
    // Local training.
    {16, "delta_conservation", "what a message leaves out is forgotten", 28},
    {17, "delta_conservation", "progress made while a round was under way is overwritten", 28},
    {18, "base_agreement", "messages are summed in float32, one's own first", 25},
    // The pipeline.
    {19, "microbatch_conservation", "a microbatch that comes again is counted again", 53},
    {20, "microbatch_conservation", "gradients are added in the wrong order", 1},
    {21, "ledger_exact", "a microbatch that a death caught is dropped, not sent again", 11},
    // The courier.
    {22, "delivery_exact", "what is missing is acknowledged with what came after it", 1},
    {23, "delivery_exact", "what was delivered is delivered again when it comes again", 1},
    {24, "liveness", "frames of a dead process are taken for those of a new one", 1},
    // Handovers.
    {25, "rounds_atomic", "a round is committed before the joiner holds its messages", 1, 3},
    {26, "plan_agreement", "a joiner works from a step on that some have made already", 1, 3},
    {27, "base_agreement", "a joiner leaves out a round that it should land", 1, 3},
    // Sharded rounds.
    {28, "rounds_atomic", "a round is committed when one holder has all its sums", 1, 8},
    {29, "ended although", "a part is summed before everybody's pieces of it are there", 1, 8},
};

// Nodes start again at once, while frames of their earlier lives overtake those of the new ones.
SwarmRun QuickRestarts(uint64_t seed) {
  SwarmRun drawn = DrawSwarmRun({seed, 1});
  VirtualRunOptions options = drawn.run->options();
  options.stops_at_violation = true;
  options.link = [](const NodeId&, const NodeId&) {
    return SimLink{
        .one_way = Duration::Millis(5), .bytes_per_s = 1e7, .jitter = Duration::Millis(400)};
  };
  drawn.run = std::make_unique<VirtualRun>(std::move(options));
  for (int32_t i = 0; i < static_cast<int32_t>(drawn.run->options().nodes.size()); ++i) {
    const Instant at = drawn.run->options().nodes[static_cast<size_t>(i)].joins;
    drawn.run->simulation().CrashAt(at + Duration::Millis(1500), VirtualRun::node(i));
    drawn.run->simulation().StartAt(at + Duration::Millis(1501), VirtualRun::node(i));
  }
  return drawn;
}

std::string WrongWith(int mutant, const SwarmSeed& seed, bool quick_restarts) {
  WakeMutant(mutant);
  const SwarmRun drawn =
      quick_restarts ? QuickRestarts(seed.seed) : DrawSwarmRun(seed, {.stops_at_violation = true});
  const VirtualOutcome outcome = drawn.run->Run();
  WakeMutant(0);
  return WhatIsWrong(drawn, outcome);
}

// The first seed that shows it; 0: none does.
uint64_t SeedThatCatches(const Mutant& mutant, uint64_t seeds = kSeedsEach) {
  const bool quick_restarts = mutant.number == kQuickRestarts;
  for (uint64_t seed = mutant.first; seed < mutant.first + seeds; ++seed) {
    const std::string wrong = WrongWith(mutant.number, {seed, mutant.draw}, quick_restarts);
    if (wrong.find(mutant.rule) != std::string::npos) return seed;
  }
  return 0;
}

void CheckCaught(int first, int last) {
  for (const Mutant& mutant : kMutants) {
    if (mutant.number < first || mutant.number > last) continue;
    INFO("mutant " << mutant.number << ": " << mutant.what << "; wanted: " << mutant.rule);
    const uint64_t seed = SeedThatCatches(mutant);
    if (seed == 0) {  // for whoever changed the draw or the protocol: where to begin
      Mutant anew = mutant;
      anew.first = 1;
      FAIL_CHECK("not caught from seed " << mutant.first << " on; first shown by seed "
                                         << SeedThatCatches(anew, kSeedsSearched));
      continue;
    }
    CHECK(WrongWith(0, {seed, mutant.draw}, mutant.number == kQuickRestarts) == "");
  }
}

}  // namespace

bool MutantIs(int number) {
  return awake == number;
}
void WakeMutant(int number) {
  awake = number;
}

TEST_CASE("Mutants: a coordinator that breaks its promises is caught", "[sim][mutants]") {
  CheckCaught(1, 9);
}
TEST_CASE("Mutants: a node that breaks the protocol of rounds and plans is caught",
          "[sim][mutants]") {
  CheckCaught(10, 15);
}
TEST_CASE("Mutants: outer rounds that lose, double or blur what was learnt are caught",
          "[sim][mutants]") {
  CheckCaught(16, 18);
}
TEST_CASE("Mutants: a pipeline that loses, doubles or reorders microbatches is caught",
          "[sim][mutants]") {
  CheckCaught(19, 21);
}
TEST_CASE("Mutants: a courier that loses, repeats or confuses messages is caught",
          "[sim][mutants]") {
  CheckCaught(22, 24);
}

TEST_CASE("Mutants: a handover that gives away too early, or the wrong thing, is caught",
          "[sim][mutants]") {
  CheckCaught(25, 27);
}

TEST_CASE("Mutants: a sharded round that is summed or committed too early is caught",
          "[sim][mutants]") {
  CheckCaught(28, 29);
}

// By hand, after a change of the draw or the protocol: SKERRY_MUTANT=14 test_mutants '[.mutant]'
// says what the first seeds show of it.
TEST_CASE("Mutants: what the seeds show of one", "[.mutant]") {
  const char* number = std::getenv("SKERRY_MUTANT");
  REQUIRE(number != nullptr);
  for (const Mutant& mutant : kMutants) {
    if (mutant.number != std::atoi(number)) continue;
    for (uint64_t seed = 1; seed <= 4 * kSeedsEach; ++seed) {
      const bool quick_restarts = mutant.number == kQuickRestarts;
      const std::string wrong = WrongWith(mutant.number, {seed, mutant.draw}, quick_restarts);
      if (!wrong.empty()) std::printf("%d: %s\n", static_cast<int>(seed), wrong.c_str());
    }
  }
}

}  // namespace skerry
