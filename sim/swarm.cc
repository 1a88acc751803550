#include "sim/swarm.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/check.h"
#include "pipeline/plan/route.h"
#include "sim/fault_grid.h"
#include "sim/storm.h"

namespace skerry {
namespace {

// Who was mute for so long in all may have been taken for dead: a little less than node_silent_s.
constexpr double kMuteEnough = 5;
constexpr double kLong = 30;  // seconds; the checkers are patient for 120

bool IsOut(const RunState& state, const NodeId& node) {
  return (state.plan && IsDead(*state.plan, node)) || !state.nodes.at(node).alive;
}

// It never got what it was to be given, or its rounds have not begun.
bool OnlyJoins(const RunState& state, const NodeId& node) {
  const Joiner* joiner = JoinerOf(*state.plan, node);
  return joiner != nullptr &&
         (!joiner->IsFixed() ||
          joiner->from_round > state.RoundsCommitted(SlotOf(*state.plan, node)->stage));
}

bool IsLost(const RunState& state, const StageAssignment& stage) {
  return std::all_of(stage.replicas.begin(), stage.replicas.end(), [&](const NodeId& node) {
    return IsOut(state, node) || OnlyJoins(state, node);
  });
}

bool NoDataNodeLeft(const RunState& state) {
  return state.plan && IsLost(state, state.plan->stages.front());
}

// Its parameters cannot be collected; where nothing may be skipped the run ends when it is lost.
bool SomeStageLost(const RunState& state, const RunConfig& config) {
  const bool ends_at_once = config.pipeline.skip_ratio == 0 && config.checkpoint.every_rounds == 0;
  return state.plan && (state.finished || ends_at_once) &&
         std::any_of(state.plan->stages.begin(), state.plan->stages.end(),
                     [&](const StageAssignment& stage) { return IsLost(state, stage); });
}

// Too few volunteers stayed for the run to begin, or to begin again.
bool NeverGathered(VirtualRun& run) {
  const RunState& state = run.checkers().state();
  int32_t up = 0;
  for (size_t i = 0; i < run.options().nodes.size(); ++i) {
    up += run.simulation().IsUp(VirtualRun::node(static_cast<int32_t>(i)));
  }
  const bool gathers = !state.plan || !state.lost.empty();
  return gathers && up < run.options().config.nodes_min;
}

// The nodes that a fault may have cost their place.
class Excuses {
 public:
  explicit Excuses(const SwarmRun& drawn) : drawn_(drawn) {
    for (const Fault& fault : drawn.faults) Add(fault);
    AddStagesOfLiars();
  }

  bool Has(const NodeId& node) const {
    return WasBefallen(node) || drawn_.run->checkers().beside_liars().contains(node);
  }

 private:
  bool WasBefallen(const NodeId& node) const {
    const auto mute = mute_s_.find(node);
    return excused_.contains(node) || drawn_.befallen->contains(node) ||
           (mute != mute_s_.end() && mute->second > kMuteEnough);
  }

  void Add(const Fault& fault) {
    const double lasts_s = fault.lasts ? fault.lasts->seconds() : 1e9;
    switch (fault.kind) {
      case FaultKind::kCut:
      case FaultKind::kLossBurst:
        return AddWay(fault, lasts_s);
      case FaultKind::kHang:
      case FaultKind::kClockJump:
        for (const int32_t node : fault.where.Nodes(drawn_.map)) {
          mute_s_[VirtualRun::node(node - 1)] +=
              fault.kind == FaultKind::kHang ? lasts_s : std::max(0.0, -fault.by.seconds());
        }
        return;
      case FaultKind::kCrash:
      case FaultKind::kRestart:
      case FaultKind::kDiskFull:
      case FaultKind::kPoisonedDelta:
        for (const int32_t node : fault.where.Nodes(drawn_.map)) {
          excused_.insert(VirtualRun::node(node - 1));
          if (fault.kind == FaultKind::kPoisonedDelta) liars_.insert(VirtualRun::node(node - 1));
        }
        return;
      default:
        return;  // no reason to lose a node
    }
  }

  // Heartbeats need the way there, and TCP the way back.
  void AddWay(const Fault& fault, double lasts_s) {
    const auto nodes = static_cast<int32_t>(drawn_.run->options().nodes.size());
    for (int32_t node = 1; node <= nodes; ++node) {
      const bool befalls = (fault.where.Has(node, drawn_.map) && fault.other.Has(0, drawn_.map)) ||
                           (fault.where.Has(0, drawn_.map) && fault.other.Has(node, drawn_.map));
      if (befalls) mute_s_[VirtualRun::node(node - 1)] += lasts_s;
    }
    AddStageMates(fault, lasts_s);
  }

  // Of two replicas that cannot hear each other for so long one has to go.
  void AddStageMates(const Fault& fault, double lasts_s) {
    if (lasts_s < 30 * drawn_.run->options().config.node_silent_s) return;
    const auto nodes = static_cast<int32_t>(drawn_.run->options().nodes.size());
    for (int32_t node = 1; node <= nodes; ++node) {
      const bool befalls = fault.where.Has(node, drawn_.map) || fault.other.Has(node, drawn_.map);
      if (befalls) excused_.insert(VirtualRun::node(node - 1));
    }
  }

  // Unless those that tell the truth are more, nobody can say who lies.
  void AddStagesOfLiars() {
    const auto& plan = drawn_.run->checkers().state().plan;
    if (!plan) return;
    for (const StageAssignment& stage : plan->stages) {
      int32_t liars = 0, honest = 0;
      for (const NodeId& node : stage.replicas) {
        liars += liars_.contains(node);
        honest += !WasBefallen(node);
      }
      if (liars > 0 && honest <= liars)
        excused_.insert(stage.replicas.begin(), stage.replicas.end());
    }
  }

  const SwarmRun& drawn_;
  std::set<NodeId> excused_, liars_;
  std::map<NodeId, double> mute_s_;
};

// A link between two nodes that was cut or slow for long stands in the way of what no detour helps:
// replicas of one stage do not get each other's deltas, and without the link there may be no plan.
enum class Hindered { kNo, kForLong, kForGood };
Hindered HinderedByLinks(const SwarmRun& drawn, bool planned) {
  const auto& plans = drawn.run->checkers().plans();
  const auto of_one_stage = [&](const FaultEnd& a, const FaultEnd& b) {
    return std::any_of(plans.begin(), plans.end(), [&](const auto& plan) {
      const auto one = SlotOf(plan.second, VirtualRun::node(a.index - 1));
      const auto other = SlotOf(plan.second, VirtualRun::node(b.index - 1));
      return one && other && one->stage == other->stage;
    });
  };
  Hindered hindered = Hindered::kNo;
  for (const Fault& fault : drawn.faults) {
    const bool of_nodes = fault.where.kind == FaultEnd::Kind::kNode && fault.where.index > 0 &&
                          fault.other.kind == FaultEnd::Kind::kNode && fault.other.index > 0;
    const bool of_link = fault.kind == FaultKind::kCut || fault.kind == FaultKind::kSlowLink;
    if (!of_nodes || !of_link || (fault.lasts && fault.lasts->seconds() < kLong)) continue;
    if (planned && !of_one_stage(fault.where, fault.other)) continue;
    hindered = std::max(hindered, fault.lasts ? Hindered::kForLong : Hindered::kForGood);
  }
  return hindered;
}

// Somebody whom no fault befell, given up by the others or by itself.
std::string LostWithoutReason(const SwarmRun& drawn) {
  const Excuses excuses(drawn);
  const RunState& state = drawn.run->checkers().state();
  for (size_t i = 0; i < drawn.run->options().nodes.size(); ++i) {
    const NodeId node = VirtualRun::node(static_cast<int32_t>(i));
    if (excuses.Has(node)) continue;
    const auto stopped = drawn.run->simulation().stopped(node);
    const bool too_late =
        stopped && stopped->reason.ends_with("refused this node: the run is finished");
    if (stopped && stopped->exit_code != 0 && !too_late) {
      return absl::StrFormat("%s ended although nothing had befallen it: %s", node.Short(),
                             stopped->reason);
    }
    const bool is_gone = state.nodes.contains(node) && !state.nodes.at(node).alive;
    if (is_gone || drawn.run->checkers().put_out().contains(node)) {
      return absl::StrFormat("%s was put out although nothing had befallen it", node.Short());
    }
  }
  return "";
}

}  // namespace

SwarmRun DrawSwarmRun(const SwarmSeed& seed, const SwarmOutput& wanted) {
  SwarmOutput output = wanted;
  output.introduces_few |= seed.introduces_few;
  SKERRY_CHECK(seed.draw >= 1 && seed.draw <= kSwarmDrawLast);
  switch (seed.draw) {
    case 1:
      return DrawFirst(seed.seed, output);
    case 2:
      return DrawSecond(seed.seed, output);
    case 3:
      return DrawThird(seed.seed, output);
    case 4:
      return DrawFourth(seed.seed, output);
    case 5:
      return DrawFifth(seed.seed, output);
    case 6:
      return DrawSixth(seed.seed, output);
    case 7:
      return DrawSeventh(seed.seed, output);
    case 8:
      return DrawEighth(seed.seed, output);
    case 9:
      return DrawNinth(seed.seed, output);
    case 10:
      return DrawTenth(seed.seed, output);
    case 11:
      return DrawEleventh(seed.seed, output);
    case 12:
      return DrawStorm(seed.seed, output, StormKind::kUsual);
    case 14:
      return DrawStorm(seed.seed, output, StormKind::kQuick);
    case 15:
      return DrawStorm(seed.seed, output, StormKind::kNumbers);
    case 16:
      return DrawStorm(seed.seed, output, StormKind::kFalseSums);
    case 18:
      return DrawEighteenth(seed.seed, output);
    case kScreenedStormDraw:
      return DrawStorm(seed.seed, output, StormKind::kScreened);
    case kClustersStormDraw:
      return DrawStorm(seed.seed, output, StormKind::kClusters);
    case kCohortsStormDraw:
      return DrawStorm(seed.seed, output, StormKind::kCohorts);
    case kOverlapStormDraw:
      return DrawStorm(seed.seed, output, StormKind::kOverlap);
    case kShardedRoomsStormDraw:
      return DrawStorm(seed.seed, output, StormKind::kShardedRooms);
    case kShardedCohortsStormDraw:
      return DrawStorm(seed.seed, output, StormKind::kShardedCohorts);
    case kFalseWorkStormDraw:
      return DrawStorm(seed.seed, output, StormKind::kFalseWork);
    default:
      return DrawGridCell(seed.seed, output);
  }
}

std::string WhatIsWrong(const SwarmRun& drawn, const VirtualOutcome& outcome) {
  const Checkers& checkers = drawn.run->checkers();
  if (drawn.director && outcome.violations.empty()) return drawn.director->WhatIsWrong(outcome);
  const Hindered hindered = HinderedByLinks(drawn, !checkers.plans().empty());
  const bool was_hindered_before = HinderedByLinks(drawn, false) != Hindered::kNo;
  const auto first_wrong = std::find_if(
      outcome.violations.begin(), outcome.violations.end(), [&](const Violation& violation) {
        const bool planned = checkers.planned_at() && violation.at >= *checkers.planned_at();
        const bool excused = planned ? hindered != Hindered::kNo : was_hindered_before;
        return !excused || violation.rule != "liveness";
      });
  if (first_wrong != outcome.violations.end()) {
    const Violation& first = *first_wrong;
    return absl::StrFormat("%s at %.3f s: %s", first.rule, (first.at - Instant()).seconds(),
                           first.what);
  }
  const RunState& state = drawn.run->checkers().state();
  // While a run goes back to a checkpoint everybody is dead in its plan.
  const bool is_gone = state.lost.empty() &&
                       (NoDataNodeLeft(state) || SomeStageLost(state, drawn.run->options().config));
  const bool may_end = hindered == Hindered::kForGood || is_gone || NeverGathered(*drawn.run);
  if (!outcome.finished && !may_end) return "it did not finish: " + outcome.ended;
  return drawn.faults.empty() ? "" : LostWithoutReason(drawn);
}

SwarmTry TrySwarmSeed(const SwarmSeed& seed, bool twice) {
  SwarmRun drawn = DrawSwarmRun(seed);
  VirtualOutcome outcome = drawn.run->Run();
  const Checkers& checkers = drawn.run->checkers();
  SwarmTry tried{.trace_hash = outcome.trace_hash,
                 .handovers = checkers.handovers(),
                 .detours = checkers.detours(),
                 .movers = checkers.movers(),
                 .rewinds = checkers.rewinds(),
                 .steps_together = checkers.steps_together(),
                 .partings = checkers.partings(),
                 .finding = std::nullopt};
  if (drawn.director) {
    tried.faults = drawn.director->faults();
    tried.faulted_rounds = drawn.director->faulted_rounds();
    tried.sums = drawn.director->sums();
  }
  std::string wrong = WhatIsWrong(drawn, outcome);
  if (wrong.empty() && twice) {
    const VirtualOutcome again = DrawSwarmRun(seed).run->Run();
    if (again.trace_hash != outcome.trace_hash) wrong = "its second run had another trace";
  }
  if (!wrong.empty()) {
    if (drawn.director) {
      const auto& told = drawn.director->story();
      drawn.story.insert(drawn.story.end(), told.begin(), told.end());
    }
    tried.finding =
        SwarmFinding{seed, std::move(drawn.story), std::move(outcome), std::move(wrong)};
  }
  return tried;
}

}  // namespace skerry
