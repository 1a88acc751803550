// Random runs with random faults, a seed each: what a seed does wrong once it does wrong again.
//
// A seed draws a small run (configuration, fleet, network, training data) and what befalls it:
// every kind of fault there is (fault_plan.h), at any time, at any record of the coordinator's
// journal. The run must finish under all checkers. It may end otherwise only because too few
// volunteers are left to begin, no data node is left, or a stage lost its last replica before its
// parameters were collected; and nobody may be given up whom no fault befell. Two replicas of one
// stage whose link is cut cannot give each other their deltas: such a run may stand still as long.
//
// Draws have numbers: an older one goes on meaning what it meant, so a seed that was wrong is kept
// as a test by (draw, seed).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sim/fault_plan.h"
#include "sim/network_spec.h"
#include "sim/sum_watch.h"
#include "sim/swarm_director.h"
#include "sim/virtual_run.h"

namespace skerry {

// The present one. 1: frames over links, crashes only; 2: every kind of fault; 3: longer runs in
// which nodes come late and come back, so that their slots are handed on; 4: and in which nodes and
// links are late for long, or for good; 5: as 3 with more nodes than few, a slow one among them,
// and some that go for good, so that others are moved; 6: all of it; 7: and with two or three
// stages of unlike devices, so that more are moved, and settings that the planner chooses; 8:
// as 6 with stages of more replicas, whose rounds are sharded; 9: as 6 with rounds of any mode, at
// times sharded; 10: as 8 with rounds of either kind and a codec for each tensor; 11: as 9 with
// checkpoints, stages that die as a whole, and replicas that are absent; 12: a storm (storm.h); 13:
// a cell of the grid of faults and phases (fault_grid.h); 14: a storm over quicker steps; 15: a
// storm with real arithmetic; 16: and with one who falsifies sums; 17: and with one who passes on
// what comes, and checks of work; 18: as 6, and pairs that do not hear each other find a relay, as
// the real transport does (6 stood still for good where it has none; 7 to 17 are to be asked for);
// 19: as 15, with means as robust as they are by default; 20: as 15, in four rooms whose nodes are
// near each other, and cohorts; 21: as 20 in two rooms, with cohorts for most of the time; 22: as
// 21, and they sum while the next step computes; 23: as 20 with sharded rounds, in every fourth
// seed only where enough speak; 24: as 21 with these, and every other seed as 22.
inline constexpr int32_t kSwarmDraw = 18;
inline constexpr int32_t kSwarmDrawLast = 24;
inline constexpr int32_t kStormDraw = 12;
inline constexpr int32_t kGridDraw = 13;
inline constexpr int32_t kQuickStormDraw = 14;
inline constexpr int32_t kNumbersStormDraw = 15;
inline constexpr int32_t kFalseSumsStormDraw = 16;
inline constexpr int32_t kFalseWorkStormDraw = 17;
inline constexpr int32_t kScreenedStormDraw = 19;
inline constexpr int32_t kClustersStormDraw = 20;
inline constexpr int32_t kCohortsStormDraw = 21;
inline constexpr int32_t kOverlapStormDraw = 22;
inline constexpr int32_t kShardedRoomsStormDraw = 23;
inline constexpr int32_t kShardedCohortsStormDraw = 24;

struct SwarmSeed {
  uint64_t seed = 1;
  int32_t draw = kSwarmDraw;    // in [1, kSwarmDrawLast]
  bool introduces_few = false;  // VirtualRunOptions::introduces_few
};

struct SwarmOutput {
  bool keep_events = false;
  bool stops_at_violation = false;
  bool introduces_few = false;
};

// A run drawn from a seed, its faults already scripted; `story` lists them for people.
struct SwarmRun {
  std::unique_ptr<VirtualRun> run;
  std::vector<std::string> story;
  std::vector<Fault> faults;  // of draws 2 to 11
  NetworkSpec map;            // which node is in which region
  // Whom scripts of the draw befell that chose while the run went on.
  std::shared_ptr<std::set<NodeId>> befallen = std::make_shared<std::set<NodeId>>();
  std::shared_ptr<SwarmDirector> director;  // of draws 12 to 17 and 19 to 24: it judges
};
SwarmRun DrawSwarmRun(const SwarmSeed& seed, const SwarmOutput& output = {});

// The draws (swarm_first_draw.cc, swarm_draw.cc); 12 to 17 and 19 to 24 are in storm.h and
// fault_grid.h.
SwarmRun DrawFirst(uint64_t seed, const SwarmOutput& output);
SwarmRun DrawSecond(uint64_t seed, const SwarmOutput& output);
SwarmRun DrawThird(uint64_t seed, const SwarmOutput& output);
SwarmRun DrawFourth(uint64_t seed, const SwarmOutput& output);
SwarmRun DrawFifth(uint64_t seed, const SwarmOutput& output);
SwarmRun DrawSixth(uint64_t seed, const SwarmOutput& output);
SwarmRun DrawEighteenth(uint64_t seed, const SwarmOutput& output);
SwarmRun DrawSeventh(uint64_t seed, const SwarmOutput& output);
SwarmRun DrawEighth(uint64_t seed, const SwarmOutput& output);
SwarmRun DrawNinth(uint64_t seed, const SwarmOutput& output);
SwarmRun DrawTenth(uint64_t seed, const SwarmOutput& output);
SwarmRun DrawEleventh(uint64_t seed, const SwarmOutput& output);

struct SwarmFinding {
  SwarmSeed seed;
  std::vector<std::string> story;
  VirtualOutcome outcome;
  std::string wrong;  // the first thing that is
};

// What is wrong with a run that is over; empty: nothing.
std::string WhatIsWrong(const SwarmRun& drawn, const VirtualOutcome& outcome);

struct SwarmTry {
  uint64_t trace_hash = 0;
  int64_t handovers = 0;
  int64_t detours = 0;  // microbatches, each time one was led around a node
  int64_t movers = 0;
  int64_t rewinds = 0;
  int64_t faults = 0;                   // likewise
  int64_t faulted_rounds = 0;           // likewise: those that something befell the run in
  int64_t steps_together = 0;           // of members of cohorts
  int64_t partings = 0;                 // from cohorts
  SumTally sums = {};                   // of storms
  std::optional<SwarmFinding> finding;  // nullopt: all is well
};
// Runs one seed, twice if `twice` (the traces must be equal).
SwarmTry TrySwarmSeed(const SwarmSeed& seed, bool twice = false);

}  // namespace skerry
