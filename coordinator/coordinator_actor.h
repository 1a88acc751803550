// The coordinator of a run as a state machine: admits nodes, has links measured, plans, freezes
// outer rounds, keeps the ledger, notices deaths, collects the model. docs/PROTOCOL.md tells the
// story by number.
//
// Its state is RunState, a fold of the journal: every change is a record, persisted before anything
// that follows from it is sent. What is not in the journal (who was heard when, which deltas are
// held where) nodes tell again after a restart. Handlers: ops_*.cc, periodic work: duties.cc.
//
// A run goes through: *gathering* (nodes_min nodes, readings of their links), *planning* (a job),
// *training* (rounds are frozen, deaths are routed around), *finished* (no step is left; the model
// is collected stage by stage), *exported* (everybody is sent home). Only the journal moves it on.
//
// A node is *alive* (its process is here) and it *takes part* (a slot of the plan is its own and
// not dead). One that died and returned, or came late, is alive without taking part: a standby,
// until a dead slot is handed to it (ops_handover.cc). Who takes part may be moved to another slot
// where that shortens the run (ops_replan.cc). At most nodes_max are *active*: measured, planned,
// told of each other. Others are in reserve.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/acquaintances.h"
#include "coordinator/coordinator_options.h"
#include "coordinator/coordinator_parts.h"
#include "coordinator/line_testing.h"
#include "coordinator/probe_schedule.h"
#include "coordinator/run_state.h"
#include "coordinator/state_roots.h"
#include "localsgd/table_choice.h"
#include "pipeline/plan/handover.h"
#include "pipeline/plan/replan.h"
#include "pipeline/plan/speed_watch.h"
#include "routing/link_estimator.h"
#include "wire/actor.h"

namespace skerry {

class CoordinatorActor final : public Actor {
 public:
  static constexpr size_t kNodesMax = 10'000;  // ever admitted to one run

  // DataLoss names the damaged record of the journal.
  static absl::StatusOr<std::unique_ptr<CoordinatorActor>> Create(CoordinatorOptions options);

  void OnStart(Context& context) override;
  void OnMessage(Context& context, const NodeId& from, const Message& message) override;
  void OnTimer(Context& context, TimerId timer) override;
  void OnJobDone(Context& context, JobId job) override;
  void OnPeerRestarted(Context& context, const NodeId& peer) override;

  void SetCoordinators(Context& context, std::vector<std::string> endpoints);
  // What the operator said, once; ops_admission.cc, ops_orders.cc.
  void Obey(Context& context, const AdmissionOrder& order);
  const RunState& state() const { return state_; }
  // Messages that changed nothing: from strangers, out of turn, or of no meaning.
  int64_t refused() const { return refused_; }

 private:
  explicit CoordinatorActor(CoordinatorOptions options);
  struct Checkpointing;  // the generation being made: checkpointing.h

  // ops_membership.cc
  void On(Context& context, const NodeId& from, const Hello& message);
  void On(Context& context, const NodeId& from, const Heartbeat& message);
  void On(Context& context, const NodeId& from, const Leave& message);
  void On(Context& context, const NodeId& from, const LinkReading& message);  // ops_reach.cc
  void On(Context& context, const NodeId& from, const ObjectRequest& message);
  void NameHolders(Context& context, const NodeId& from, const ObjectRequest& request);
  void On(Context& context, const NodeId& from, const Reachability& message);  // ops_reach.cc
  void On(Context& context, const NodeId& from, const Acquaint& message);      // ops_acquaint.cc
  void On(Context& context, const NodeId& from, const StepReport& message);    // ops_training.cc
  void On(Context& context, const NodeId& from, const DeltaHeld& message);
  void On(Context& context, const NodeId& from, const SumsHeld& message);
  void On(Context& context, const NodeId& from, const RoundApplied& message);
  void On(Context& context, const NodeId& from, const DeltaStatistics& message);  // ops_tables.cc
  void On(Context& context, const NodeId& from, const ObjectChunk& message);
  void On(Context& context, const NodeId& from, const CheckpointState& message);
  void On(Context& context, const NodeId& from, const Detour& message);
  void On(Context& context, const NodeId& from, const VoidList& message);
  void On(Context& context, const NodeId& from, const RoundLate& message);  // ops_late.cc
  void DrawSumChecks(Context& context, const RoundCommit& commit);          // ops_sum_checks.cc
  bool OnSumJob(Context& context, JobId job);
  void TendSumChecks(Context& context);
  void On(Context& context, const NodeId& from, const StateRoot& message);  // ops_state.cc
  void On(Context& context, const NodeId& from, const StateRefuted& message);
  void On(Context& context, const NodeId& from, const StepTrace& message);  // ops_trace.cc
  void On(Context& context, const NodeId& from, const SumChecked& message);
  void On(Context& context, const NodeId& from, const WorkChecked& message);  // ops_work_checks.cc
  void TendWorkChecks(Context& context);
  void On(Context& context, const NodeId& from, const BoundarySizes& message);  // ops_sizes.cc
  void TendSizes(Context& context);
  void On(Context& context, const NodeId& from, const CohortBroken& message);  // ops_cohorts.cc
  void TendCohorts(Context& context);
  void PartFromCohort(Context&, const NodeId& node, int32_t stage, const std::string& why);
  void On(Context& context, const NodeId& from, const SumShown& message);
  void On(Context& context, const NodeId& from, const LeftOverSent& message);
  template <typename Other>
  void On(Context&, const NodeId&, const Other&) {
    ++refused_;
  }

  void Record(Context& context, std::string record);
  void Settle();
  void Admit(Context& context, const NodeId& from, const Hello& hello);
  struct Verdict;  // ops_admission.cc
  Verdict Judge(const NodeId& from, const Hello& hello) const;
  void Refuse(Context& context, const NodeId& node, const std::string& why, bool waits = false);
  void Ask(Context& context, const NodeId& from, const Hello& hello, const std::string& ticket);
  void Dismiss(Context& context, const NodeId& node);
  void HangUpOnDismissed(Context& context);
  void PutOut(Context& context, const NodeId& node, const std::string& why);
  nlohmann::json RefusalsJson() const;
  std::string ObeyOfRun(Context& context, const AdmissionOrder& order);  // ops_orders.cc
  std::string PauseAhead(Context& context, const std::string& why);
  void TellPause(Context& context, const NodeId& node) const;
  void GoOn(Context& context);
  bool IsAtPause() const;
  double StepSeconds() const;
  void Greet(Context& context, const NodeId& node, const Hello& hello, bool peers_changed);
  void Introduce(Context& context, const NodeId& node, const Hello& hello, bool peers_changed);
  // ops_reach.cc
  void TakeAddress(NodeRecord& record, const Hello& hello) const;
  void TestReach(Context& context, const NodeId& node);
  void TestAgain(Context& context);
  void Farewell(Context& context, const NodeId& node);
  bool HasPlaceFor(const NodeId& node) const;
  bool TakePlace(const NodeId& node);
  void Activate(Context& context, const NodeId& node);
  void FillPlaces(Context& context);
  bool IsAhead(const Hello& hello) const;  // ops_ahead.cc
  void TendAhead(Context& context);
  // ops_acquaint.cc
  void SendPeers(Context& context, const NodeId& to);
  void PeersChanged(Context& context, const NodeId& node);
  void SendChangedPeers(Context& context);
  void TellEverybody(Context& context);
  void TellAcquaintances(Context& context);
  void TellLater(Context& context, const NodeId& to, const NodeId& of);
  void Introduce(Context& context, const NodeId& node, const std::set<NodeId>& others);
  void IntroducePartners(Context& context);
  void ChooseRelays();
  const std::vector<NodeId>& PartnersInPlan(const NodeId& node);
  Peer PeerOf(const NodeId& node) const;
  enum class Gone { kDead, kLeft, kEvicted };
  void DeclareGone(Context& context, const NodeId& node, Gone how, const std::string& why);
  void RouteAround(Context& context, const NodeId& node, const std::string& reason);
  void GoOnWithout(Context& context);
  void GiveUp(Context& context, const std::string& reason);
  void HeardFromGone(Context& context, const NodeId& node, const Message& message);
  void TellOfDeath(Context& context, const NodeId& node);
  void NoteStarted(Context& context, const NodeId& node);
  bool IsLost() const;
  bool IsOfVoidedPast(int64_t plan_version) const;
  bool TakesPart(const NodeId& node) const { return StageOf(node).has_value(); }
  std::optional<int32_t> StageOf(const NodeId& node) const;  // of its live slot in the plan

  void TryCommit(Context& context, int32_t stage);
  void AddCovered(RoundCommit* commit) const;
  void EmitRound(Context& context, const RoundCommit& commit) const;
  std::optional<RoundCommit> Complete(Context& context, int32_t stage, int64_t round);
  // ops_sharded.cc
  bool IsShardedStage(int32_t stage) const;
  bool IsLate(Context& context, const NodeId& from, int32_t stage, int64_t round);
  void OnVoidPieces(Context& context, const NodeId& from, const DeltaHeld& held);
  std::optional<RoundCommit> CompleteSharded(Context& context, int32_t stage, int64_t round);
  void ForgetHoldings(const NodeId& node);
  // ops_late.cc
  void GoOnWithoutLate(Context& context, int32_t stage);
  std::optional<NodeId> LateOf(int32_t stage, bool for_long) const;
  std::optional<NodeId> CutOffOf(int32_t stage) const;
  bool MayBeAbsent(const NodeId& node, int32_t stage, int64_t round) const;
  void LeaveOut(Context& context, const NodeId& node, int32_t stage);
  PipelinePlan CallBackAbsent(PipelinePlan plan) const;
  // ops_tables.cc
  const std::vector<int64_t>& PartsOfStage(int32_t stage);
  std::optional<RoundTable> AddTable(RoundCommit* commit);
  void EmitTable(Context& context, const RoundCommit& commit, const RoundTable& table);
  void SendTables(Context& context, const NodeId& node, int32_t stage, int64_t before_round) const;
  void SendTablesToJoiners(Context& context) const;
  void CheckJoinersBase(Context& context, const NodeId& joiner, const RoundApplied& applied);
  void EvictMinority(Context& context, int32_t stage, int64_t round);
  void EmitStep(Context& context, int64_t step);
  void EmitPassedSteps(Context& context);
  double MeanLoss(int64_t step) const;

  // ops_handover.cc, ops_state.cc
  void TendHandovers(Context& context);
  void FixFirstSteps(Context& context);
  void GiveUpSlowJoiners(Context& context);
  void GiveUpJoiner(Context& context, const NodeId& joiner, const std::string& why);
  void OfferHandover(Context& context);
  void HandoverChosen(Context& context);
  void Appoint(Context& context, const Handover& handover);
  std::vector<NodeId> Standbys() const;
  std::optional<int32_t> StageToFill(Instant now) const;
  Duration JoinersTime(int32_t stage) const;
  void AgreeOnState(Context& context, int32_t stage);
  void EvictLiars(Context& context, int32_t stage);
  // ops_trace.cc
  void Predict(Context& context);
  void WriteTrace(Context& context, int64_t step);
  bool OnTraceJob(Context& context, JobId job);
  int64_t ContributionOf(const NodeId& node) const;  // tokens
  void TellStanding(Context& context, const NodeId& node);
  // ops_replan.cc
  void TendReplan(Context& context);
  void NoteChange(const std::string& reason);
  void StartReplan(Context& context);
  void ReplanChosen(Context& context);
  void LogReplan(Context& context, const Replan& replan, const std::string& reason);
  void MigrateIfReady(Context& context);
  bool MayLeave(const NodeId& node) const;
  bool AllAgreeWith(const NodeId& node, int32_t stage, int64_t round) const;
  std::set<NodeId> AtWork() const;
  std::set<int32_t> RestingStages(Instant now) const;
  void MeasureAgain(Context& context);
  void CountNodeSeconds(Instant now);
  Churn ChurnSoFar(bool has_standbys) const;
  void WatchSpeed(const NodeId& node, const Heartbeat& beat);
  LinkReading ReadUnderLoad(const NodeId& from, const LinkReading& reading);
  // ops_checkpoint.cc
  void TendCheckpoint(Context& context);
  bool BeginCheckpoint(Context& context);
  int64_t RoundsReached() const;
  int64_t NextCheckpointRound(bool is_wanted) const;
  void NewGeneration();
  void AskForState(Context& context, size_t stage);
  void OnCheckpointChunk(Context& context, const NodeId& from, const ObjectChunk& message);
  void RequestChunks(Context& context, size_t stage);
  bool OnCheckpointJob(Context& context, JobId job);
  void StageKept(Context& context, size_t stage);
  void CheckpointCommitted(Context& context, const absl::Status& status);
  void GiveUpCheckpoint(Context& context, const std::string& why);
  nlohmann::json CheckpointJson() const;
  // ops_neighbours.cc
  bool RemakeLost(Context& context, const std::vector<int32_t>& lost, const std::string& reason);
  std::string WhyNotRemade(const std::vector<int32_t>& lost) const;
  void RemakeAfterReturn(Context& context);
  bool SettleRemade(Context& context);
  void GoBackToRemade(Context& context, const Checkpointing& done);
  void GiveUpRemaking(Context& context, const Checkpointing& given_up, const std::string& why);
  // ops_recovery.cc
  static std::vector<int32_t> StagesWithout(const PipelinePlan& plan, const std::set<NodeId>& dead);
  CheckpointRecord LoseAll(Context& context, const std::vector<int32_t>& lost);
  bool BeginRecovery(Context& context, const std::set<NodeId>& dead, const std::string& reason);
  bool BeginsAnew() const;
  std::set<NodeId> DeadWith(const NodeId& node) const;
  bool MustAwait(Context& context, const NodeId& node);
  bool GoOnIfSkipped(Context& context, const std::vector<int32_t>& lost, const std::string& reason);
  void ForgetTraining();
  bool AwaitsStart() const;
  bool HoldsNothing(const NodeId& node) const;
  bool MayPlan(const std::vector<NodeId>& live, Instant now);
  void PrepareStart(Context& context, PipelinePlan plan, double step_s, double bound_s,
                    const std::string& explanation);
  void StartPrepared(Context& context);
  void OnStartRequest(Context& context, const NodeId& from, const ObjectRequest& request);
  // duties.cc
  void WatchForSilence(Context& context);
  void RequestProbes(Context& context);
  void Ask(Context& context, const std::vector<ProbeSchedule::Pair>& pairs);
  bool MeasureDoubtful(Context& context, const std::vector<NodeId>& nodes);
  bool TestLines(Context& context, const std::vector<NodeId>& nodes);  // ops_lines.cc
  void TookTransfer(Context& context, const NodeId& from, const LinkReading& reading);
  void PlanWhenReady(Context& context);
  void PlanMade(Context& context);
  void AnnouncePlan(Context& context, const std::string& reason);
  void FinishWhenDone(Context& context);
  void EmitFinished(Context& context);
  int64_t SoonestFirstStep(const RunConfig& config) const;
  const char* RunPhase() const;
  void ReportNode(Instant now, const NodeId& id, nlohmann::json& node) const;
  double TokensPerSecond(Instant now);
  void ReportStatus(Context& context);
  std::vector<NodeId> LiveNodes() const;

  // export.cc
  void ContinueExport(Context& context);
  void AskAnotherReplica(Context& context);
  void CollectionFailed(Context& context);
  void StageFetched(Context& context);
  void Exported(Context& context);
  void Collected(Context& context, const std::string& told);

  CoordinatorOptions options_;
  RunState state_;
  mutable CoordinatorParts::StagesOfPlan stages_;  // asked at every heartbeat
  LinkEstimator links_;
  Instant started_, watched_;  // watched_: the last look for silence
  std::map<NodeId, Instant> heard_;
  std::map<NodeId, Heartbeat> beats_;
  std::map<NodeId, Traffic> traffic_;      // state_.traffic and what heartbeats added
  std::set<NodeId> greeted_;               // said Hello in this life
  std::set<NodeId> told_, told_of_death_;  // were sent a plan in this life; gone, heard, told so
  std::set<NodeId> active_;
  std::deque<NodeId> reserve_;               // greeted, first come first
  std::map<NodeId, Hello> asking_;           // of this life: waiting for the operator
  std::map<NodeId, Instant> dismissed_;      // told why, not hung up on yet
  std::map<NodeId, Hello> ahead_;            // hold what this journal does not know
  std::map<std::string, int64_t> refusals_;  // of this life, by reason

  ProbeSchedule probes_;
  LineTesting line_tests_;
  std::set<NodeId> probed_;      // those the schedule knows
  std::set<NodeId> untold_;      // whose coming, moving or going the others have not heard of
  bool is_partial_ = false;      // not everybody is told of everybody, from now on,
  bool told_partial_ = false;    // and those who were have heard that
  Acquaintances acquaintances_;  // of this life
  std::map<NodeId, std::set<NodeId>> news_;  // to be told to whom, of whom, with the untold
  std::set<NodeId> relays_;                  // that everybody is told of, where not all are
  ShardHolders shard_holders_;               // of this life
  CoordinatorParts::PartnersOfPlan plan_partners_;
  std::map<NodeId, CoordinatorParts::Dialled> dialled_;  // of this life
  TimerId peers_timer_ = 0;                              // when they will; 0: nothing to tell

  using Holdings = std::map<NodeId, std::map<NodeId, Participant>>;  // holder → sender → message
  std::map<RunState::StageRound, Holdings> held_;
  std::map<RunState::StageRound, std::map<NodeId, SumsHeld>> sums_held_;  // by holder, the latest
  struct SumChecking;                                                     // sum_checking.h
  std::shared_ptr<SumChecking> sum_checking_;
  struct WorkChecking;  // work_checking.h
  std::shared_ptr<WorkChecking> work_checking_;
  struct SizesWatching;  // ops_sizes.cc
  std::shared_ptr<SizesWatching> sizes_watching_;
  std::map<int32_t, CoordinatorParts::Late> late_;
  std::map<uint64_t, CoordinatorParts::Broken> broken_cohorts_;  // by group
  // What replicas said of their deltas of rounds not frozen; nullopt: what cannot be.
  std::map<RunState::StageRound, std::map<NodeId, std::optional<PartStatistics>>> statistics_;
  std::map<int32_t, std::vector<int64_t>> table_parts_;          // by stage
  std::map<std::pair<NodeId, NodeId>, Instant> told_of_detour_;  // home, around whom: when last
  std::set<int64_t> emitted_steps_;
  int64_t emitted_below_ = 0;  // every step with losses below this one is emitted

  struct Planning;
  std::shared_ptr<Planning> planning_;
  std::string no_plan_;                          // why the last try gave none
  std::optional<Instant> gathers_since_;         // enough nodes are here, and there is no plan
  std::set<NodeId> no_plan_among_;               // whom it was made for
  int64_t readings_ = 0, no_plan_readings_ = 0;  // and after how many of them

  struct Choosing;
  std::shared_ptr<Choosing> choosing_;
  std::map<NodeId, Instant> joining_since_;     // joiners without a first step; of this life
  std::map<int32_t, Instant> held_up_since_;    // stages whose round waits for a joiner only
  std::map<int32_t, Instant> failed_handover_;  // by stage, the last
  std::map<int32_t, StateRoots> state_roots_;   // by stage

  struct Replanning;
  std::shared_ptr<Replanning> replanning_;
  std::string change_;   // since the last look at moves: what; empty: nothing
  Instant next_replan_;  // without one
  CoordinatorParts::Looked looked_;
  int64_t links_changed_ = 0;  // readings in training that differ from those before, speeds too
  std::map<NodeId, SpeedWatch> speeds_;
  // Of this life, while there is a plan: who left, who came, and how long how many were here.
  int64_t departures_ = 0, arrivals_ = 0;
  double node_seconds_ = 0;
  std::optional<Instant> counted_from_;
  Instant counted_;
  std::optional<CoordinatorParts::Migration> migration_;
  std::map<int32_t, Instant> moved_at_;                 // by stage, the last; of this life
  std::map<ProbeSchedule::Pair, Instant> asked_again_;  // in training, the last time
  std::string logged_replan_;                           // what the last "replan" line said
  std::optional<CoordinatorParts::Export> export_;
  struct Writing;
  std::shared_ptr<Writing> writing_;
  JobId planning_job_ = 0, choosing_job_ = 0, replanning_job_ = 0, writing_job_ = 0;
  JobId keeping_job_ = 0, starting_job_ = 0;
  std::shared_ptr<Checkpointing> checkpointing_;
  int64_t checkpoint_margin_ = 0;  // rounds to wait longer: the last one was asked for too late
  std::optional<Instant> checkpoint_made_;  // the last, of this life
  struct Starting;  // a plan that begins with a checkpoint, until its states are put together
  std::shared_ptr<Starting> starting_;
  std::set<int32_t> not_remade_;  // stages whose neighbours could not give them
  std::set<int32_t> told_lost_;   // stages, of which people were told that they are skipped
  std::set<NodeId> awaited_;      // silent, and nobody else holds its stage
  std::set<NodeId> fresh_;        // said Hello as one that holds nothing, and has no stage since
  std::set<NodeId> fresh_last_;   // as it was when it last changed, then
  Instant fresh_since_;

  struct Tracing;  // tracing.h
  std::shared_ptr<Tracing> tracing_;
  bool stopping_ = false;
  TimerId duty_timer_ = 0;
  size_t duties_unreported_ = 0;                        // since the last status
  std::deque<std::pair<Instant, int64_t>> throughput_;  // (when, tokens), for the status
  double last_loss_ = 0;
  int64_t last_step_ = -1, refused_ = 0;
};

}  // namespace skerry
