// The plan: who holds which layers, and which way every microbatch goes. Written by the
// coordinator, versioned.
//
// The *logical* plan (stages, layer ranges, replicas per stage, paths over slots) is a function of
// the configuration and of how many nodes there are; measurement decides which node fills which
// slot. So training computes the same bits whichever machine holds which slot.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "common/ids.h"
#include "common/run_config.h"

namespace skerry {

inline constexpr int32_t kReplicaShareMax = 1 << 10;

struct StageAssignment {
  int32_t first_layer = 0;  // layers [first_layer, last_layer)
  int32_t last_layer = 0;
  std::vector<NodeId> replicas;  // slot r of the stage is replicas[r]
  // What part of sharded rounds each slot sums, in proportion; empty: equal parts.
  std::vector<int32_t> shares = {};
  // Layers that were made from their neighbours when nobody was left of them, sorted, one entry
  // each time: their inner learning rate is larger (model/stage_remake.h).
  std::vector<int32_t> remade = {};
  // By slot: slots of one number are a cohort, whose members sum their gradients every step and so
  // hold the same weights (docs/decisions/0058-clusters.md); empty: each slot is its own.
  std::vector<int32_t> cohorts = {};
  bool operator==(const StageAssignment&) const = default;
};

// One visit of a path: replica `replica` of stage `stage`.
struct Slot {
  int32_t stage = 0;
  int32_t replica = 0;
  auto operator<=>(const Slot&) const = default;
};

// A closed tour written open: path.front() is the stage-0 slot it starts from and returns to;
// stages are distinct.
using Path = std::vector<Slot>;

// A node that fills a slot and has to be given its state first (docs/PROTOCOL.md, 16). For the way
// of microbatches its slot counts as dead before `from_step`, and is a replica like any other from
// then on.
struct Joiner {
  NodeId node;
  int64_t since = 0;  // version of the plan that named it
  int64_t base_version =
      0;                    // rounds of its stage committed then: from here on it holds every delta
  int64_t from_step = -1;   // −1: not fixed yet
  int64_t from_round = -1;  // the round in which that step lies: its first as a participant
  bool IsFixed() const { return from_step >= 0; }
  bool operator==(const Joiner&) const = default;
};

// A round of a stage that is frozen without the delta of a live replica, which was late by far
// (docs/PROTOCOL.md, 32). What it has learnt stays with it and is in its next message.
struct Absence {
  int32_t stage = 0;
  int64_t round = 0;
  NodeId node;
  auto operator<=>(const Absence&) const = default;
};

// What the configuration left to the planner; what it did not is at its "as configured" value. And
// what depends on who is there.
struct PlannedSettings {
  int64_t inner_steps = 0;     // 0: as configured
  int64_t overlap_steps = -1;  // −1: as configured
  bool has_codec = false;
  DeltaCodec codec = DeltaCodec::kNone;  // counts if has_codec
  int32_t sequences_per_microbatch = 0;  // 0: as configured
  int32_t in_flight = 0;                 // 0: as configured
  bool spreads = false;  // the visits of the dead go to all others in turn, not to the next one
  // What the planner expects, in whole seconds: before nodes have seen any they know what is late.
  // 0: unknown.
  int32_t round_s = 0;  // a round, from its boundary until all is here
  uint16_t step_s = 0;
  bool operator==(const PlannedSettings&) const = default;
};

// A directed link on which activations and gradients travel as PipelineConfig::slow_link_codec.
struct SlowLink {
  NodeId from;
  NodeId to;
  auto operator<=>(const SlowLink&) const = default;
};

// Where a plan begins, if not at step 0 with weights made from the seed: with the state of a
// checkpoint, which nodes fetch from the coordinator (docs/PROTOCOL.md, 39).
struct PlanStart {
  int64_t since = 0;  // version of the plan that set it; 0: none did. What was sent under an older
                      // plan is of a past that does not count any more
  int64_t round = 0;  // the base's version: rounds below are over
  int64_t step = 0;   // the first inner step
  bool operator==(const PlanStart&) const = default;
};

struct PipelinePlan {
  int64_t version = 0;  // grows by one with every plan of the run
  int32_t microbatches_per_step = 0;
  std::vector<StageAssignment>
      stages;  // stage 0 first; it also holds embedding, final norm and head
  std::vector<Path>
      paths;  // microbatch m of step k takes paths[(k · microbatches_per_step + m) mod size]
  std::vector<NodeId> dead;     // sorted; live replicas of the stage stand in for them
  std::vector<Joiner> joining;  // by node; of the plan and not dead
  PlannedSettings settings;
  std::vector<SlowLink> slow_links;  // sorted
  std::vector<Absence> absent = {};  // sorted; of rounds that somebody may not have landed yet
  PlanStart start = {};
  bool operator==(const PipelinePlan&) const = default;
};

// A plan that nobody changes any more. It is large: the message, the node, its stage and in a
// simulation all nodes hold the same one. Copying and comparing copies is cheap; any thread.
class SharedPlan {
 public:
  SharedPlan(PipelinePlan plan = {})
      : plan_(std::make_shared<const PipelinePlan>(std::move(plan))) {}
  operator const PipelinePlan&() const { return *plan_; }
  const PipelinePlan& operator*() const { return *plan_; }
  const PipelinePlan* operator->() const { return plan_.get(); }
  bool operator==(const SharedPlan& o) const { return plan_ == o.plan_ || *plan_ == *o.plan_; }

 private:
  std::shared_ptr<const PipelinePlan> plan_;
};

// The configuration with what the planner chose filled in: what a run trains with.
RunConfig Settled(RunConfig config, const PipelinePlan& plan);

}  // namespace skerry
