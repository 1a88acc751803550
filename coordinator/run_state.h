// The state of a run as a fold of its journal: one JSON record per transition, applied in order.
//
// Live state and journal cannot differ: the coordinator changes its state only by applying the
// record it persists. A record that makes no sense is an error and changes nothing.
//
//   admitted  a node is here: the first time it uses up its ticket, later it has come back
//   asked     a node waits for the operator's approval · order  what the operator said · pause,
//   wanted    what followed for the run (run_orders.h)
//   life      a node is gone, evicted and why, or here again · started  it holds a stage · traffic
//   bytes
//   reach     where a node can be dialled, as tested
//   link      a directed reading · plan  a plan in force · commit  a round's frozen set
//   applied   a replica's digest after a round · losses  microbatches credited to a step, each
//   once, and by whom · written_off  microbatches of a step that died with their stage-0 node:
//   nobody will be credited with them any more
//   finished, exported  the end
//   checkpoint  a generation is whole on the disk · dropped  it is not kept any more, or damaged
//   resumed  this run begins with another's checkpoint, kept as a generation of its own
//   proof    that a node lied about a sum, with all digests that it follows from
//   lost     a stage has nobody left: everybody starts over · rewind  a plan that begins with a
//            checkpoint: rounds before it are over, what was credited of later steps is not
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "coordinator/admission.h"
#include "coordinator/hidden_time.h"
#include "coordinator/run_orders.h"
#include "routing/access_lines.h"
#include "wire/message/message.h"

namespace skerry {

struct NodeRecord {
  std::string endpoint;
  std::string region;
  std::string ticket;  // id
  DeviceProfile device;
  bool alive = true;     // its process is here; whether it takes part says PipelinePlan::dead
  bool relays = false;   // willing to forward for others
  std::string declared;  // where it says that it listens, if `endpoint` is what a test found
  // What dialling it back showed; no tries: not tested, `endpoint` is believed.
  Reachability reach;
  std::string software = {};  // version, as it says
  uint64_t process = 0;       // Hello::process of the last one
  bool IsTested() const { return !reach.node.IsZero(); }
  bool operator==(const NodeRecord&) const = default;
};

// A step's losses; complete when every microbatch was reported.
struct StepLosses {
  std::map<int32_t, MicrobatchLoss> by_microbatch;
  bool operator==(const StepLosses&) const = default;
};

// Bytes of one node over all its processes: what ended ones reported, and the present one's.
struct Traffic {
  int64_t ended_sent = 0;
  int64_t ended_received = 0;
  int64_t sent = 0;
  int64_t received = 0;
  int64_t total_sent() const { return ended_sent + sent; }
  int64_t total_received() const { return ended_received + received; }
  // A counter that fell belongs to a new process.
  void OnReport(int64_t now_sent, int64_t now_received);
  bool operator==(const Traffic&) const = default;
};

// A whole state of the run on the coordinator's disk (coordinator/checkpoint_store.h).
struct CheckpointRecord {
  int64_t generation = 0;
  int64_t round = 0;   // the base's version
  int64_t step = 0;    // inner steps that it holds
  int64_t tokens = 0;  // credited for them
  int64_t bytes = 0;
  int64_t new_bytes = 0;             // that had to be fetched
  std::vector<int32_t> remade = {};  // layers, as StageAssignment::remade, of all stages
  bool operator==(const CheckpointRecord&) const = default;
};

class RunState {
 public:
  // DataLoss if the record is damaged or contradicts the state.
  absl::Status Apply(const std::string& record);

  std::map<NodeId, NodeRecord> nodes;
  int64_t lives = 0;                  // times that a node went or came back
  std::set<NodeId> started;           // have shown that they hold a stage of the plan
  std::set<NodeId> evicted;           // said what cannot be true: they get no work again
  Admission admission;                // whom the operator lets in, and who was put out and why
  RunOrders orders;                   // pause, checkpoint
  std::map<NodeId, Traffic> traffic;  // as of its last record; heartbeats go further
  std::map<std::string, int64_t> ticket_uses;
  std::map<std::pair<NodeId, NodeId>, LinkReading> links;  // (from, target), the latest
  std::vector<LineFinding> lines;  // of nodes of several, the last one counts
  std::optional<PipelinePlan> plan;
  double predicted_step_s = 0;
  double lower_bound_s = 0;
  int64_t migrations = 0;  // plans by which somebody who worked was moved, or replaced
  std::map<int32_t, int64_t>
      moved;  // stages from or to which: rounds committed then, the last time
  using StageRound = std::pair<int32_t, int64_t>;
  std::map<StageRound, RoundCommit> commits;
  std::map<StageRound, Digest> base_digests;  // the first reported
  struct Credit {
    int64_t tokens = 0;  // of accepted deltas; where fragments are, once for each of them
    int64_t rounds = 0;  // that they counted in
    bool operator==(const Credit&) const = default;
  };
  std::map<NodeId, Credit> credits;  // also of what a rewind took back: the work was done
  std::map<StageRound, std::map<NodeId, RoundApplied>> applied;
  HiddenTime hidden;  // of all in `applied`
  // Rounds of a node in which a robust mode gave its delta little or no weight, by the first who
  // said so: in a sharded round each replica knows of its own part only.
  std::map<NodeId, int64_t> rounds_screened;
  // Whose activations, gradients or words about them are "odd" or "disputed" (boundary_watch.h).
  std::map<NodeId, std::string> odd;
  std::map<int64_t, StepLosses> losses;
  // Of a step that every live stage-0 node is past: those that nobody was credited with by then.
  std::map<int64_t, std::set<int32_t>> written_off;
  int64_t tokens = 0;  // of reported microbatches, each once
  bool finished = false;
  bool exported = false;
  std::map<int64_t, CheckpointRecord> checkpoints;  // kept, by generation
  int64_t generations = 0;                          // the last one's number
  bool resumed = false;        // it begins with a checkpoint, whatever the first plan
  std::set<int32_t> lost;      // stages, until the run goes back; empty: none
  int64_t rewinds = 0;         // times it went back, or began with a checkpoint
  int64_t rewound_tokens = 0;  // whose credit was taken back by that
  bool operator==(const RunState&) const = default;

  // Of those whom `applied` says it screened, who nobody said that of before, in that round.
  std::vector<NodeId> NewlyScreened(const RoundApplied& applied) const;

  // Rounds committed for a stage, or over before the plan began; those in `commits` are consecutive
  // from there.
  int64_t RoundsCommitted(int32_t stage) const;
  int64_t RoundsOfAnyStage() const;  // of the stage that has most

  // The digest most replicas reported after the round, of equals the one reported first; nullopt
  // before any report.
  std::optional<Digest> AgreedDigest(int32_t stage, int64_t round) const;
};

// The records, one function each.
std::string AdmittedRecord(const NodeId& node, const NodeRecord& record);
std::string ReachRecord(const Reachability& found);
std::string LinkRecord(const NodeId& from, const LinkReading& reading);
std::string LineRecord(const LineFinding& finding);
std::string PlanRecord(const PipelinePlan& plan, double predicted_step_s, double lower_bound_s);
std::string CommitRecord(const RoundCommit& commit);
std::string AppliedRecord(const NodeId& node, const RoundApplied& applied);
std::string LossesRecord(const NodeId& node, const StepReport& report);  // only what is new
std::string WrittenOffRecord(int64_t step, const std::set<int32_t>& microbatches);
// `why` is of who is evicted.
std::string LifeRecord(const NodeId& node, bool alive, bool evicted = false,
                       const std::string& why = "");
std::string StartedRecord(const NodeId& node);
// `is`: "odd", "disputed", or "" that it is neither any more; `told`: for people.
std::string SizesRecord(const NodeId& node, const std::string& is, const std::string& told);
std::string TrafficRecord(const NodeId& node, const Traffic& traffic);
std::string CheckpointMade(const CheckpointRecord& checkpoint);
std::string CheckpointDropped(int64_t generation);
std::string ResumedRecord(const CheckpointRecord& checkpoint, const std::string& from);
std::string LostRecord(const PipelinePlan& plan, const std::vector<int32_t>& stages);
std::string RewindRecord(const std::string& plan_record, int64_t generation);
std::string MarkRecord(const std::string& kind);  // "finished", "exported"

}  // namespace skerry
