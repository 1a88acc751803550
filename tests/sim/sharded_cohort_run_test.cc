// Whole runs whose rounds are sharded over the speakers of cohorts: no death costs a round.
#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <variant>

#include "sim/simulation_observer.h"
#include "tests/sim/cohort_trial.h"
#include "tests/sim/sites_of_three.h"

using namespace skerry;
using skerry::testing::CheckThrough;
using skerry::testing::CountedRounds;
using skerry::testing::EndOf;
using skerry::testing::kHeldUpMax;
using skerry::testing::kMembers;
using skerry::testing::LargestCohort;
using skerry::testing::Seen;
using skerry::testing::SiteOf;
using skerry::testing::SitesOfThree;
using skerry::testing::Train;
using skerry::testing::TrainThrough;

namespace {

constexpr int64_t kRounds = 6;

// What rounds send from site to site.
class FarRounds final : public SimulationObserver {
 public:
  explicit FarRounds(int32_t sites) : sites_(sites) {}

  void OnSent(Instant, const NodeId& from, const NodeId& to, const Message& message) override {
    const auto* delta = std::get_if<Delta>(&message);
    const auto* sum = std::get_if<DeltaSum>(&message);
    if ((delta == nullptr && sum == nullptr) || SiteOf(from, sites_) == SiteOf(to, sites_)) return;
    bytes += WireSize(message);
    passed_on += (delta != nullptr ? delta->sender : sum->sender).IsZero() ? 0 : 1;
  }

  int64_t bytes = 0, passed_on = 0;

 private:
  int32_t sites_;
};

VirtualRunOptions Sites(int32_t sites, VirtualMath math, uint64_t seed) {
  VirtualRunOptions options = SitesOfThree(sites);
  options.math = math;
  options.seed = seed;
  options.config.outer.overlap_steps = 2;
  options.config.outer.reduce = OuterReduce::kSharded;
  return options;
}

// Sharded, of so many participants, and everybody has landed the same base.
void CheckRounds(const RunState& state, size_t participants) {
  CHECK(state.commits.size() == kRounds);
  for (const auto& [key, commit] : state.commits) {
    CHECK(commit.shape != 0);
    CHECK(commit.participants.size() == participants);
    CHECK(commit.messages.size() == participants);
    std::set<Digest> digests;
    for (const auto& [node, applied] : state.applied.at(key)) digests.insert(applied.base_digest);
    CHECK(digests.size() == 1);
    CHECK(state.applied.at(key).size() == participants * kMembers);
  }
}

}  // namespace

TEST_CASE("Cohorts, sharded: speakers sum a part each, members hold the sums",
          "[sim][cohorts][sharded]") {
  const VirtualMath math = GENERATE(VirtualMath::kModelled, VirtualMath::kTiny);
  const OuterReduce reduce = GENERATE(OuterReduce::kSharded, OuterReduce::kAuto);
  constexpr int32_t kSites = 4;
  const auto train = [&](OuterReduce how, FarRounds* far) {
    VirtualRunOptions options = Sites(kSites, math, 1);
    options.config.outer.reduce = how;
    VirtualRun run(std::move(options));
    run.simulation().Observe(far);
    const VirtualOutcome outcome = run.Run();
    CHECK(EndOf(run, outcome) == "");
    CHECK(outcome.rounds == kRounds);
    CHECK(run.checkers().partings() == 0);
    CHECK(run.checkers().steps_together() > 0);
    if (how != OuterReduce::kAll) CheckRounds(run.checkers().state(), kSites);
    return outcome.trace_hash;
  };
  FarRounds sharded(kSites), again(kSites), all(kSites);
  const uint64_t trace = train(reduce, &sharded);
  CHECK(sharded.bytes > 0);
  CHECK(sharded.passed_on == 0);
  CHECK(train(reduce, &again) == trace);
  train(OuterReduce::kAll, &all);
  // 2 (N − 1) / N of a delta a speaker for N − 1.
  CHECK(static_cast<double>(sharded.bytes) < 0.6 * static_cast<double>(all.bytes));
}

TEST_CASE("Cohorts, sharded: auto asks how many speak, not how many replicas there are",
          "[sim][cohorts][sharded]") {
  VirtualRunOptions options = Sites(3, VirtualMath::kModelled, 1);
  options.config.outer.reduce = OuterReduce::kAuto;
  VirtualRun run(std::move(options));
  CHECK(EndOf(run, run.Run()) == "");
  CHECK(run.checkers().steps_together() > 0);
  for (const auto& [key, commit] : run.checkers().state().commits) {
    CHECK(commit.shape == 0);
    CHECK(commit.participants.size() == 3);
  }
}

TEST_CASE("Cohorts, sharded: in all modes", "[sim][cohorts][sharded]") {
  const OuterMode mode =
      GENERATE(OuterMode::kStreaming, OuterMode::kSynchronous, OuterMode::kDataParallel);
  const int32_t overlap = GENERATE(0, 1);
  VirtualRunOptions options = Sites(4, VirtualMath::kTiny, 1);
  options.config.outer.mode = mode;
  options.config.outer.fragments = 2;
  if (mode == OuterMode::kDataParallel) options.config.outer.inner_steps = 1;
  options.config.cluster.overlap_steps = overlap;
  VirtualRun run(std::move(options));
  CHECK(EndOf(run, run.Run()) == "");
  CHECK(run.checkers().steps_together() > 0);
  for (const auto& [key, commit] : run.checkers().state().commits)
    CHECK(commit.messages.size() == 4);
}

// Between any two protocol steps of a round: after a message of it that is delivered, one of its
// replicas dies for good, each in turn.
TEST_CASE("Cohorts, sharded: whoever dies after any message of a round, all who live land it",
          "[sim][cohorts][sharded]") {
  const bool streams = GENERATE(false, true);
  const auto options = [&] {
    VirtualRunOptions made = Sites(4, VirtualMath::kModelled, 1);
    if (streams) made.config.outer.mode = OuterMode::kStreaming;
    made.config.outer.fragments = 2;
    return made;
  };
  CountedRounds whole(options());
  whole.Run();
  REQUIRE(whole.moments.size() > 200);
  size_t tried = 0;
  for (size_t moment = 0; moment < whole.moments.size(); moment += 11) {
    const auto victim = static_cast<int32_t>(tried++ % (4 * kMembers));
    VirtualRun run(options());
    run.simulation().CrashAt(whole.moments[moment], VirtualRun::node(victim));
    const VirtualOutcome outcome = run.Run();
    INFO("moment " << moment << " of " << whole.moments.size() << ", node " << victim
                   << (streams ? ", streaming" : ""));
    CHECK(EndOf(run, outcome) == "");
    CHECK(outcome.rounds == whole.outcome.rounds);
  }
  CHECK(tried > 2 * 4 * kMembers);
}

// The same with arithmetic, so that the laws of conservation are checked, of one cohort: first its
// speaker, a little later the deputy.
TEST_CASE("Cohorts, sharded: speaker and deputy die one after the other in any phase of a round",
          "[sim][cohorts][sharded]") {
  const int32_t overlap = GENERATE(0, 1);
  const auto options = [&] {
    VirtualRunOptions made = Sites(3, VirtualMath::kTiny, 1);
    made.config.cluster.overlap_steps = overlap;
    return made;
  };
  CountedRounds whole(options());
  whole.Run();
  REQUIRE(whole.moments.size() > 100);
  int32_t tried = 0;
  for (size_t moment = 0; moment < whole.moments.size(); moment += 23) {
    VirtualRun run(options());
    const int32_t site = tried++ % 3;
    for (int32_t member = 0; member < 2; ++member) {
      const Instant at = whole.moments[moment] + Duration::Millis(900) * member * (tried % 4);
      run.simulation().CrashAt(at, VirtualRun::node(site * kMembers + member));
    }
    const VirtualOutcome outcome = run.Run();
    INFO("moment " << moment << " of " << whole.moments.size() << ", site " << site << ", overlap "
                   << overlap);
    CHECK(EndOf(run, outcome) == "");
    CHECK(outcome.rounds == kRounds);
  }
  CHECK(tried > 5);
}

TEST_CASE("Cohorts, sharded: a member that dies, stops or is cut off costs no round",
          "[sim][cohorts][sharded]") {
  const auto* fault = GENERATE("speaker dies", "deputy dies", "speaker hangs", "deputy hangs",
                               "speaker is replaced", "deputy is replaced", "speaker is cut off",
                               "deputy is cut off");
  const VirtualMath math = GENERATE(VirtualMath::kModelled, VirtualMath::kTiny);
  const int32_t overlap = GENERATE(0, 1);
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    INFO(fault << ", seed " << seed << (math == VirtualMath::kTiny ? ", with arithmetic" : "")
               << (overlap > 0 ? ", with overlap" : ""));
    VirtualRunOptions options = Sites(4, math, seed);
    options.config.cluster.overlap_steps = overlap;
    CheckThrough(TrainThrough(fault, seed, std::move(options)));
  }
}

// Pieces for who does not hear their sender nobody else has: one of the two is absent by turns,
// while others hand on to it the sums that it lacks.
TEST_CASE("Cohorts, sharded: two that cannot hear each other part, and rounds go on",
          "[sim][cohorts][sharded]") {
  const VirtualMath math = GENERATE(VirtualMath::kModelled, VirtualMath::kTiny);
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    INFO("seed " << seed << (math == VirtualMath::kTiny ? ", with arithmetic" : ""));
    VirtualRunOptions options = Sites(4, math, seed);
    options.config.steps = 120;  // the way is cut for most of them
    const Seen seen = TrainThrough("two cannot hear each other", seed, std::move(options));
    CHECK(seen.wrong == "");
    CHECK(seen.rounds == 30);
    CHECK(seen.partings > 0);
    CHECK(seen.longest_s < kHeldUpMax.seconds());
  }
}

TEST_CASE("Cohorts, sharded: a coordinator that dies hears again what cohorts have made",
          "[sim][cohorts][sharded]") {
  for (int64_t record = 20; record < 140; record += 9) {
    VirtualRunOptions options = Sites(4, VirtualMath::kModelled, 1);
    options.coordinator_crashes = {{record, Duration::Seconds(record % 2 == 0 ? 0.3 : 6)}};
    VirtualRun run(std::move(options));
    const VirtualOutcome outcome = run.Run();
    INFO("it died at record " << record);
    CHECK(EndOf(run, outcome) == "");
    CHECK(outcome.rounds == kRounds);
    CHECK(run.checkers().partings() == 0);
  }
}
