// One node's pipeline: receives activations and gradients, decides what the device does next, sends
// results on.
//
// A step k of this node is over when every microbatch planned through it has been accumulated, in
// microbatch order; so the bits do not depend on when messages come. What arrives for a later step
// waits; what arrives for an earlier one (a microbatch that was sent again after a death) is
// computed and counts in the present step.
//
// A part of the node's actor: single-threaded, sees the world through Context. One device job at a
// time is handed out, so that the choice (backward before loss before forward before a new start;
// smaller microbatch first) is made late.
//
// States of a visit (one microbatch at one node):
//   kExpected   planned, nothing has come
//   kReady      its input is here, waiting for the device
//   kRunning    the device computes it
//   kAway       forward done and sent on, its gradient has not come back
//   kDone       gradient computed, waits for its turn to be accumulated
//
// In a cohort the last backward pass of a step runs in parts (StageWork::GradientParts), and gives
// each away when it is made, so that its sum over the members is under way while the pass goes on.
// From the first part given, all microbatches of the step count, whatever becomes of attempts.
//
// Who is late is led around (docs/PROTOCOL.md, "Late"; stage_actor_late.cc): the stage-0 node of a
// microbatch is the authority of its attempts, hears from the others of the path where it hangs,
// and takes another path; a node that it has led a microbatch around never sees that one again.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "pipeline/exec/avoidance.h"
#include "pipeline/exec/boundary_tally.h"
#include "pipeline/exec/lateness.h"
#include "pipeline/exec/stage_work.h"
#include "pipeline/exec/step_tracer.h"
#include "wire/actor.h"

namespace skerry {

class StageActor {
 public:
  // What may wait here for a later step; beyond it a sender is misbehaving and is refused.
  static constexpr size_t kVisitsMax = 4096;

  // Steps that whoever waits for something else may be behind those who lead around it.
  static constexpr int64_t kVoidAheadMax = 4096;

  // HopLate messages at a tick.
  static constexpr int32_t kReportsMax = 64;

  struct Options {
    NodeId self;
    int64_t first_step = 0;     // the first that BeginStep will be called for
    int64_t lag_max = 64;       // steps that another node may be behind this one
    int32_t in_flight = 4;      // own microbatches (stage 0) in the pipeline at a time
    Duration late_floor;        // nothing is late before; zero: nothing is ever led around
    Duration tick;              // how often OnTick is called
    bool may_leave_out = true;  // a stage of which everybody is late
    // The one that others may use on the plan's slow links, and that this node does.
    DeltaCodec slow_link_codec = DeltaCodec::kNone;
    // Gradients held for microbatches that wait for their turn; beyond it only the one whose turn
    // is next goes backward. Changes when things are computed, never what. 0: no limit.
    int32_t gradients_max = 0;
    int64_t inner_steps = 1;  // of a round: which steps are traced
    StageWork* work = nullptr;
    std::function<void(Context&, const NodeId&, Message)> send;
    std::function<JobId(Context&, Job)> submit;               // work for the device
    std::function<void(Context&, const StepReport&)> report;  // stage 0: own microbatches of a step
    std::function<void(Context&, const absl::Status&)> failed;  // the device could not do its work
    // How large what passed was, of eight steps; may be empty.
    std::function<void(Context&, BoundarySizes)> sizes;
    // Whether the open step's gradients may be given away in parts; and that a part is there to be
    // given (StageWork::TakePart), of so many microbatches in all. Empty: they are not.
    std::function<bool()> gives = {};
    std::function<void(Context&, const GradientsMade&)> give = {};
    // Stage 0: a Detour or a VoidList that the coordinator is to pass on too; may be empty.
    std::function<void(Context&, const Message&)> pass_on;
  };
  StageActor(Options options, SharedPlan plan);

  // Starts step `step`; StepDone() is false until it is over. Call only when no step is open.
  void BeginStep(Context& context, int64_t step);
  bool StepOpen() const { return step_open_; }
  int64_t step() const { return step_; }  // the open one, or the last
  int32_t step_microbatches() const {
    return accumulated_;
  }  // accumulated in the open (or last) step

  void OnActivation(Context& context, const NodeId& from, const Activation& activation);
  void OnGradient(Context& context, const NodeId& from, const Gradient& gradient);
  void OnVoid(Context& context, const NodeId& from, const MicrobatchVoid& message);
  // Passed on: by the coordinator, which has it from the stage-0 node of these microbatches.
  void OnVoidList(Context& context, const NodeId& from, const VoidList& message, bool passed_on);
  void OnHopLate(Context& context, const NodeId& from, const HopLate& message);
  // A newer plan: routes around the newly dead.
  void OnPlan(Context& context, const SharedPlan& plan);

  // Tells of microbatches that are late, or leads them around. Call now and then (Options::tick).
  void OnTick(Context& context);

  // True if it gave the device something to do. Call when the device is idle.
  bool SubmitNext(Context& context);
  // The job that SubmitNext handed out is done, which took so long. Returns false if `job` is not
  // this actor's.
  bool OnJobDone(Context& context, JobId job, Duration took);

  const PipelinePlan& plan() const { return plan_; }
  int64_t refused() const { return refused_; }
  struct Passes {
    int64_t count = 0;
    Duration took;
  };
  const Passes& backwards() const { return backwards_; }  // whole ones, wanted or not
  int64_t tokens() const { return tokens_; }              // whose gradients were accumulated here
  // The most that payloads took which waited for the device.
  int64_t input_bytes_peak() const { return input_bytes_peak_; }
  bool IsWaiting() const { return Awaits().has_value(); }
  std::string WaitingFor() const;  // for people; "": for nothing
  // Call when the optimizer's step is done: when the device did what in it, of one that is traced.
  std::optional<StepTrace> TakeTrace(Instant now) { return tracer_.End(now); }

 private:
  using Key = std::pair<int64_t, int32_t>;  // step, microbatch
  enum class State : uint8_t { kExpected, kReady, kRunning, kAway, kDone };
  enum class Task : uint8_t { kBackward, kLoss, kForward, kStart };  // in order of preference

  struct Visit {
    State state = State::kExpected;
    Task task = Task::kForward;  // what kReady and kRunning are about
    int32_t attempt = 0;
    Path path;
    int32_t hop = 0;
    PassInput input;
    Instant ready;              // when that came
    bool has_gradient = false;  // the device holds one, if only the head's part
    bool counted = false;  // an earlier attempt was accumulated: this one's gradient is dropped
    Instant sent;          // kAway: since when, on the clock of lateness_
    bool was_disturbed = false;  // an attempt was given up meanwhile
    // Of own ones.
    Instant started;                       // the attempt
    int32_t given_up = 0;                  // attempts that were late
    std::set<NodeId> around;               // were told that it never comes to them (again)
    std::map<int32_t, Instant> late_hops;  // of the attempt: who said last when that it waits
    NodeId last_reporter;                  // of the attempt before: the furthest of them
  };
  using Visits = std::map<Key, Visit>;
  // What a stage-0 node declared void: its attempts up to `attempt`.
  struct Void {
    NodeId home;
    int32_t attempt = 0;
  };
  struct Running {
    JobId job = 0;
    Key key;
    Task task = Task::kForward;
    int32_t attempt = 0;
    Instant ready, start;
    std::shared_ptr<WorkResult> result;
    std::function<Job(size_t part)> parts = {};  // of a pass in parts
    size_t part = 0;
    Duration took = {};               // all jobs so far
    std::vector<int32_t> given = {};  // what its parts are of; empty: it gives nothing away
  };

  bool IsOwn(const Visit& visit) const;
  bool PathIsValid(const Path& path) const;
  NodeId NodeAt(const Path& path, int32_t hop) const;
  void MakeReady(const Context& context, Visit& visit, Task task, PassInput input);
  void Trace(const Context& context, const Running& done, const Visit& visit);
  void NoteSizes(const Running& done, const Visit& visit);
  void TellSizes(Context& context, int64_t step);
  // What the first microbatch that is not over waits for, while the device has nothing to do.
  struct Awaited {
    const char* what;
    int32_t microbatch;
    NodeId from;
  };
  std::optional<Awaited> Awaits() const;
  bool HasRightSize(const PassInput& input) const;
  DeltaCodec SendAs(const Visit& visit) const;
  void Finish(Context& context, Key key, Visit& visit, const WorkResult& result);
  void AccumulateReady(Context& context);
  void CloseStepIfOver(Context& context);
  bool IsOver(Key key) const;
  void VoidPast(Context& context, const PipelinePlan& before);
  void DropForGood(Context& context, Key key);
  void Restart(Context& context, Key key, Visit& visit);
  void Drop(Context& context, Key key);
  std::optional<NodeId> LeaderOf(Key key) const;
  bool IsVoid(Key key, const NodeId& home, int32_t attempt) const;
  bool MakesWay(Context& context, Visits::iterator it, const Activation& activation);
  Instant LateClock(const Context& context) const;
  void NoteAnswer(Context& context, Key key, const Visit& visit);
  void Disturb();
  int32_t Culprit(Visit& visit, Instant now) const;
  void LeadAround(Context& context, Key key, Visit& visit);
  void VoidForGood(Context& context, const Detour& detour);
  void SayEnded(Context& context, const NodeId& node, std::span<const VoidList::Microbatch> keys);
  void ForgetAvoided(const PipelinePlan& before);
  bool HasWayAround(Key key, const Visit& visit, const NodeId& node) const;
  void ChoosePath(Context& context, Key key, Visit& visit, const NodeId* culprit = nullptr,
                  Duration waited = {});
  void RecordLoss(Key key, const WorkResult& result);
  int32_t OwnInFlight() const;
  bool IsNext(Key key) const;
  bool MayTakeGradient(Key key, const Visit& visit) const;
  void Run(Context& context, Key key, Visit& visit);
  // stage_actor_parts.cc
  bool EndsStep(Key key, const Visit& visit) const;
  std::function<Job(size_t part)> PartsOf(Key key, const PassInput& input, DeltaCodec send_as,
                                          const std::shared_ptr<WorkResult>& result) const;
  bool RunNextPart(Context& context);
  void GiveFrom(Key key);
  bool IsGivenAway(Key key) const { return !running_.given.empty() && running_.key == key; }
  void Discard(Context& context, Key key) const;

  Options options_;
  SharedPlan plan_;
  int64_t step_ = -1;
  bool step_open_ = false;
  Visits visits_;              // of the open step, early ones, and those sent again
  std::set<int32_t> pending_;  // of the open step, not yet accumulated
  std::set<Key> counted_;      // accumulated, of steps that others may still be in
  std::set<Key> voided_;       // for good, of steps not begun here
  std::map<Key, Void> void_;   // of steps that others may still be in
  std::optional<Lateness> lateness_;
  std::optional<Avoidance> avoidance_;
  int32_t accumulated_ = 0;
  int32_t carried_ = 0;  // late ones accumulated between two steps
  StepReport report_;
  Passes backwards_;
  StepTracer tracer_;
  BoundaryTally tally_;
  std::map<int32_t, MicrobatchLoss> losses_;
  Running running_;
  int64_t refused_ = 0;
  int64_t tokens_ = 0;
  int64_t input_bytes_peak_ = 0;
};

}  // namespace skerry
