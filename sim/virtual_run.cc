#include "sim/virtual_run.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/check.h"
#include "common/digest.h"
#include "common/median.h"
#include "common/rng.h"
#include "common/round_clock.h"
#include "common/status.h"
#include "coordinator/listings.h"
#include "kernels/backend.h"
#include "pipeline/plan/route.h"
#include "sim/made_up_text.h"
#include "sim/scaled_stage.h"
#include "sim/snapshot_restart.h"

namespace skerry {
namespace {

constexpr Duration kTick = Duration::Seconds(5);
constexpr Duration kServiceRestart = Duration::Seconds(5);
constexpr int64_t kLossSteps = 8;  // over which first and last loss are averaged

// As many layers as the run's model, so that the same plan fits; all else as small as it can be.
RunConfig TinyOf(const RunConfig& config) {
  RunConfig tiny = config;
  tiny.model = {.vocab = 32,
                .hidden = 16,
                .layers = config.model.layers,
                .heads = 2,
                .kv_heads = 1,
                .ffn = 32,
                .context = 8,
                .ladder = config.model.ladder};
  tiny.pipeline.sequences_per_microbatch = 1;
  tiny.inner.learning_rate = 1e-2f;
  tiny.inner.min_learning_rate = 1e-3f;
  return tiny;
}

bool CouldNotWrite(const std::string& reason) {
  return reason.starts_with("journal: ");
}

}  // namespace

// Training data that the coordinator has and nodes fetch. Made up, from the seed.
class VirtualRun::Shards final : public ObjectSource {
 public:
  Shards(uint64_t seed, int32_t count, int64_t bytes_each) {
    for (int32_t i = 0; i < count; ++i) {
      Rng rng(seed, "shard", static_cast<uint64_t>(i));
      Bytes bytes(static_cast<size_t>(bytes_each));
      for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(rng.Next());
      const std::string file = absl::StrFormat("%d.tokens", i);
      names_.push_back({file, DigestOf(bytes), bytes_each});
      bytes_["shard/" + file] = std::move(bytes);
    }
  }
  ObjectChunk Read(const ObjectRequest& request) override {
    const auto it = bytes_.find(request.object);
    if (it == bytes_.end()) return {request.object, request.offset, -1, nullptr};
    const auto total = static_cast<int64_t>(it->second.size());
    const int64_t begin = std::min(request.offset, total);
    const int64_t end = std::min(begin + request.length, total);
    return {request.object, request.offset, total,
            MakePayload(Bytes(it->second.begin() + begin, it->second.begin() + end))};
  }
  const std::vector<ShardName>& names() const { return names_; }

 private:
  std::vector<ShardName> names_;
  std::map<std::string, Bytes> bytes_;
};

// What a node has of it; outlives its processes unless the disk is lost.
class VirtualRun::NodeDisk final : public ShardStore {
 public:
  explicit NodeDisk(std::function<bool()> is_full) : is_full_(std::move(is_full)) {}
  bool Has(const ShardName& shard) override { return kept_.contains(shard.digest); }
  Payload Read(const ShardName& shard, int64_t offset, int64_t length) override {
    const auto begin = kept_.at(shard.digest)->begin() + offset;
    return MakePayload(Bytes(begin, begin + length));
  }
  absl::Status Put(const ShardName& shard, const Bytes& bytes) override {
    if (DigestOf(bytes) != shard.digest) return DataLoss("shard %s is damaged", shard.file);
    if (is_full_()) return ResourceExhausted("no space left on device");
    kept_.emplace(shard.digest, MakePayload(bytes));
    return absl::OkStatus();
  }
  void Lose() { kept_.clear(); }

 private:
  std::function<bool()> is_full_;
  std::map<Digest, Payload> kept_;
};

// Counts what is collected.
class VirtualRun::Sink final : public ExportSink {
 public:
  explicit Sink(int64_t* stages) : stages_(stages) {}
  absl::Status AddStage(const StageAssignment&, bool, const Bytes& base) override {
    ++*stages_;
    return base.empty() ? Internal("a stage without parameters") : absl::OkStatus();
  }
  absl::StatusOr<std::string> Finish() override { return std::string(R"("path":"nowhere")"); }

 private:
  int64_t* stages_;
};

namespace {

VirtualRunOptions WithEffectiveOuter(VirtualRunOptions options) {
  options.config.outer = EffectiveOuter(options.config.outer);
  return options;
}

}  // namespace

VirtualRun::VirtualRun(VirtualRunOptions options)
    : options_(WithEffectiveOuter(std::move(options))),
      shards_(std::make_unique<Shards>(options_.seed, options_.shards, options_.shard_bytes)),
      sink_(std::make_unique<Sink>(&stages_exported_)),
      checkers_([&] {
        CheckerOptions checked;
        checked.config = options_.config;
        checked.coordinator = coordinator();
        checked.rules = options_.rules;
        for (const int32_t liar : options_.liars) checked.liars.insert(node(liar));
        return checked;
      }()) {
  SKERRY_CHECK(!options_.nodes.empty() && (options_.link != nullptr || options_.network));
  for (const std::string& record : options_.history)
    checkers_.OnPersist(Instant(), coordinator(), record);
  if (checkers_.state().plan) planned_ = Instant();
  simulation_ = std::make_unique<Simulation>(Simulated());
  simulation_->Observe(this);
  simulation_->AddProcess(coordinator(), [this](const std::vector<std::string>& journal) {
    return MakeCoordinator(journal);
  });
  for (int32_t i = 0; i < static_cast<int32_t>(options_.nodes.size()); ++i) {
    faults_.push_back(std::make_shared<StageFaults>());
    disks_.push_back(
        std::make_unique<NodeDisk>([this, i] { return simulation_->IsDiskFull(node(i)); }));
    simulation_->AddProcess(
        node(i), [this, i](const auto&) { return MakeNode(i); },
        options_.nodes[static_cast<size_t>(i)].joins);
  }
}

SimulationOptions VirtualRun::Simulated() {
  SimulationOptions simulated;
  simulated.seed = options_.seed;
  simulated.link = options_.link;
  // Links lose frames as no TCP connection does: what is lost holds up all that follows, heartbeats
  // too.
  if (options_.link) simulated.repeat_after_max = Duration::Seconds(2);
  if (options_.network) {
    SimulatedNetwork network;
    network.spec = *options_.network;
    network.node_of[coordinator()] = 0;
    for (int32_t i = 0; i < static_cast<int32_t>(options_.nodes.size()); ++i) {
      network.node_of[node(i)] = i + 1;
    }
    simulated.network = std::move(network);
  }
  if (options_.introduces_few) simulated.known_to_all = coordinator();
  simulated.crash_after_persist = [this](Simulation& simulation, const NodeId& process,
                                         int64_t record) {
    const auto crash = options_.coordinator_crashes.find(record);
    if (process != coordinator() || crash == options_.coordinator_crashes.end()) return false;
    simulation.StartAt(simulation.now() + crash->second, process);
    options_.coordinator_crashes.erase(crash);
    return true;
  };
  return simulated;
}

VirtualRun::~VirtualRun() = default;

// Without arithmetic a state is a fingerprint: that of a stage cut otherwise is one of them all.
CheckpointStore* VirtualRun::MakeArchive() {
  const CheckpointConfig& kept = options_.config.checkpoint;
  if (kept.every_rounds == 0 && kept.lost_stage == LostStage::kCheckpoint) return nullptr;
  CheckpointArchive::Recut recut;
  if (options_.math == VirtualMath::kModelled) recut = ModelledStage::Recut;
  archives_.push_back(std::make_unique<CheckpointArchive>(
      std::make_unique<MemoryCheckpointFiles>(checkpoint_disk_), std::move(recut)));
  return archives_.back().get();
}

std::unique_ptr<Actor> VirtualRun::MakeCoordinator(const std::vector<std::string>& journal) {
  CoordinatorOptions options;
  options.config = options_.config;
  options.journal = options_.history;
  options.journal.insert(options.journal.end(), journal.begin(), journal.end());
  if (!journal.empty()) BeginWithSnapshot(options);
  options.shards = shards_->names();
  options.objects = shards_.get();
  if (options_.exports) options.model = sink_.get();
  options.checkpoints = MakeArchive();
  options.plans_quickly = options_.plans_quickly;
  options.tests_lines = options_.tests_lines;
  if (options_.introduces_few) options.introduces_all_max = 0;
  if (options_.math == VirtualMath::kModelled) options.follow_sum = ModelledStage::FollowSum;
  if (options_.math == VirtualMath::kTiny) options.trained_model = TinyOf(options_.config).model;
  options.verify_ticket = [](const std::string& ticket) -> absl::StatusOr<AdmittedTicket> {
    return AdmittedTicket{ticket, CoordinatorActor::kNodesMax};
  };
  if (options_.signs) WantSignatures(options);
  if (options_.keep_status) options.status = [this](const std::string& json) { status_ = json; };
  auto actor = CoordinatorActor::Create(std::move(options));
  SKERRY_CHECK(actor.ok(), "a journal of our own making must load");
  return *std::move(actor);
}

std::unique_ptr<Actor> VirtualRun::MakeNode(int32_t i) {
  const VirtualNode& spec = options_.nodes[static_cast<size_t>(i)];
  NodeActorOptions options;
  options.self = node(i);
  options.coordinator = coordinator();
  options.ticket = "simulated";
  options.endpoint = "simulated";
  options.region = spec.region;
  options.device = spec.device;
  options.shards = disks_[static_cast<size_t>(i)].get();
  options.process = ++processes_;
  if (options_.signs) options.sign = [this, i](auto said) { return Signed(i, said); };
  options.build = [this, i](const RunConfig& config, const StageOrder& order, const auto&) {
    return Build(i, config, order);
  };
  if (options_.lanes) options.lane = options_.lanes(node(i));
  if (options_.network) options.handling_s_per_byte = kHandlingSecondsPerByte;
  return std::make_unique<NodeActor>(std::move(options));
}

// A tiny model's backward pass is cut between any two layers, as that of a large one.
constexpr int64_t kLeastPart = 1;

absl::StatusOr<std::unique_ptr<StageWork>> VirtualRun::Build(int32_t i, const RunConfig& config,
                                                             const StageOrder& order) {
  const VirtualNode& spec = options_.nodes[static_cast<size_t>(i)];
  auto modelled = std::make_unique<ModelledStage>(
      config, order.stage, order.holds_ends,
      std::make_shared<const ModelledDevice>(
          ModelledDevice{spec.device.gflops, spec.memory_bytes_per_s}),
      ModelledThrift{order.recomputed_layers, order.offloads, order.parking_waits});
  std::unique_ptr<StageWork> work;
  TrainedStage* trained = nullptr;
  if (options_.math == VirtualMath::kTiny) {
    const RunConfig tiny = TinyOf(config);
    SKERRY_ASSIGN_OR_RETURN(auto small, TrainedStage::Create(tiny, order.stage, order.holds_ends,
                                                             CreateReferenceBackend(),
                                                             std::make_unique<MadeUpText>(tiny),
                                                             order.recomputed_layers, kLeastPart));
    trained = static_cast<TrainedStage*>(small.get());
    work = std::make_unique<ScaledStage>(std::move(small), std::move(modelled));
  } else {
    work = std::move(modelled);
  }
  return std::make_unique<ObservedStage>(std::move(work), ObserverOf(i, trained),
                                         faults_[static_cast<size_t>(i)]);
}

// Enough is up for steps to be made: the coordinator, and a live data node (or, before the plan,
// everybody who is waited for).
bool VirtualRun::Able() const {
  if (!simulation_->IsUp(coordinator())) return false;
  const auto& plan = checkers_.state().plan;
  if (plan) {
    const auto data_nodes = LiveReplicas(*plan, 0);
    return std::any_of(data_nodes.begin(), data_nodes.end(),
                       [&](const NodeId& id) { return simulation_->IsUp(id); });
  }
  int32_t up = 0;
  for (size_t i = 0; i < options_.nodes.size(); ++i) up += simulation_->IsUp(node(int32_t(i)));
  return up >= options_.config.nodes_min;
}

void VirtualRun::Tick() {
  const Instant now = simulation_->now();
  checkers_.OnTick(now, Able());
  if (simulation_->LongestQueueEver() > checkers_.queue_max()) {
    checkers_.OnQueue(now, coordinator(), simulation_->LongestQueue(coordinator()));
    for (int32_t i = 0; i < static_cast<int32_t>(options_.nodes.size()); ++i) {
      checkers_.OnQueue(now, node(i), simulation_->LongestQueue(node(i)));
    }
  }
  simulation_->At(simulation_->now() + kTick, [this](Simulation&) { Tick(); });
}

VirtualOutcome VirtualRun::Run() {
  simulation_->At(Instant() + kTick, [this](Simulation&) { Tick(); });
  const auto is_over = [this] {
    return coordinator_stopped_ || (options_.stops_at_violation && !checkers_.violations().empty());
  };
  simulation_->RunUntil(is_over, Instant() + options_.limit);
  const auto stopped = simulation_->stopped(coordinator());
  if (stopped && stopped->exit_code == 0) checkers_.AtEnd(simulation_->now());
  return Outcome();
}

void VirtualRun::OnDelivered(Instant at, const NodeId& from, const NodeId& to,
                             const Message& message) {
  checkers_.OnMessage(at, from, to, message);
  if (delivered_) delivered_(at, message);
}

void VirtualRun::OnPersist(Instant at, const NodeId& process, const std::string& record) {
  checkers_.OnPersist(at, process, record);
}

void VirtualRun::OnStart(Instant at, const NodeId& process) {
  checkers_.OnLife(at, process);
}

// A coordinator that could not write is started again, as a service is; the run is not over.
void VirtualRun::OnStop(Instant at, const NodeId& process, int, const std::string& reason) {
  if (process != coordinator()) return;
  coordinator_stopped_ = !CouldNotWrite(reason);
  if (!coordinator_stopped_) simulation_->StartAt(at + kServiceRestart, process);
}

void VirtualRun::OnDiskLost(Instant, const NodeId& process) {
  for (int32_t i = 0; i < static_cast<int32_t>(disks_.size()); ++i) {
    if (process == node(i)) disks_[static_cast<size_t>(i)]->Lose();
  }
}

void VirtualRun::OnEvent(Instant at, const NodeId& process, const std::string& kind,
                         const std::string& fields) {
  if (kind == "plan" && !planned_) planned_ = at;
  if (kind == "step") {
    step_ended_.emplace(nlohmann::json::parse("{" + fields + "}", nullptr, false).value("step", -1),
                        at);
  }
  if (kind == "finished") sums_.AddFields(fields);
  if (options_.keep_events) events_.push_back({at, process, kind, fields});
}

VirtualOutcome VirtualRun::Outcome() const {
  const RunState& state = checkers_.state();
  const auto stopped = simulation_->stopped(coordinator());
  VirtualOutcome outcome;
  outcome.finished = state.exported;
  outcome.ended = stopped ? stopped->reason : "the time limit of the simulation";
  outcome.virtual_s = (simulation_->now() - Instant()).seconds();
  outcome.tokens = state.tokens;
  outcome.events = simulation_->events();
  outcome.trace_hash = simulation_->trace_hash();
  outcome.violations = checkers_.violations();
  for (const auto& [key, commit] : state.commits) {
    outcome.rounds = std::max(outcome.rounds, key.second + 1);
  }
  for (const auto& [id, traffic] : state.traffic) outcome.bytes_sent += traffic.total_sent();
  outcome.bytes_withdrawn = bytes_withdrawn_;
  outcome.bytes_between_regions = bytes_between_regions_;
  outcome.tables = TableLines(TablesJson(state));
  AddTimes(outcome);
  AddLosses(outcome);
  return outcome;
}

void VirtualRun::AddTimes(VirtualOutcome& outcome) const {
  outcome.hidden_fraction = checkers_.state().hidden.Fraction();
  outcome.sums = sums_;
  if (!planned_ || step_ended_.empty()) return;
  std::vector<double> steps;
  Instant before = *planned_;
  for (const auto& [step, at] : step_ended_) {
    steps.push_back((at - before).seconds());
    before = std::max(before, at);
  }
  outcome.training_s = (before - *planned_).seconds();
  outcome.step_s = UpperMedian(std::move(steps));
  if (outcome.training_s > 0) {
    outcome.tokens_per_s = static_cast<double>(outcome.tokens) / outcome.training_s;
  }
}

void VirtualRun::AddLosses(VirtualOutcome& outcome) const {
  const auto each = static_cast<size_t>(checkers_.config().pipeline.microbatches_per_step);
  std::vector<double> losses;
  for (const auto& [step, by] : checkers_.state().losses) {
    if (by.by_microbatch.size() == each) ++outcome.steps;
    for (const auto& [microbatch, loss] : by.by_microbatch) losses.push_back(double{loss.loss});
  }
  const size_t n = std::min(losses.size(), static_cast<size_t>(kLossSteps) * each);
  for (size_t i = 0; i < n; ++i) {
    outcome.loss_first += losses[i] / static_cast<double>(n);
    outcome.loss_last += losses[losses.size() - 1 - i] / static_cast<double>(n);
  }
}

}  // namespace skerry
