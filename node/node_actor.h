// A volunteer's node as a state machine: joins, measures links, fetches data, trains its stage,
// takes part in rounds.
//
// States (what a person sees is Phase):
//   kJoining    Hello sent, and again every few seconds, no Welcome yet
//   kIdle       admitted; answers probes; waits for a plan that names it (or stands by)
//   kPreparing  in the plan: fetching shards (stage 0) and building the stage on the device; where
//               the plan begins with a checkpoint, fetching the stage's state too
//   kCatchingUp joins a stage in training: as kPreparing, and is given the stage's state; holds
//               deltas meanwhile, then lands rounds as they are committed, until its first step
//   kTraining   steps and rounds; see Advance()
//   kFinished   all steps and rounds done; serves its base, and microbatches that are sent again
//   kStopped    told to end, or leaving
// Whose part has gone to others starts over (StartOver); who is moved catches up there (MoveTo).
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>

#include "common/round_clock.h"
#include "kernels/group/group_lane.h"
#include "node/left_overs.h"
#include "node/link_prober.h"
#include "node/node_look.h"
#include "node/node_parts.h"
#include "node/passing_on.h"
#include "node/round_keeper.h"
#include "node/shard_fetcher.h"
#include "node/shard_giver.h"
#include "node/shard_store.h"
#include "node/stage_order.h"
#include "node/state_fetcher.h"
#include "node/state_transfer.h"
#include "node/sum_checks.h"
#include "node/work_checks.h"
#include "pipeline/exec/cohort.h"
#include "pipeline/exec/lateness.h"
#include "pipeline/exec/stage_actor.h"
#include "pipeline/exec/stage_work.h"
#include "pipeline/plan/node_memory.h"
#include "wire/actor.h"

namespace skerry {

struct NodeActorOptions {
  NodeId self;
  NodeId coordinator;
  std::string ticket;
  std::string endpoint;
  std::string region;
  std::string software;
  DeviceProfile device;
  StageWorkFactory build;
  ShardStore* shards = nullptr;
  std::vector<std::string> listens = {};  // where else it may be reached
  // Of a statement, by this node's key; empty: it signs nothing.
  std::function<Signature(std::span<const uint8_t> statement)> sign = {};
  // What bulk that was sent to a peer has shown of the way there; empty: nobody looks.
  std::function<std::optional<LinkReading>(const NodeId& peer)> shown = {};
  GroupLaneFactory lane = {};          // for its cohort's sums; empty: it has none
  uint64_t process = 0;                // random, another one for every process; 0: not said
  bool relays = false, traces = true;  // forwards for others; tells when its device did what
  double handling_s_per_byte = 0;      // of a virtual network, by both ends of a link
};

class NodeActor final : public Actor {
 public:
  static constexpr size_t kEarlyMax = 1024;  // messages kept until the stage or their plan is there
  static constexpr size_t kShapesMax = 1024;   // remembered
  static constexpr size_t kPassedOnMax = 256;  // said again to a coordinator that restarted
  static constexpr int64_t kLateStretch = 4;   // rounds of a fragment that "late" is measured by
  static constexpr Duration kFarewellMax = Duration::Seconds(3);  // to hand on left-overs in
  static constexpr int kFarewellLayers = 2;     // each holds what the one before left out
  static constexpr size_t kTakenOverMax = 256;  // remembered

  explicit NodeActor(NodeActorOptions options);

  // It has stopped because its stage ran out of memory: what to offer when it joins again.
  std::optional<MemoryOffer> offer_after_shortage() const { return offer_after_shortage_; }

  void OnStart(Context& context) override;
  void OnMessage(Context& context, const NodeId& from, const Message& message) override;
  void OnTimer(Context& context, TimerId timer) override;
  void OnJobDone(Context& context, JobId job) override;
  void OnPeerRestarted(Context& context, const NodeId& peer) override;

  // Says goodbye and ends; for Ctrl-C.
  void Leave(Context& context, const std::string& reason);

  NodeLook Look() const;  // for status screens
  int64_t step() const { return step_; }
  int64_t base_version() const { return rounds_ ? rounds_->next() : 0; }
  Phase phase() const;
  bool IsPaused() const { return !open_ && run_pause_ && step_ >= run_pause_->at; }
  StageWork* work() { return work_.get(); }
  int64_t refused() const { return refused_ + (pipeline_ ? pipeline_->refused() : 0); }

 private:
  enum class State : uint8_t {
    kJoining,
    kIdle,
    kPreparing,
    kCatchingUp,
    kTraining,
    kFinished,
    kStopped
  };

  // One handler a message; what has none (messages meant for coordinators) is refused.
  void On(Context& context, const NodeId& from, const Welcome& message);
  void On(Context& context, const NodeId& from, const Refused& message);
  void On(Context& context, const NodeId& from, const Peers& message);
  void On(Context& context, const NodeId& from, const ProbeRequest& message);
  void On(Context& context, const NodeId& from, const Ping& message);
  void On(Context& context, const NodeId& from, const Pong& message);
  void On(Context& context, const NodeId& from, const PlanUpdate& message);
  void On(Context& context, const NodeId& from, const Heartbeat& message);
  void On(Context& context, const NodeId& from, const Activation& message);
  void On(Context& context, const NodeId& from, const Gradient& message);
  void On(Context& context, const NodeId& from, const MicrobatchVoid& message);
  void On(Context& context, const NodeId& from, const VoidList& message);
  void On(Context& context, const NodeId& from, const HopLate& message);
  void On(Context& context, const NodeId& from, const Delta& message);
  void On(Context& context, const NodeId& from, const DeltaHeld& message);
  void On(Context& context, const NodeId& from, const DeltaSum& message);
  void On(Context& context, const NodeId& from, const RoundCommit& message);
  void On(Context& context, const NodeId& from, const RoundLate& message);
  void On(Context& context, const NodeId& from, const SumCheck& message);
  void On(Context& context, const NodeId& from, const SumShown& message);
  void On(Context& context, const NodeId& from, const WorkCheck& message);
  void On(Context& context, const NodeId& from, const WorkCopy& message);
  void On(Context& context, const NodeId& from, const ObjectRequest& message);
  void On(Context& context, const NodeId& from, const ObjectChunk& message);
  void On(Context& context, const NodeId& from, const CheckpointRequest& message);
  void On(Context& context, const NodeId& from, const StateRoot& message);
  void On(Context& context, const NodeId& from, const Shutdown& message);
  template <typename Other>
  void On(Context&, const NodeId&, const Other&) {
    ++refused_;
  }

  void Send(Context& context, const NodeId& to, Message message);
  void SayHello(Context& context);
  // node_peers.cc
  void ChangePeers(Context& context, const std::vector<Peer>& here,
                   const std::vector<NodeId>& gone);
  std::string WayTo(const Peer& peer) const;
  void SeekStranger(Context& context, const NodeId& node);
  void Seek(Context& context, const std::set<NodeId>& nodes);
  int64_t HeldBytesPeak() const;
  std::string WaitingFor(Phase phase) const;  // for people; `phase`: this node's
  void SendHeartbeat(Context& context);
  void Finish(Context& context);
  void Fail(Context& context, const absl::Status& status);
  // Of the stage's arithmetic: where memory ran out, the node says so and what to offer next.
  void FailAtWork(Context& context, const absl::Status& status);

  void Prepare(Context& context);
  StageHolds Holds() const;
  StageOrder OrderFor() const;
  void BuildStage(Context& context);
  void StageBuilt(Context& context);
  void StartTraining(Context& context, int64_t step);
  void ReplayEarly(Context& context);
  // Whether a message waits: for the plan it was sent under, or until the part of this node that it
  // is for is there.
  bool MustWait(int64_t plan_version, bool is_ready) const;
  void Keep(const NodeId& from, Message message);
  void PassOn(Context& context, const Message& message);

  // node_handover.cc
  void DropStage(Context& context);
  void StartOver(Context& context, const std::string& why);
  bool IsMovedBy(const PipelinePlan& plan) const;
  void MoveTo(Context& context, int32_t stage);
  void Join(Context& context);
  void TendJoining(Context& context);
  void StateArrived(Context& context);
  void StateRestored(Context& context);
  void CatchUp(Context& context);
  void CaughtUp(Context& context);
  void StartReplica(Context& context);

  // node_giving.cc
  void SendPending(Context& context, const PipelinePlan& before);
  void SendToNewSpeakers(Context& context, const PipelinePlan& before);
  void SendOwnSums(Context& context, const NodeId& to);
  bool MayHaveState(const NodeId& node) const;
  void TendGiving(Context& context);
  bool SaveForJoinersIfDue(Context& context);
  void StateSaved(Context& context);
  void DigestNextChunks(Context& context);
  void StateDigested(Context& context);
  void SayRoot(Context& context);
  void OnStateRequest(Context& context, const NodeId& from, const ObjectRequest& request);

  // node_checkpoint.cc
  bool IsPast(int64_t version) const;
  bool KeepCheckpointIfDue(Context& context);
  void CheckpointKept(Context& context);
  void DigestSomeChunks(Context& context);
  void ChunksDigested(Context& context);
  void RefuseCheckpoint(Context& context);
  void DropStaleCheckpoint(Context& context);
  void OnCheckpointRequest(Context& context, const NodeId& from, const ObjectRequest& request);
  bool BeginsWithCheckpoint() const { return plan_->start.round > 0 && joined_since_ == 0; }
  void TendStart(Context& context);
  void StartStateArrived(Context& context);
  void StartRestored(Context& context);

  // Does the next thing that can be done: apply a due round, close a step, encode a delta, or give
  // the device a task.
  void Advance(Context& context);
  // A stage planned with one replica has nobody to average with: no rounds.
  bool HasRounds() const;
  RoundClock Clock() const { return RoundClock(*config_); }
  bool ApplyDueRound(Context& context);
  Job ApplyJob(const std::string& name);
  bool EncodeAtBoundary(Context& context);
  void Encoded(Context& context);
  void ApplyDone(Context& context);
  void SayApplied(Context& context);
  void NoteReadiness(Context& context);
  bool Decodes(const Delta& delta) const;
  void CountRounds(int64_t round, std::vector<StageWork::Accepted>* messages) const;
  void MeasureLateness();
  void OpenBoundary(Context& context, int64_t round);
  void SayIfLate(Context& context);

  // node_cohort.cc
  void JoinCohort(Context& context);
  void DropCohort(Context& context);
  bool StepTogether(Context& context);
  void GivePart(Context& context, const GradientsMade& made);
  void SpeakForCohort(Context& context, Delta delta);
  void PassOnToCohort(Context& context, const NodeId& sender, Delta delta);
  void SayMade(Context& context, const Delta& made);
  void PassOnSum(Context& context, const NodeId& reducer, DeltaSum sum);
  void SpeakAnew(Context& context, const PipelinePlan& before);
  void AskForUnheard(Context& context, bool again);
  void AskFor(Context& context, int64_t round, const std::vector<NodeId>& senders, bool again);
  void GiveToAskers(Context& context, int64_t round, const NodeId& sender);
  int64_t TokensLearnt() const { return cohort_ ? cohort_->tokens() : pipeline_->tokens(); }

  // node_tables.cc
  bool IsTableKnown(int64_t round) const;
  bool LearnTable(Context& context, const RoundCommit& commit);
  void GiveTables(Context& context);
  bool MeasuresNow() const;
  Duration EncodingCost() const;
  void SendStatistics(Context& context, int64_t round);

  // node_sharded_rounds.cc
  bool IsShardedStage() const;
  bool HasCohorts() const { return !plan_->stages[static_cast<size_t>(stage_)].cohorts.empty(); }
  const RoundShape& ShapeOfRound(int64_t round);
  const std::vector<NodeId>& ReducersOfRound(int64_t round);
  std::vector<int32_t> OwnPart(int64_t round);
  void EncodePieces(Context& context);
  void PiecesEncoded(Context& context, int64_t round);
  void SendPieces(Context& context, int64_t round, int64_t tokens,
                  const std::vector<Payload>& pieces, const std::vector<NodeId>* before);
  void SendMovedPieces(Context& context, const PipelinePlan& before);
  bool ReduceIfReady(Context& context);
  bool ReduceIfReady(Context& context, int64_t round);
  void Reduced(Context& context);
  void ReportSums(Context& context);
  void OnPieces(Context& context, const NodeId& from, const Delta& message);
  bool IsSumOf(const NodeId& reducer, int64_t round, const std::vector<Piece>& sums);

  // node_sum_checks.cc
  bool ChecksSums() const { return config_->outer.sum_checks > 0; }
  void AddStatement(SumsHeld* held);
  void ShowSum(Context& context, const SumCheck& check);
  void SendShown(Context& context, const SumCheck& check, const SumChecks::Shown& shown);
  bool OnSumJob(Context& context, JobId id);

  // node_work_checks.cc
  void CopyForCheck(Context& context, const NodeId& other, const skerry::Message& message,
                    bool was_sent);
  bool OnWorkJob(Context& context, JobId id);

  // node_left_overs.cc
  bool HandsOn() const;
  bool IsLeftOver(const Delta& message) const;
  std::optional<std::vector<int32_t>> KeptAfter(int64_t round);
  std::vector<Digest> SendLeftOver(Context& context, int32_t stage, const LeftOver& left,
                                   const PipelinePlan& plan);
  void KeepLeftOver(Context& context, int64_t round, std::vector<Piece> pieces);
  void OnLeftOver(Context& context, const NodeId& from, const Delta& message);
  void NoteReducers(const PipelinePlan& before);
  void WithdrawObsolete(Context& context, const PipelinePlan& before);
  void MakeLeftOvers(Context& context, SharedPlan plan, std::vector<StageWork::Landing> landings);
  void LeftOversMade(Context& context);
  bool BeginFarewell(Context& context, const std::string& reason);
  void TendFarewell(Context& context);
  void EndFarewell(Context& context);
  void PartFromStage(Context& context);

  JobId SubmitTracked(Context& context, Job job);
  bool HasData(Context& context);
  void ServeBase(Context& context, const NodeId& to, const ObjectRequest& request);
  void SendPart(Context& context, const NodeId& to, const ObjectRequest& request,
                const Payload& object);

  NodeActorOptions options_;
  State state_ = State::kJoining;
  std::optional<RunConfig> config_;
  std::vector<ShardName> shard_names_;
  std::map<NodeId, Peer> peers_;
  std::map<NodeId, std::string> ways_;  // to them, as the host was told (Context::ConnectPeer)
  bool is_reachable_ = true;            // others can dial this node, by the coordinator's word
  std::vector<Peer> arriving_peers_;    // parts of a complete list
  bool knows_some_ = false;             // of the others, and asks for whom it needs (Acquaint)
  std::set<NodeId> sought_;             // asked for, not answered
  LinkProber prober_;
  ShardFetcher fetcher_;
  ShardGiver giver_;
  Duration hello_patience_ = Duration::Seconds(5);  // longer while people decide on its admission
  bool awaits_approval_ = false;
  TimerId hello_timer_ = 0, heartbeat_timer_ = 0;
  SharedPlan plan_;
  int32_t stage_ = -1;
  std::unique_ptr<StageWork> work_;
  std::unique_ptr<StageActor> pipeline_;
  std::unique_ptr<RoundKeeper> rounds_;
  std::shared_ptr<Cohort> cohort_;  // of a node that the plan began with in one
  PassingOn passing_on_;
  // Pipeline traffic that came before the stage was built, or its plan.
  std::deque<std::pair<NodeId, Message>> early_;

  int64_t step_ = 0;  // completed inner steps
  std::optional<NodeParts::RunPause> run_pause_;
  int64_t encoded_ = 0;  // rounds whose own delta is encoded
  bool open_ = false;    // step_ is begun and its optimizer step not done
  std::map<int64_t, NodeParts::Boundary> boundaries_;
  // How long rounds take here, of `stage_` since this process holds it.
  std::optional<Lateness> lateness_;
  using RoundBytes = NodeParts::RoundBytes;
  std::map<int64_t, RoundBytes> round_bytes_;
  RoundBytes* BytesOf(const skerry::Message& message);
  NodeParts::Shapes shapes_;
  std::map<int64_t, uint64_t> reported_sums_;  // by round, the shape
  SumChecks sum_checks_;
  WorkChecks work_checks_;
  // What reducers hand on. Of this stage, in any plan that this node has seen: who may.
  std::set<NodeId> former_replicas_;
  std::set<NodeId> retiring_;  // gave away what they still sum by the plan: they leave
  std::deque<std::tuple<NodeId, int64_t, Digest>> taken_over_;
  std::shared_ptr<LeftOvers> left_overs_;
  JobId left_overs_job_ = 0;
  std::optional<Farewell> farewell_;
  std::map<int64_t, Bytes> tables_;  // of codecs, packed, by the first round they are in force
  int64_t commits_known_ = 0;        // of rounds below, so are the tables that they name
  std::map<int64_t, DeltaStatistics> said_;        // of rounds not applied
  std::map<int32_t, int64_t> tokens_at_boundary_;  // the last, by fragment
  int64_t tokens_of_round_ = 0;

  using Heavy = NodeParts::Heavy;
  void HeavyDone(Context& context, Heavy done);
  Heavy heavy_ = Heavy::kNone;
  JobId heavy_job_ = 0;
  std::map<JobId, NodeParts::Submitted> submitted_;
  std::optional<MemoryOffer> offer_after_shortage_;
  struct Results;
  std::shared_ptr<Results> results_;
  Payload base_bytes_;
  std::deque<std::pair<NodeId, ObjectRequest>> base_requests_;
  int64_t joined_since_ = 0;  // version of the plan that named this process a joiner; 0: none did
  std::unique_ptr<StateTransfer> transfer_;      // of a joiner that has not its stage's state yet
  std::unique_ptr<StateFetcher> state_fetcher_;  // of a node that begins with a checkpoint
  bool restored_ = false;
  std::optional<NodeParts::Giving> giving_;
  std::shared_ptr<std::vector<Digest>> digests_made_;
  JobId digest_job_ = 0;

  // What the coordinator asked for: the state of one version, digested between other tasks.
  std::optional<int64_t> checkpoint_wanted_;
  bool checkpoint_at_once_ = false;  // then of whatever version there is
  std::optional<NodeParts::KeptCheckpoint> checkpoint_;
  std::shared_ptr<std::vector<Digest>> chunk_digests_;
  JobId chunk_job_ = 0;
  std::deque<StepReport> recent_reports_;  // said again to a coordinator that restarted
  std::deque<Message> passed_on_;          // and these
  std::optional<skerry::RoundApplied> last_applied_;
  std::deque<skerry::RoundApplied> recent_applied_;  // as many as may land without another commit
  ClassBytes sent_ = {}, received_ = {};             // by class of traffic
  double round_wait_s_ = 0, round_transfer_s_ = 0;
  Duration busy_;        // of the device, which makes one job after another
  Instant device_done_;  // with the last of them
  int64_t refused_ = 0;
};

}  // namespace skerry
