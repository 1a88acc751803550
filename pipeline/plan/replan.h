// Whether nodes that work should change places (docs/PROTOCOL.md, 27;
// docs/decisions/0010-migration.md).
//
// A plan that was repaired after deaths, or whose nodes have changed since it was made, may lead
// microbatches through a stage that has lost most of its replicas while others are full, or over a
// slow line. Three changes are looked at: a replica moves to the dead slot of another stage (its
// own becomes the dead one), two replicas of different stages exchange slots, a standby takes the
// place of a replica, which then stands by. Slots, layers and paths stay what they are.
//
// A change is worth it when what it gains over the steps that are left pays its cost kPayBack
// times:
//   cost = state of the stages / measured rate of the best donor        (16 bytes per parameter)
//        + (how long movers are missing) · (1 − step now / step without the movers)
//        + the movers' share of the δ + 1 steps that are thrown away
// and what it takes off the work that is likely to be lost because a stage loses its last replica
// (survival.h) counts like seconds gained; a move that puts more at risk must gain that, too, and
// none leaves a stage with fewer replicas than an even share of those who live, rounded down.
// where step times are the evaluator's (routing/evaluator.h) on measured links and devices.
//
// Pure and deterministic. The plans given must be well formed (validate.h).
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "pipeline/plan/planner.h"
#include "pipeline/plan/survival.h"
#include "wire/message/pipeline_plan.h"

namespace skerry {

struct Move {
  NodeId node;
  int32_t from_stage = -1;  // −1: it stands by
  Slot to;
  bool operator==(const Move&) const = default;
};

struct ReplanRequest {
  PlannerInput input;  // configuration, devices and links of the plan's nodes and the standbys
  PipelinePlan plan;
  std::vector<NodeId> standbys;
  std::set<NodeId> at_work;   // replicas that may move, or give their state: who makes rounds now
  std::set<int32_t> resting;  // stages that nobody moves from or to
  int64_t steps_left = 0;
  int64_t steps_done = 0;  // what is lost with the last replica of a stage
  Churn churn;             // as the run has seen it
  int64_t data_bytes = 0;  // what a node lacks that comes to stage 0 the first time
  // False: of a plan that stays as it is nothing but that is wanted. Found with a fraction of the
  // work, since a change that is sure to gain too little need not be predicted to the end.
  bool wants_figures = true;
};

// What a look has cost, in units that are the same on every machine.
struct ReplanWork {
  int64_t models = 0;  // plans made ready for the evaluator
  int64_t tasks = 0;   // run by it
};

struct Replan {
  bool migrates = false;
  std::vector<Move> moves;  // the best change there is, also when it is not worth it
  double now_s = 0;         // a step by the present plan, and by the one after the moves
  double then_s = 0;
  double meanwhile_s = 0;  // while the movers are missing
  double gain_s = 0;       // per step
  double cost_s = 0;
  double risk_now_s = 0;        // expected work lost in the steps counted, without the moves
  double risk_then_s = 0;       // and with them, while they are made included
  int64_t pays_back_steps = 0;  // after so many steps the gain exceeds the cost; 0: never
  int64_t steps_counted = 0;    // of those left, as many as fit into kHorizonS
  int32_t tried = 0;            // changes whose step was predicted
  ReplanWork work;
  std::string why;  // one sentence for people
};

inline constexpr size_t kTried = 64;       // changes predicted, the most promising first
inline constexpr size_t kCosted = 8;       // of those, the fastest whose cost is looked at
inline constexpr double kPayBack = 2;      // how many times the gain must cover the cost
inline constexpr double kGainLeast = 0.1;  // of a step: less is within the model's error
inline constexpr double kHorizonS = 3600;  // nobody knows who will be here later
inline constexpr int64_t kStateBytesPerParameter = 12;  // base, momentum, two moments in bf16

// The best change and whether it is worth it. A replica goes only if another participant of its
// stage stays, two of stage 0 unless somebody takes its place; somebody must be there to give the
// state of the new stage. Dead slots that a standby can fill are left to it: that costs less.
// Without wants_figures `migrates` is the same, and so is the rest of what migrates.
Replan ChooseMoves(const ReplanRequest& request);

// The next version of `plan`: the movers are joiners of their new slots, whose former nodes are in
// the movers' old ones if those are free, dead there unless they move too, and else in none.
// `rounds`: committed, by stage. CHECK: moves are of different nodes to different slots.
PipelinePlan WithMoves(const PipelinePlan& plan, const std::vector<Move>& moves,
                       const std::map<int32_t, int64_t>& rounds);

// Seconds of a step, outer traffic that is not hidden included, when everybody who lives or joins
// works; infinite when a link that is needed is unknown. The dead play no part.
double PredictedStepSeconds(const PlannerInput& input, const PipelinePlan& plan);

// "3fa9 from stage 1 to stage 2, …", for people.
std::string MovesText(const std::vector<Move>& moves);

}  // namespace skerry
