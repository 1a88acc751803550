// The rules that must hold in every run, whatever fails: watched over messages, journal records and
// what stages do, on real or virtual time. The first violation names its rule.
//
//   plan_agreement            a plan's version means one plan; it was journalled before it was
//   sent;
//                             nobody who has rounds makes a step from which on a joiner works
//                             without having heard of it
//   base_agreement            replicas report one digest for one (stage, base version); who reports
//                             another is put out before the run ends
//   rounds_atomic             a (stage, round) is committed once, journalled first, when every live
//                             replica and joiner has said that it holds every participant's
//                             message, or in a sharded round every participant's sum over those
//                             that take part; replicas have one set
//   rounds_on_time            a replica encodes at the boundary and lands the round δ inner steps
//                             later, or after the last step: neither earlier nor later
//   delta_conservation        a round takes of a replica's progress what its accepted message
//                             carries, no more, no less (conservation.h; with arithmetic only)
//   microbatch_conservation   a process counts a microbatch once, and only one that a plan leads
//                             through it, or that was led around another replica of its stage, as
//                             the microbatch's stage-0 node said; without deaths it counts those of
//                             the plan, in their order, but for those led around it, and steps by
//                             as many as it counted since it last did
//   ledger_exact              a microbatch is credited once, with one loss; at the end all are,
//                             but for those that died with their data node; and what
//                             `skerry-coordinator audit` finds of records and samples
//                             (coordinator/audit.h)
//   liveness                  while a step is left, somebody's steps grow, in a run that its
//                             operator paused up to the step that he named
//   bounded_queues            nothing waits without limit
//   cohort_agreement          members of a cohort hold the same weights after every step, bit for
//   bit;
//                             a round takes one message of a cohort at most, in a sharded one too
//                             what all its living members have said that they made
//   delivery_exact            what one process sends another arrives once, in order
//                             (delivery_checker.h)
//
// Not thread-safe. Memory grows with what a run does within a few rounds, not with its length.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/instant.h"
#include "common/run_config.h"
#include "coordinator/audit.h"
#include "coordinator/run_state.h"
#include "sim/delivery_checker.h"
#include "wire/message/message.h"

namespace skerry {

struct Violation {
  std::string rule;
  std::string what;  // who, which step or round, wanted and got
  Instant at;
};

struct CheckerOptions {
  RunConfig config;
  NodeId coordinator;
  std::set<std::string> rules;                 // those that are checked; empty: all
  std::set<NodeId> liars;                      // whose arithmetic is falsified: they may disagree
  Duration patience = Duration::Seconds(120);  // without a step, or 10 predicted ones if longer
  int64_t queue_max = 4096;                    // messages to one peer that it has not acknowledged
};

const std::vector<std::string>& CheckerRules();

class Checkers {
 public:
  explicit Checkers(CheckerOptions options);

  int64_t queue_max() const { return options_.queue_max; }

  void OnPersist(Instant now, const NodeId& node, const std::string& record);
  void OnSent(const NodeId& from, const NodeId& to, const Message& message);
  void OnWithdrawn(const NodeId& from, const NodeId& to, const Message& message) {
    delivery_.OnWithdrawn(from, to, message);
  }
  // It was delivered.
  void OnMessage(Instant now, const NodeId& from, const NodeId& to, const Message& message);
  // A process starts or ends; what it held in memory is gone.
  void OnLife(Instant now, const NodeId& node);
  void OnAccumulated(Instant now, const NodeId& node, int64_t step, int32_t microbatch);
  // An inner step over so many microbatches.
  void OnStepped(Instant now, const NodeId& node, int64_t step, int32_t microbatches);
  // One on the sums of its cohort, and the digest of the weights that came of it.
  void OnSteppedTogether(Instant now, const NodeId& node, int64_t step, const Digest& weights);
  // Round `round` of its process was encoded, or landed, after so many complete inner steps.
  void OnEncoded(Instant now, const NodeId& node, int64_t round, int64_t step);
  void OnApplied(Instant now, const NodeId& node, int64_t round, int64_t step);
  // What ConservationError says of the round.
  void OnSettled(Instant now, const NodeId& node, int64_t round, double error);
  void OnQueue(Instant now, const NodeId& node, int64_t waiting);
  // With what the planner chose, once there is a plan.
  const RunConfig& config() const { return options_.config; }
  // Call now and then. `able`: enough is up to make progress.
  void OnTick(Instant now, bool able);
  // The run says that it is finished.
  void AtEnd(Instant now);

  const std::vector<Violation>& violations() const { return violations_; }
  const RunState& state() const { return audit_.state(); }               // as the journal tells it
  const std::map<int64_t, SharedPlan>& plans() const { return plans_; }  // all, by version
  std::optional<Instant> planned_at() const { return planned_at_; }      // the first of them
  // Who was taken for dead or evicted while it had a part in the plan.
  const std::set<NodeId>& put_out() const { return put_out_; }
  int64_t handovers() const { return handovers_; }  // that came to a first step
  int64_t detours() const { return detours_; }      // microbatches, each time one was led around
  int64_t rewinds() const { return rewinds_; }      // times that the run went back
  int64_t movers() const { return movers_; }        // who worked and were moved, or replaced
  int64_t steps_together() const { return steps_together_; }  // that a member of a cohort made
  int64_t partings() const { return partings_; }  // plans by which somebody alive left a cohort
  // Who was in a stage with as many liars as others at least: nobody can say there who lies.
  const std::set<NodeId>& beside_liars() const { return beside_liars_; }

 private:
  void Violate(Instant now, const char* rule, std::string what);
  bool Checks(const char* rule) const;
  void Check(Instant now, const NodeId& to, const PlanUpdate& update);
  void Check(Instant now, const NodeId& from, const RoundCommit& commit);
  void Check(Instant now, const NodeId& from, const RoundApplied& applied);
  void Check(Instant now, const NodeId& from, const Heartbeat& beat);
  void Check(Instant now, const NodeId& from, const DeltaHeld& held);
  void Check(Instant now, const NodeId& from, const SumsHeld& held);
  template <typename Other>
  void Check(Instant, const NodeId&, const Other&) {}
  void NoteFindings(Instant now);
  void NoteGone();
  void NoteRewind(Instant now);
  void CheckPlanRecord(Instant now);
  void NoteNewPlan(Instant now, const PipelinePlan* before, const PipelinePlan& plan);
  void NoteMoved(Instant now, const PipelinePlan& before, const PipelinePlan& plan);
  void CheckSound(Instant now, const PipelinePlan* before, const PipelinePlan& plan);
  void CheckNobodyIsPast(Instant now, const PipelinePlan& plan, const Joiner& joiner);
  void NoteLiars(const PipelinePlan& plan);
  void CheckHeardOfJoiners(Instant now, const NodeId& node, int64_t step);
  void NoteLedAround(const VoidList::Microbatch& led, const NodeId& around);
  bool WasLedAround(int64_t step, int32_t microbatch) const;
  bool WasLedTo(const NodeId& node, int64_t step, int32_t microbatch) const;
  void CheckStepIsWhole(Instant now, const NodeId& node, int64_t step, int32_t microbatches);
  bool SomePlanLeadsThrough(const NodeId& node, int64_t step, int32_t microbatch) const;
  void CheckCommitRecords(Instant now);
  void CheckDeltasHeld(Instant now, const RoundCommit& commit);
  void CheckSumsHeld(Instant now, const RoundCommit& commit);
  void NotePartings(const PipelinePlan& before, const PipelinePlan& plan);
  void CheckOneOfCohort(Instant now, const RoundCommit& commit);
  void CheckMadeByCohorts(Instant now, const RoundCommit& commit);
  void CheckBasesAtEnd(Instant now);
  void CheckLedgerAtEnd(Instant now);
  int64_t MicrobatchesLostAtMost() const;
  int64_t NotCreditedBelow(int64_t step) const;

  CheckerOptions options_;
  JournalAudit audit_;
  size_t findings_seen_ = 0;
  std::map<int64_t, SharedPlan> plans_;  // journalled
  std::optional<Instant> planned_at_;
  std::map<std::pair<int32_t, int64_t>, std::map<Digest, std::set<NodeId>>> digests_;
  std::map<NodeId, std::set<std::pair<int64_t, int32_t>>> counted_;  // of its present life
  std::map<NodeId, std::pair<int64_t, int32_t>> last_counted_;  // of those not led around anybody
  std::map<NodeId, int32_t> counted_since_step_;                // its last
  // Around whom a microbatch was led, as its stage-0 nodes said before anybody could act on it.
  std::map<std::pair<int64_t, int32_t>, std::set<NodeId>> led_around_;
  using Holdings = std::map<NodeId, std::map<NodeId, Digest>>;  // holder → sender → message
  std::map<RunState::StageRound, Holdings> held_;
  struct Sums {
    uint64_t shape = 0;
    std::map<NodeId, Digest> digests;
  };
  std::map<RunState::StageRound, std::map<NodeId, Sums>> sums_held_;  // by holder, the latest
  std::map<int32_t, int64_t> commits_checked_;                        // of each stage
  std::pair<int64_t, int64_t> lives_checked_;  // RunState::lives, version of the plan
  DeliveryChecker delivery_;
  std::map<NodeId, int64_t> heard_plan_;  // newest version delivered to its process
  std::map<NodeId, int64_t> made_;        // the last step that its process made
  std::map<NodeId, int64_t> fixed_by_;    // joiners: the version that fixed their first step
  std::set<NodeId> put_out_;
  std::set<NodeId> beside_liars_;
  bool all_alive_ = true;  // nobody of the plan has died yet
  int64_t rewinds_ = 0;
  int64_t lost_to_rewinds_ = 0;
  std::map<RunState::StageRound, std::vector<RoundCommit>> past_commits_;  // of before them
  int64_t data_node_deaths_ = 0;
  int64_t handovers_ = 0;
  int64_t detours_ = 0;
  int64_t movers_ = 0;
  struct Together {  // of a cohort, by its number in the plan that its member had heard of
    int32_t stage = 0, cohort = 0;
    int64_t start = 0, step = 0;
    auto operator<=>(const Together&) const = default;
  };
  std::map<Together, std::pair<NodeId, Digest>> weights_;
  int64_t steps_together_ = 0, partings_ = 0;
  std::map<NodeId, int64_t> step_of_;
  int64_t best_step_ = 0;
  Instant progress_;
  std::vector<Violation> violations_;
};

}  // namespace skerry
