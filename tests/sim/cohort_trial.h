// Runs of cohorts in which one thing happens, and what was seen of them.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "pipeline/plan/cohorts.h"
#include "sim/live_faults.h"
#include "tests/sim/sharded_fleet.h"

namespace skerry::testing {

inline constexpr Duration kCut = Duration::Seconds(40);
// Whatever befalls a member, the others are not held up for longer.
inline constexpr Duration kHeldUpMax = Duration::Seconds(10);

struct Seen {
  std::string wrong;
  int64_t together = 0, partings = 0, rounds = 0, wan_deltas = 0;
  int32_t cohorts = 0;  // of two or more, in the first plan
  double loss_first = 0, loss_last = 0;
  double longest_s = 0;  // between two steps
  uint64_t trace = 0;
};

// `strike`, with the first plan, when the first commit of round `strikes_after` arrives.
inline Seen Train(VirtualRunOptions options,
                  const std::function<void(VirtualRun&, const PipelinePlan&)>& strike = {},
                  int64_t strikes_after = 0,
                  const std::function<void(const VirtualEvent&)>& hear = {}) {
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
    if (update == nullptr || seen.cohorts > 0 || update->plan->version != 1) return;
    for (size_t s = 0; s < update->plan->stages.size(); ++s) {
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
    if (hear) hear(event);
    if (event.kind != "step") continue;
    if (last) seen.longest_s = std::max(seen.longest_s, (event.at - *last).seconds());
    last = event.at;
  }
  return seen;
}

// The cohort of most members, speaker first.
inline std::vector<NodeId> LargestCohort(const PipelinePlan& plan) {
  std::vector<NodeId> largest;
  for (const StageAssignment& stage : plan.stages) {
    for (const NodeId& node : stage.replicas) {
      std::vector<NodeId> cohort = CohortOf(plan, node);
      if (cohort.size() > largest.size()) largest = std::move(cohort);
    }
  }
  return largest;
}

// With seed, how late: at another moment of a step.
inline Seen TrainThrough(const std::string& what, uint64_t seed, VirtualRunOptions options) {
  const auto cut = std::make_shared<LiveFaults>();
  options.link = cut->Over(options.link);
  const auto strike = [&](VirtualRun& run, const PipelinePlan& plan) {
    const std::vector<NodeId> cohort = LargestCohort(plan);
    const NodeId who = what.rfind("speaker", 0) == 0 ? cohort[0] : cohort[1];
    Simulation& simulation = run.simulation();
    const Instant at = simulation.now() + Duration::Millis(7 * static_cast<int64_t>(seed * seed));
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
  };
  return Train(std::move(options), strike, static_cast<int64_t>(seed % 5));
}

inline void CheckThrough(const Seen& seen) {
  CHECK(seen.wrong.empty());
  CHECK(seen.cohorts >= 2);
  CHECK(seen.together > 0);
  CHECK(seen.rounds == 6);
  CHECK(seen.longest_s < kHeldUpMax.seconds());
}

}  // namespace skerry::testing
