// A whole training run in virtual time: the production coordinator and nodes in the simulation
// host, with modelled or real arithmetic, watched by the checkers.
//
// Not thread-safe. One seed, one trace; many seeds are many VirtualRuns.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "coordinator/checkpoint_archive.h"
#include "coordinator/coordinator_actor.h"
#include "node/node_actor.h"
#include "node/trained_stage.h"
#include "sim/checkers.h"
#include "sim/cohort_summary.h"
#include "sim/modelled_stage.h"
#include "sim/network_spec.h"
#include "sim/observed_stage.h"
#include "sim/simulation.h"
#include "sim/simulation_observer.h"

namespace skerry {

struct VirtualNode {
  std::string region;
  DeviceProfile device;  // gflops: of the run's arithmetic, sustained
  double memory_bytes_per_s = 2e10;
  Instant joins;  // when its volunteer starts it
};

enum class VirtualMath : uint8_t {
  kModelled,  // sizes and costs only (modelled_stage.h)
  kTiny,  // a tiny model of as many layers, at the sizes and costs of the run's (scaled_stage.h)
};

struct VirtualRunOptions {
  RunConfig config;
  std::vector<VirtualNode> nodes;
  // The network, one of two: frames over links, or TCP as flows; node i is its number i + 1.
  std::function<SimLink(const NodeId& from, const NodeId& to)> link;
  std::optional<NetworkSpec> network;
  bool relays_cut_pairs = false;  // as relays do (kRelayedAfter), of two nodes that do not hear
  uint64_t seed = 1;
  VirtualMath math = VirtualMath::kModelled;
  Duration limit = Duration::Seconds(24 * 3600.0);
  std::set<std::string> rules;  // checkers; empty: all
  std::set<int32_t> liars;      // nodes whose arithmetic will be falsified
  // The coordinator dies when this journal record is durable, and is back after the time given.
  std::map<int64_t, Duration> coordinator_crashes;
  bool keep_events = true;
  bool keep_status = false;  // status(): the coordinator writes one every second
  // Training data that stage-0 nodes fetch from the coordinator; none: they have all they need.
  int32_t shards = 0;
  int64_t shard_bytes = 100'000;
  // The coordinator collects the model at the end, and holds it to the agreed digests.
  bool exports = false;
  bool stops_at_violation = false;
  // As in a large fleet: nodes are told only of whom they need, and hear nobody else.
  bool introduces_few = false;
  bool tests_lines = false;  // CoordinatorOptions::tests_lines
  bool signs = false;        // statements of sums (sim/simulated_signature.h)
  std::function<GroupLaneFactory(const NodeId&)> lanes;  // empty: nobody has one
  bool plans_quickly = false;  // any sound plan will do (PlannerInput::is_quick)
  // Journal records of the coordinator from before: who was admitted, the plan. Nodes start anew.
  std::vector<std::string> history = {};
};

struct VirtualEvent {
  Instant at;
  NodeId process;
  std::string kind;
  std::string fields;  // JSON object, braces included or not, as the actor gave it
};

struct VirtualOutcome {
  bool finished = false;  // the model is trained and collected
  std::string ended;      // why, in words
  double virtual_s = 0;
  double training_s = 0;  // from the plan to the last step
  double step_s = 0;      // median between two steps
  double tokens_per_s = 0;
  int64_t steps = 0;  // complete in the ledger
  int64_t tokens = 0;
  int64_t rounds = 0;  // of the stage with most
  double hidden_fraction = 1;
  SumTimes sums;                         // of gradients, in cohorts
  double loss_first = 0, loss_last = 0;  // means over 8 steps; 0 without arithmetic
  int64_t bytes_sent = 0;
  int64_t bytes_withdrawn = 0;        // of them, taken back before they left
  int64_t bytes_between_regions = 0;  // from nodes to nodes of another, those not counted
  int64_t events = 0;
  uint64_t trace_hash = 0;
  std::vector<Violation> violations;
  // With a budget, of every stage: "codecs of stage 0, chosen in round 9: int8 40.0 %, …".
  std::vector<std::string> tables = {};
};

class VirtualRun final : private SimulationObserver {
 public:
  explicit VirtualRun(VirtualRunOptions options);
  ~VirtualRun() override;

  static NodeId coordinator() { return TestNodeId(0); }
  static NodeId node(int32_t i) { return TestNodeId(static_cast<uint32_t>(i) + 1); }

  // Script faults before Run: through the simulation, or a node's arithmetic.
  Simulation& simulation() { return *simulation_; }
  StageFaults& faults(int32_t node) { return *faults_.at(static_cast<size_t>(node)); }

  // Told of every pass over a microbatch just before its job ends (SimulationObserver::OnJobEnd).
  using WorkWatcher = std::function<void(const NodeId&, int64_t step, int32_t microbatch)>;
  void WatchWork(WorkWatcher watcher) { worked_ = std::move(watcher); }

  // Told of every message that is delivered.
  using MessageWatcher = std::function<void(Instant, const Message&)>;
  void WatchMessages(MessageWatcher watcher) { delivered_ = std::move(watcher); }

  // Told of every message when it is sent.
  using SendWatcher = std::function<void(const NodeId& from, const Message&)>;
  void WatchSends(SendWatcher watcher) { sent_ = std::move(watcher); }

  VirtualOutcome Run();

  const VirtualRunOptions& options() const { return options_; }
  // What the coordinator last showed people, as JSON; empty unless events are kept.
  const std::string& status() const { return status_; }
  const std::vector<VirtualEvent>& events() const { return events_; }
  const Checkers& checkers() const { return checkers_; }
  // Where the coordinator keeps checkpoints, when config.checkpoint asks for them.
  const std::shared_ptr<CheckpointDisk>& checkpoint_disk() const { return checkpoint_disk_; }
  // With `signs`: what reducers showed of sums that were false, by ShownFileName; the model.
  const std::map<std::string, Bytes>& shown() const { return shown_; }
  const TransformerConfig& trained_model() const { return trained_model_; }
  int64_t stages_exported() const { return stages_exported_; }

 private:
  class Shards;
  class NodeDisk;
  class Sink;
  CheckpointStore* MakeArchive();

  void OnSent(Instant at, const NodeId& from, const NodeId& to, const Message& message) override;
  void OnWithdrawn(Instant at, const NodeId& from, const NodeId& to,
                   const Message& message) override;
  bool AreApart(const NodeId& from, const NodeId& to) const;  // nodes of different regions
  void OnDelivered(Instant at, const NodeId& from, const NodeId& to,
                   const Message& message) override;
  void OnPersist(Instant at, const NodeId& process, const std::string& record) override;
  void OnStart(Instant at, const NodeId& process) override;
  void OnStop(Instant at, const NodeId& process, int exit_code, const std::string& reason) override;
  void OnDiskLost(Instant at, const NodeId& process) override;
  void OnEvent(Instant at, const NodeId& process, const std::string& kind,
               const std::string& fields) override;

  std::unique_ptr<Actor> MakeCoordinator(const std::vector<std::string>& journal);
  std::unique_ptr<Actor> MakeNode(int32_t i);
  absl::StatusOr<std::unique_ptr<StageWork>> Build(int32_t i, const RunConfig& config,
                                                   const StageOrder& order);
  SimulationOptions Simulated();
  ObservedStage::Observer ObserverOf(int32_t i, TrainedStage* trained);
  void AddLies(int32_t i, const TrainedStage& trained, ObservedStage::Observer& observer);
  void WantSignatures(CoordinatorOptions& options);
  Signature Signed(int32_t i, std::span<const uint8_t> statement) const;
  void Tick();
  bool Able() const;
  VirtualOutcome Outcome() const;
  void AddTimes(VirtualOutcome& outcome) const;
  void AddLosses(VirtualOutcome& outcome) const;

  VirtualRunOptions options_;
  std::vector<std::shared_ptr<StageFaults>> faults_;
  std::unique_ptr<Shards> shards_;
  std::vector<std::unique_ptr<NodeDisk>> disks_;  // of every node
  std::unique_ptr<Sink> sink_;
  // One disk, and an archive on it for every life of the coordinator.
  std::shared_ptr<CheckpointDisk> checkpoint_disk_ = std::make_shared<CheckpointDisk>();
  std::vector<std::unique_ptr<CheckpointArchive>> archives_;
  int64_t stages_exported_ = 0;
  uint64_t processes_ = 0;  // of nodes, begun so far
  Checkers checkers_;
  std::vector<VirtualEvent> events_;
  bool coordinator_stopped_ = false;  // and will not be started again
  std::optional<Instant> planned_;
  std::map<int64_t, Instant> step_ended_;
  SumTimes sums_;
  std::string status_;
  int64_t bytes_withdrawn_ = 0, bytes_between_regions_ = 0;
  std::map<int32_t, std::vector<Payload>> last_said_;  // the newest honest delta of each stage
  std::map<std::string, Bytes> shown_;
  TransformerConfig trained_model_;
  WorkWatcher worked_;
  MessageWatcher delivered_;
  SendWatcher sent_;
  std::unique_ptr<Simulation> simulation_;
};

}  // namespace skerry
