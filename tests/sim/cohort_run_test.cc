// Whole runs of nodes that are near each other: cohorts train as one replica, whoever of them dies.
#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "pipeline/plan/cohorts.h"
#include "pipeline/plan/route.h"
#include "sim/live_faults.h"
#include "tests/sim/sharded_fleet.h"

using namespace skerry;
using skerry::testing::EightNodes;
using skerry::testing::EndOf;

namespace {

constexpr int32_t kOfSite = 4;

int32_t SiteOf(const NodeId& id) {
  for (int32_t i = 0; i < 8; ++i) {
    if (VirtualRun::node(i) == id) return i / kOfSite;
  }
  return -1;
}

// Two sites of four, 20 ms apart; a millisecond inside.
VirtualRunOptions TwoSites(VirtualMath math, uint64_t seed) {
  VirtualRunOptions options = EightNodes();
  options.math = math;
  options.seed = seed;
  options.config.steps = 24;
  options.config.outer.inner_steps = 4;
  options.config.outer.overlap_steps = 2;
  options.config.outer.reduce = OuterReduce::kAuto;
  options.config.cluster = {"measured", 400, 5};
  options.link = [](const NodeId& from, const NodeId& to) {
    const int32_t site = SiteOf(from);
    const bool is_near = site >= 0 && site == SiteOf(to);
    return SimLink{.one_way = Duration::Millis(is_near ? 1 : 20),
                   .bytes_per_s = is_near ? 1.25e8 : 1.25e6,
                   .jitter = {}};
  };
  return options;
}

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

TEST_CASE("Cohorts: a member that dies, stops or is cut off costs no round", "[sim][cohorts]") {
  const auto* fault = GENERATE("speaker dies", "deputy dies", "speaker hangs", "deputy hangs",
                               "speaker is replaced", "two cannot hear each other");
  const VirtualMath math = GENERATE(VirtualMath::kModelled, VirtualMath::kTiny);
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    INFO(fault << ", seed " << seed << (math == VirtualMath::kTiny ? ", with arithmetic" : ""));
    const auto cut = std::make_shared<LiveFaults>();
    VirtualRunOptions options = TwoSites(math, seed);
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
          if (what.find("hear") == std::string::npos) return;
          simulation.At(at, [&run, cut, a = cohort[0], b = cohort[1]](Simulation&) {
            cut->Attach(&run);
            cut->CutWay(a, b, Duration::Seconds(40));
            cut->CutWay(b, a, Duration::Seconds(40));
          });
        },
        static_cast<int64_t>(seed % 5));
    CHECK(seen.wrong.empty());
    CHECK(seen.cohorts >= 2);
    CHECK(seen.together > 0);
    CHECK(seen.rounds == 6);
    // Their deltas do not pass either, and in a network of links no relay helps them.
    if (fault != std::string("two cannot hear each other")) CHECK(seen.longest_s < 10);
  }
}
