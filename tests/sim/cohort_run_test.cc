// Whole runs of nodes that are near each other: cohorts train as one replica, whoever of them dies.
#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "pipeline/plan/cohorts.h"
#include "pipeline/plan/route.h"
#include "sim/live_faults.h"
#include "tests/sim/two_sites.h"

using namespace skerry;
using skerry::testing::EndOf;
using skerry::testing::TwoSites;

namespace {

constexpr Duration kCut = Duration::Seconds(40);
// Whatever befalls a member, the others are not held up for longer.
constexpr Duration kHeldUpMax = Duration::Seconds(10);

struct Seen {
  std::string wrong;
  int64_t together = 0, partings = 0, rounds = 0, wan_deltas = 0;
  int32_t cohorts = 0;  // of two or more, in the first plan
  double loss_first = 0, loss_last = 0;
  double longest_s = 0;  // between two steps
  uint64_t trace = 0;
};

// `strike`, with the first plan, when the first commit of round `strikes_after` arrives.
Seen Train(VirtualRunOptions options,
           const std::function<void(VirtualRun&, const PipelinePlan&)>& strike = {},
           int64_t strikes_after = 0) {
  VirtualRun run(std::move(options));
  Seen seen;
  PipelinePlan plan;
  bool is_due = false;
  run.WatchMessages([&](Instant, const Message& message) {
    const auto* delta = std::get_if<Delta>(&message);
    if (delta != nullptr && delta->sender.IsZero()) ++seen.wan_deltas;
    const auto* update = std::get_if<PlanUpdate>(&message);
    const auto* commit = std::get_if<RoundCommit>(&message);
    if (commit != nullptr && commit->round == strikes_after && std::exchange(is_due, false))
      strike(run, plan);
    if (update == nullptr || seen.cohorts > 0 || update->plan.version != 1) return;
    for (size_t s = 0; s < update->plan.stages.size(); ++s) {
      for (const NodeId& node : HearersOf(update->plan, static_cast<int32_t>(s)))
        seen.cohorts += CohortOf(update->plan, node).size() > 1 ? 1 : 0;
    }
    plan = update->plan;
    is_due = static_cast<bool>(strike);
  });
  const VirtualOutcome outcome = run.Run();
  seen.wrong = EndOf(run, outcome);
  seen.together = run.checkers().steps_together();
  seen.partings = run.checkers().partings();
  seen.rounds = outcome.rounds;
  seen.loss_first = outcome.loss_first;
  seen.loss_last = outcome.loss_last;
  seen.trace = outcome.trace_hash;
  std::optional<Instant> last;
  for (const VirtualEvent& event : run.events()) {
    if (event.kind != "step") continue;
    if (last) seen.longest_s = std::max(seen.longest_s, (event.at - *last).seconds());
    last = event.at;
  }
  return seen;
}

// The cohort of most members, speaker first.
std::vector<NodeId> LargestCohort(const PipelinePlan& plan) {
  std::vector<NodeId> largest;
  for (const StageAssignment& stage : plan.stages) {
    for (const NodeId& node : stage.replicas) {
      std::vector<NodeId> cohort = CohortOf(plan, node);
      if (cohort.size() > largest.size()) largest = std::move(cohort);
    }
  }
  return largest;
}

}  // namespace

TEST_CASE("Cohorts: near nodes of a stage train as one, and one of them speaks", "[sim][cohorts]") {
  const VirtualMath math = GENERATE(VirtualMath::kModelled, VirtualMath::kTiny);
  const Seen seen = Train(TwoSites(math, 1));
  CHECK(seen.wrong.empty());
  CHECK(seen.cohorts >= 2);
  CHECK(seen.together > 0);
  CHECK(seen.partings == 0);
  CHECK(seen.rounds == 6);
  VirtualRunOptions apart = TwoSites(math, 1);
  apart.config.cluster.groups = "off";
  apart.config.outer.reduce = OuterReduce::kAll;
  const Seen each = Train(std::move(apart));
  CHECK(each.wrong.empty());
  CHECK(each.together == 0);
  CHECK(seen.wan_deltas < each.wan_deltas);
  CHECK(Train(TwoSites(math, 1)).trace == seen.trace);
}

TEST_CASE("Cohorts: with overlap sums are made behind the next step", "[sim][cohorts]") {
  const VirtualMath math = GENERATE(VirtualMath::kModelled, VirtualMath::kTiny);
  VirtualRunOptions at_once = TwoSites(math, 1), overlapping = TwoSites(math, 1);
  overlapping.config.cluster.overlap_steps = 1;
  const int64_t steps = overlapping.config.steps;
  VirtualRun first(std::move(at_once)), second(std::move(overlapping));
  const VirtualOutcome waits = first.Run(), hides = second.Run();
  CHECK(EndOf(first, waits).empty());
  CHECK(EndOf(second, hides).empty());
  CHECK(second.checkers().partings() == 0);
  // Of each step but the last.
  CHECK(waits.sums.sums % steps == 0);
  CHECK(waits.sums.sums > 0);
  CHECK(hides.sums.sums == waits.sums.sums / steps * (steps - 1));
  CHECK(waits.sums.HiddenFraction() < 0.1);
  CHECK(hides.sums.HiddenFraction() > 0.5);
  CHECK(hides.training_s < waits.training_s);
  CHECK(hides.rounds == waits.rounds);
  if (math == VirtualMath::kTiny) CHECK(hides.loss_last < hides.loss_first);
}

TEST_CASE("Cohorts: what rings send counts among the bytes that nodes have sent",
          "[sim][cohorts]") {
  VirtualRun run(TwoSites(VirtualMath::kModelled, 1));
  std::map<NodeId, int64_t> sent, said;  // until the last heartbeat
  std::map<NodeId, int64_t> until_then;
  int64_t of_rings = 0;
  run.WatchSends([&](const NodeId& from, const Message& message) {
    if (const auto* beat = std::get_if<Heartbeat>(&message)) {
      said[from] = beat->bytes_sent;
      until_then[from] = sent[from];
    }
    sent[from] += WireSize(message);
    if (std::holds_alternative<GroupValues>(message)) of_rings += WireSize(message);
  });
  const VirtualOutcome outcome = run.Run();
  CHECK(EndOf(run, outcome).empty());
  CHECK(of_rings > 1'000'000);
  for (int32_t i = 0; i < 8; ++i) {
    const NodeId node = VirtualRun::node(i);
    CHECK(said[node] > 0);
    CHECK(said[node] == until_then[node]);
  }
}

TEST_CASE("Cohorts: members find each other where nodes are told of few others", "[sim][cohorts]") {
  VirtualRunOptions options = TwoSites(VirtualMath::kModelled, 1);
  options.introduces_few = true;
  const Seen seen = Train(std::move(options));
  CHECK(seen.wrong.empty());
  CHECK(seen.together > 0);
  CHECK(seen.partings == 0);
}

TEST_CASE("Cohorts: a member that dies, stops or is cut off costs no round", "[sim][cohorts]") {
  const auto* fault = GENERATE("speaker dies", "deputy dies", "speaker hangs", "deputy hangs",
                               "speaker is replaced", "speaker is cut off", "deputy is cut off",
                               "two cannot hear each other");
  const VirtualMath math = GENERATE(VirtualMath::kModelled, VirtualMath::kTiny);
  const int32_t overlap = GENERATE(0, 1);
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    INFO(fault << ", seed " << seed << (math == VirtualMath::kTiny ? ", with arithmetic" : "")
               << (overlap > 0 ? ", with overlap" : ""));
    const auto cut = std::make_shared<LiveFaults>();
    VirtualRunOptions options = TwoSites(math, seed);
    options.config.cluster.overlap_steps = overlap;
    options.link = cut->Over(options.link);
    const Seen seen = Train(
        std::move(options),
        [&](VirtualRun& run, const PipelinePlan& plan) {
          const std::vector<NodeId> cohort = LargestCohort(plan);
          const std::string what = fault;
          const NodeId who = what.rfind("speaker", 0) == 0 ? cohort[0] : cohort[1];
          Simulation& simulation = run.simulation();
          const Instant at =
              simulation.now() + Duration::Millis(7 * static_cast<int64_t>(seed * seed));
          if (what.find("dies") != std::string::npos) simulation.CrashAt(at, who);
          if (what.find("hangs") != std::string::npos)
            simulation.Hang(who, at, at + Duration::Seconds(60));
          if (what.find("replaced") != std::string::npos) {
            simulation.CrashAt(at, who);
            simulation.StartAt(at + Duration::Millis(300), who);
          }
          const bool off = what.find("off") != std::string::npos;
          if (!off && what.find("hear") == std::string::npos) return;
          simulation.At(at, [&run, cut, who, off, a = cohort[0], b = cohort[1]](Simulation&) {
            cut->Attach(&run);
            if (off) return cut->CutOff(who, kCut);
            cut->CutWay(a, b, kCut);
            cut->CutWay(b, a, kCut);
          });
        },
        static_cast<int64_t>(seed % 5));
    CHECK(seen.wrong.empty());
    CHECK(seen.cohorts >= 2);
    CHECK(seen.together > 0);
    CHECK(seen.rounds == 6);
    CHECK(seen.longest_s < kHeldUpMax.seconds());
  }
}
