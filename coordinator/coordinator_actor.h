// The coordinator of a run as a state machine: admits nodes, has links measured, plans, freezes
// outer rounds, keeps the ledger, notices deaths, collects the model. docs/PROTOCOL.md tells the
// story by number.
//
// Its state is RunState, a fold of the journal: every change is a record, persisted before anything
// that follows from it is sent. What is not in the journal (who was heard when, which deltas are
// held where) is learnt again from the nodes after a restart. Handlers are in ops_*.cc, periodic
// work in duties.cc.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/run_state.h"
#include "routing/link_estimator.h"
#include "wire/actor.h"

namespace skerry {

// Reads parts of what nodes may ask for: "shard/FILE".
class ObjectSource {
 public:
  virtual ~ObjectSource() = default;
  // Quick (memory-mapped). total_bytes −1 if there is no such object.
  virtual ObjectChunk Read(const ObjectRequest& request) = 0;
};

// Takes the trained model, stage by stage; Finish writes it. Called on the device thread.
class ExportSink {
 public:
  virtual ~ExportSink() = default;
  virtual absl::Status AddStage(const StageAssignment& stage, bool holds_ends,
                                const Bytes& base) = 0;
  // Returns what to tell people: where the model is.
  virtual absl::StatusOr<std::string> Finish() = 0;
};

struct AdmittedTicket {
  std::string id;
  int64_t uses = 1;
};

struct CoordinatorOptions {
  RunConfig config;
  RunId run;
  std::vector<ShardName> shards;
  std::vector<std::string> journal;  // of earlier lives
  std::function<absl::StatusOr<AdmittedTicket>(const std::string& ticket)> verify_ticket;
  ObjectSource* objects = nullptr;
  ExportSink* model = nullptr;
  std::function<void(const std::string& json)> status;  // once a second; may be empty
};

class CoordinatorActor final : public Actor {
 public:
  // DataLoss names the damaged record of the journal.
  static absl::StatusOr<std::unique_ptr<CoordinatorActor>> Create(CoordinatorOptions options);

  void OnStart(Context& context) override;
  void OnMessage(Context& context, const NodeId& from, const Message& message) override;
  void OnTimer(Context& context, TimerId timer) override;
  void OnJobDone(Context& context, JobId job) override;
  void OnPeerRestarted(Context& context, const NodeId& peer) override;

  const RunState& state() const { return state_; }
  int64_t refused() const { return refused_; }

 private:
  explicit CoordinatorActor(CoordinatorOptions options);

  // ops_membership.cc
  void On(Context& context, const NodeId& from, const Hello& message);
  void On(Context& context, const NodeId& from, const Heartbeat& message);
  void On(Context& context, const NodeId& from, const Leave& message);
  void On(Context& context, const NodeId& from, const LinkReading& message);
  void On(Context& context, const NodeId& from, const ObjectRequest& message);
  // ops_training.cc
  void On(Context& context, const NodeId& from, const StepReport& message);
  void On(Context& context, const NodeId& from, const DeltaHeld& message);
  void On(Context& context, const NodeId& from, const RoundApplied& message);
  void On(Context& context, const NodeId& from, const ObjectChunk& message);
  template <typename Other>
  void On(Context&, const NodeId&, const Other&) {
    ++refused_;
  }

  void Record(Context& context, std::string record);
  void Admit(Context& context, const NodeId& from, const Hello& message);
  void Greet(Context& context, const NodeId& node, const Hello& hello);
  void SendPeers(Context& context);
  void DeclareDead(Context& context, const NodeId& node, const std::string& why);
  bool TakesPart(const NodeId& node) const;  // has a live slot in the plan
  std::optional<int32_t> StageOf(const NodeId& node) const;

  void TryCommit(Context& context, int32_t stage);
  void EmitStep(Context& context, int64_t step);

  // duties.cc
  void WatchForSilence(Context& context);
  void RequestProbes(Context& context);
  void PlanWhenReady(Context& context);
  void PlanMade(Context& context);
  void AnnouncePlan(Context& context, const std::string& reason);
  void FinishWhenDone(Context& context);
  void ReportStatus(Context& context);
  std::vector<NodeId> LiveNodes() const;

  // export.cc
  void ContinueExport(Context& context);
  void StageFetched(Context& context);
  void Exported(Context& context);

  CoordinatorOptions options_;
  RunState state_;
  LinkEstimator links_;
  Instant started_;
  std::map<NodeId, Instant> heard_;
  std::map<NodeId, Heartbeat> beats_;
  std::set<NodeId> greeted_;  // said Hello in this life

  struct Probe {
    NodeId from, target;
    Instant asked;
  };
  std::vector<Probe> probes_;  // under way; a node is in one at a time

  using Holdings = std::map<NodeId, std::map<NodeId, Participant>>;  // holder → sender → message
  std::map<RunState::StageRound, Holdings> held_;
  std::set<int64_t> emitted_steps_;

  struct Planning;
  std::shared_ptr<Planning> planning_;
  JobId planning_job_ = 0;

  struct Export {
    int32_t stage = 0;
    size_t replica = 0;
    int64_t requested = 0;
    Bytes bytes;
    Instant progress;
    bool asking = false;
  };
  std::optional<Export> export_;
  struct Writing;
  std::shared_ptr<Writing> writing_;
  JobId writing_job_ = 0;

  TimerId duty_timer_ = 0;
  std::deque<std::pair<Instant, int64_t>> throughput_;  // (when, tokens), for the status
  double last_loss_ = 0;
  int64_t last_step_ = -1;
  int64_t refused_ = 0;
};

}  // namespace skerry
