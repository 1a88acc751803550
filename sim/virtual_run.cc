#include "sim/virtual_run.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/check.h"
#include "kernels/backend.h"
#include "node/trained_stage.h"
#include "pipeline/plan/route.h"
#include "sim/made_up_text.h"

namespace skerry {
namespace {

constexpr Duration kTick = Duration::Seconds(5);
constexpr int64_t kLossSteps = 8;  // over which first and last loss are averaged

// Training data is made up where it is needed.
class NoShards final : public ShardStore {
 public:
  bool Has(const ShardName&) override { return true; }
  absl::Status Put(const ShardName&, const Bytes&) override { return absl::OkStatus(); }
};

// Passes everything on, and shows the checkers what is persisted.
class WatchedContext final : public Context {
 public:
  WatchedContext(Context& context, Checkers& checkers) : context_(context), checkers_(checkers) {}
  NodeId self() const override { return context_.self(); }
  Instant now() const override { return context_.now(); }
  Rng& rng() override { return context_.rng(); }
  void Send(const NodeId& to, Message message) override { context_.Send(to, std::move(message)); }
  TimerId StartTimer(Duration after) override { return context_.StartTimer(after); }
  void CancelTimer(TimerId id) override { context_.CancelTimer(id); }
  JobId Submit(Job job) override { return context_.Submit(std::move(job)); }
  void Persist(std::string record) override {
    checkers_.OnPersist(context_.now(), context_.self(), record);
    context_.Persist(std::move(record));
  }
  void Event(const std::string& kind, const std::string& json_fields) override {
    context_.Event(kind, json_fields);
  }
  void ConnectPeer(const NodeId& peer, const std::string& endpoint) override {
    context_.ConnectPeer(peer, endpoint);
  }
  void DisconnectPeer(const NodeId& peer) override { context_.DisconnectPeer(peer); }
  void Stop(int exit_code, const std::string& reason) override { context_.Stop(exit_code, reason); }

 private:
  Context& context_;
  Checkers& checkers_;
};

}  // namespace

// A process as the checkers see it.
class VirtualRun::CheckedActor final : public Actor {
 public:
  CheckedActor(std::unique_ptr<Actor> actor, Checkers& checkers)
      : actor_(std::move(actor)), checkers_(checkers) {}
  void OnStart(Context& context) override {
    checkers_.OnLife(context.now(), context.self());
    WatchedContext watched(context, checkers_);
    actor_->OnStart(watched);
  }
  void OnMessage(Context& context, const NodeId& from, const Message& message) override {
    checkers_.OnMessage(context.now(), from, context.self(), message);
    WatchedContext watched(context, checkers_);
    actor_->OnMessage(watched, from, message);
  }
  void OnTimer(Context& context, TimerId timer) override {
    WatchedContext watched(context, checkers_);
    actor_->OnTimer(watched, timer);
  }
  void OnJobDone(Context& context, JobId job) override {
    WatchedContext watched(context, checkers_);
    actor_->OnJobDone(watched, job);
  }
  void OnPeerRestarted(Context& context, const NodeId& peer) override {
    WatchedContext watched(context, checkers_);
    actor_->OnPeerRestarted(watched, peer);
  }

 private:
  std::unique_ptr<Actor> actor_;
  Checkers& checkers_;
};

class VirtualRun::Collected final : public ExportSink {
 public:
  absl::Status AddStage(const StageAssignment&, bool, const Bytes& base) override {
    bytes_ += static_cast<int64_t>(base.size());
    return absl::OkStatus();
  }
  absl::StatusOr<std::string> Finish() override {
    return absl::StrFormat(R"("bytes":%d)", std::exchange(bytes_, 0));
  }

 private:
  int64_t bytes_ = 0;
};

VirtualRun::VirtualRun(VirtualRunOptions options)
    : options_(std::move(options)),
      model_(std::make_unique<Collected>()),
      shards_(std::make_unique<NoShards>()),
      checkers_([&] {
        CheckerOptions checked;
        checked.config = options_.config;
        checked.coordinator = coordinator();
        checked.rules = options_.rules;
        for (const int32_t liar : options_.liars) checked.liars.insert(node(liar));
        return checked;
      }()) {
  SKERRY_CHECK(!options_.nodes.empty() && options_.link != nullptr);
  SimulationOptions simulated;
  simulated.seed = options_.seed;
  simulated.link = options_.link;
  simulated.event_sink = [this](Instant at, const NodeId& process, const std::string& kind,
                                const std::string& fields) {
    if (options_.keep_events) events_.push_back({at, process, kind, fields});
  };
  simulation_ = std::make_unique<Simulation>(std::move(simulated));
  simulation_->AddProcess(coordinator(), [this](const std::vector<std::string>& journal) {
    return MakeCoordinator(journal);
  });
  for (int32_t i = 0; i < static_cast<int32_t>(options_.nodes.size()); ++i) {
    faults_.push_back(std::make_shared<StageFaults>());
    simulation_->AddProcess(
        node(i), [this, i](const auto&) { return MakeNode(i); },
        options_.nodes[static_cast<size_t>(i)].joins);
  }
}

VirtualRun::~VirtualRun() = default;

std::unique_ptr<Actor> VirtualRun::MakeCoordinator(const std::vector<std::string>& journal) {
  CoordinatorOptions options;
  options.config = options_.config;
  options.journal = journal;
  options.verify_ticket = [](const std::string& ticket) -> absl::StatusOr<AdmittedTicket> {
    return AdmittedTicket{ticket, CoordinatorActor::kNodesMax};
  };
  if (options_.real_math) options.model = model_.get();
  if (options_.keep_events) options.status = [this](const std::string& json) { status_ = json; };
  auto actor = CoordinatorActor::Create(std::move(options));
  SKERRY_CHECK(actor.ok(), "a journal of our own making must load");
  return std::make_unique<CheckedActor>(*std::move(actor), checkers_);
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
  options.shards = shards_.get();
  options.build = [this, i](const RunConfig& config, const StageAssignment& stage, bool ends,
                            const auto&) { return Build(i, config, stage, ends); };
  return std::make_unique<CheckedActor>(std::make_unique<NodeActor>(std::move(options)), checkers_);
}

absl::StatusOr<std::unique_ptr<StageWork>> VirtualRun::Build(int32_t i, const RunConfig& config,
                                                             const StageAssignment& stage,
                                                             bool ends) {
  const VirtualNode& spec = options_.nodes[static_cast<size_t>(i)];
  std::unique_ptr<StageWork> work;
  if (options_.real_math) {
    auto trained = TrainedStage::Create(config, stage, ends, CreateReferenceBackend(),
                                        std::make_unique<MadeUpText>(config));
    if (!trained.ok()) return trained.status();
    work = *std::move(trained);
  } else {
    work = std::make_unique<ModelledStage>(config, stage, ends,
                                           std::make_shared<const ModelledDevice>(ModelledDevice{
                                               spec.device.gflops, spec.memory_bytes_per_s}));
  }
  ObservedStage::Observer observer;
  observer.accumulated = [this, id = node(i)](int64_t step, int32_t microbatch) {
    checkers_.OnAccumulated(simulation_->now(), id, step, microbatch);
  };
  observer.stepped = [this, id = node(i)](int64_t step, int32_t microbatches) {
    checkers_.OnStepped(simulation_->now(), id, step, microbatches);
  };
  return std::make_unique<ObservedStage>(std::move(work), std::move(observer),
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
  checkers_.OnTick(simulation_->now(), Able());
  simulation_->At(simulation_->now() + kTick, [this](Simulation&) { Tick(); });
}

VirtualOutcome VirtualRun::Run() {
  simulation_->At(Instant() + kTick, [this](Simulation&) { Tick(); });
  simulation_->RunUntil([this] { return simulation_->stopped(coordinator()).has_value(); },
                        Instant() + options_.limit);
  const auto stopped = simulation_->stopped(coordinator());
  if (stopped && stopped->exit_code == 0) checkers_.AtEnd(simulation_->now());
  return Outcome();
}

VirtualOutcome VirtualRun::Outcome() {
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
  double transfer_s = 0, wait_s = 0;
  for (const auto& [key, replicas] : state.applied) {
    for (const auto& [id, applied] : replicas) {
      transfer_s += applied.transfer_s;
      wait_s += applied.wait_s;
    }
  }
  if (transfer_s > 0) outcome.hidden_fraction = 1 - wait_s / transfer_s;
  for (const auto& [id, traffic] : state.traffic) outcome.bytes_sent += traffic.total_sent();
  const auto each = static_cast<size_t>(options_.config.pipeline.microbatches_per_step);
  std::vector<double> losses;
  for (const auto& [step, by] : state.losses) {
    if (by.by_microbatch.size() == each) ++outcome.steps;
    for (const auto& [microbatch, loss] : by.by_microbatch) losses.push_back(double(loss.loss));
  }
  if (options_.real_math && !losses.empty()) {
    const size_t n = std::min(losses.size(), static_cast<size_t>(kLossSteps) * each);
    for (size_t i = 0; i < n; ++i) {
      outcome.loss_first += losses[i] / static_cast<double>(n);
      outcome.loss_last += losses[losses.size() - 1 - i] / static_cast<double>(n);
    }
  }
  std::optional<Instant> planned, last;
  for (const VirtualEvent& event : events_) {
    if (event.kind == "plan" && !planned) planned = event.at;
    if (event.kind == "step") last = event.at;
  }
  if (planned && last) outcome.training_s = (*last - *planned).seconds();
  return outcome;
}

}  // namespace skerry
