#include "sim/virtual_run.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/check.h"
#include "common/status.h"
#include "kernels/backend.h"
#include "node/trained_stage.h"
#include "pipeline/plan/route.h"
#include "sim/made_up_text.h"
#include "sim/scaled_stage.h"

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

// As many layers as the run's model, so that the same plan fits; all else as small as it can be.
RunConfig TinyOf(const RunConfig& config) {
  RunConfig tiny = config;
  tiny.model = {.vocab = 32,
                .hidden = 16,
                .layers = config.model.layers,
                .heads = 2,
                .kv_heads = 1,
                .ffn = 32,
                .context = 8};
  tiny.pipeline.sequences_per_microbatch = 1;
  tiny.inner.learning_rate = 1e-2f;
  tiny.inner.min_learning_rate = 1e-3f;
  return tiny;
}

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

VirtualRun::VirtualRun(VirtualRunOptions options)
    : options_(std::move(options)), shards_(std::make_unique<NoShards>()), checkers_([&] {
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
    simulation_->AddProcess(
        node(i), [this, i](const auto&) { return MakeNode(i); },
        options_.nodes[static_cast<size_t>(i)].joins);
  }
}

SimulationOptions VirtualRun::Simulated() {
  SimulationOptions simulated;
  simulated.seed = options_.seed;
  simulated.link = options_.link;
  if (options_.network) {
    SimulatedNetwork network;
    network.spec = *options_.network;
    network.node_of[coordinator()] = 0;
    for (int32_t i = 0; i < static_cast<int32_t>(options_.nodes.size()); ++i) {
      network.node_of[node(i)] = i + 1;
    }
    simulated.network = std::move(network);
  }
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

std::unique_ptr<Actor> VirtualRun::MakeCoordinator(const std::vector<std::string>& journal) {
  CoordinatorOptions options;
  options.config = options_.config;
  options.journal = options_.history;
  options.journal.insert(options.journal.end(), journal.begin(), journal.end());
  options.verify_ticket = [](const std::string& ticket) -> absl::StatusOr<AdmittedTicket> {
    return AdmittedTicket{ticket, CoordinatorActor::kNodesMax};
  };
  if (options_.keep_events) options.status = [this](const std::string& json) { status_ = json; };
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
  options.shards = shards_.get();
  options.build = [this, i](const RunConfig& config, const StageAssignment& stage, bool ends,
                            const auto&) { return Build(i, config, stage, ends); };
  return std::make_unique<NodeActor>(std::move(options));
}

absl::StatusOr<std::unique_ptr<StageWork>> VirtualRun::Build(int32_t i, const RunConfig& config,
                                                             const StageAssignment& stage,
                                                             bool ends) {
  const VirtualNode& spec = options_.nodes[static_cast<size_t>(i)];
  std::unique_ptr<StageWork> work =
      std::make_unique<ModelledStage>(config, stage, ends,
                                      std::make_shared<const ModelledDevice>(ModelledDevice{
                                          spec.device.gflops, spec.memory_bytes_per_s}));
  if (options_.math == VirtualMath::kTiny) {
    const RunConfig tiny = TinyOf(config);
    SKERRY_ASSIGN_OR_RETURN(auto trained,
                            TrainedStage::Create(tiny, stage, ends, CreateReferenceBackend(),
                                                 std::make_unique<MadeUpText>(tiny)));
    work = std::make_unique<ScaledStage>(std::move(trained), std::move(work));
  }
  ObservedStage::Observer observer;
  observer.accumulated = [this, id = node(i)](int64_t step, int32_t microbatch) {
    checkers_.OnAccumulated(simulation_->now(), id, step, microbatch);
  };
  observer.stepped = [this, id = node(i)](int64_t step, int32_t microbatches) {
    checkers_.OnStepped(simulation_->now(), id, step, microbatches);
  };
  observer.worked = [this, id = node(i)](int64_t step, int32_t microbatch) {
    if (worked_) worked_(id, step, microbatch);
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

void VirtualRun::OnDelivered(Instant at, const NodeId& from, const NodeId& to,
                             const Message& message) {
  checkers_.OnMessage(at, from, to, message);
}

void VirtualRun::OnPersist(Instant at, const NodeId& process, const std::string& record) {
  checkers_.OnPersist(at, process, record);
}

void VirtualRun::OnStart(Instant at, const NodeId& process) {
  checkers_.OnLife(at, process);
}

void VirtualRun::OnEvent(Instant at, const NodeId& process, const std::string& kind,
                         const std::string& fields) {
  if (kind == "plan" && !planned_) planned_ = at;
  if (kind == "step") {
    step_ended_.emplace(nlohmann::json::parse("{" + fields + "}", nullptr, false).value("step", -1),
                        at);
  }
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
  AddTimes(outcome);
  AddLosses(outcome);
  return outcome;
}

void VirtualRun::AddTimes(VirtualOutcome& outcome) const {
  double transfer_s = 0, wait_s = 0;
  for (const auto& [key, replicas] : checkers_.state().applied) {
    for (const auto& [id, applied] : replicas) {
      transfer_s += applied.transfer_s;
      wait_s += applied.wait_s;
    }
  }
  if (transfer_s > 0) outcome.hidden_fraction = 1 - wait_s / transfer_s;
  if (!planned_ || step_ended_.empty()) return;
  std::vector<double> steps;
  Instant before = *planned_;
  for (const auto& [step, at] : step_ended_) {
    steps.push_back((at - before).seconds());
    before = std::max(before, at);
  }
  outcome.training_s = (before - *planned_).seconds();
  outcome.step_s = Median(std::move(steps));
  if (outcome.training_s > 0) {
    outcome.tokens_per_s = static_cast<double>(outcome.tokens) / outcome.training_s;
  }
}

void VirtualRun::AddLosses(VirtualOutcome& outcome) const {
  const auto each = static_cast<size_t>(options_.config.pipeline.microbatches_per_step);
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
