// A whole run in virtual time for tests: the production coordinator and node actors, really
// training a tiny model.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/check.h"
#include "common/status.h"
#include "coordinator/coordinator_actor.h"
#include "node/node_actor.h"
#include "node/trained_stage.h"
#include "sim/made_up_text.h"
#include "sim/simulation.h"

namespace skerry::testing {

class NoShards final : public ShardStore {
 public:
  bool Has(const ShardName&) override { return true; }
  absl::Status Put(const ShardName&, const Bytes&) override { return absl::OkStatus(); }
};

// Keeps what the coordinator collects at the end.
class CollectedModel final : public ExportSink {
 public:
  absl::Status AddStage(const StageAssignment& stage, bool, const Bytes& base) override {
    stages[stage.first_layer] = base;
    return absl::OkStatus();
  }
  absl::StatusOr<std::string> Finish() override {
    finished = true;
    return std::string(R"("path":"memory","parameters":0,"bytes":0)");
  }
  std::map<int32_t, Bytes> stages;  // by first layer
  bool finished = false;
};

inline RunConfig TinyRun() {
  RunConfig config;
  config.steps = 8;
  config.model = {
      .vocab = 16, .hidden = 16, .layers = 4, .heads = 2, .kv_heads = 1, .ffn = 24, .context = 8};
  config.inner.learning_rate = 1e-2f;
  config.inner.min_learning_rate = 1e-3f;
  config.inner.warmup_steps = 2;
  config.outer.inner_steps = 4;
  config.outer.overlap_steps = 1;
  config.pipeline.microbatches_per_step = 4;
  config.pipeline.sequences_per_microbatch = 2;
  config.pipeline.in_flight = 2;
  config.node_silent_s = 8;
  return config;
}

class Cluster {
 public:
  struct Options {
    RunConfig config = TinyRun();
    int nodes = 3;
    uint64_t network_seed = 1;
    double loss = 0;
    Duration jitter = Duration::Millis(5);
    bool cpu_backend = false;
    std::vector<int> devices = {};  // of each node, on the CPU; empty: one each
    std::function<absl::Status(int node)> before_build = {};  // what it says ends the building
  };

  explicit Cluster(Options options) : options_(std::move(options)), simulation_(Network()) {
    options_.config.nodes_min = options_.nodes;
    simulation_.AddProcess(coordinator(), [this](const std::vector<std::string>& journal) {
      return MakeCoordinator(journal);
    });
    for (int i = 0; i < options_.nodes; ++i) {
      simulation_.AddProcess(
          node(i), [this, i](const auto&) { return MakeNode(i); },
          Instant() + Duration::Millis(50 * (i + 1)));
    }
  }

  static NodeId coordinator() { return TestNodeId(0); }
  static NodeId node(int i) { return TestNodeId(static_cast<uint32_t>(i) + 1); }

  // True if the coordinator ended the run with the model collected.
  bool RunToTheEnd(double limit_s = 4000) {
    simulation_.RunUntil([&] { return simulation_.stopped(coordinator()).has_value(); },
                         Instant() + Duration::Seconds(limit_s));
    return model.finished;
  }

  // The state as the journal tells it: also after the coordinator has gone.
  RunState State() const {
    RunState state;
    for (const std::string& record : simulation_.journal(coordinator())) {
      state.Apply(record).IgnoreError();
    }
    return state;
  }
  Simulation& simulation() { return simulation_; }
  NodeActor* actor(int i) { return static_cast<NodeActor*>(simulation_.actor(node(i))); }

  CollectedModel model;
  std::vector<std::string> events;  // kinds

 private:
  SimulationOptions Network() {
    SimulationOptions options;
    options.seed = options_.network_seed;
    options.link = [this](const NodeId& from, const NodeId& to) {
      // Three regions by number: near nodes are near.
      const int distance = std::abs(int{from.bytes[3]} % 3 - int{to.bytes[3]} % 3);
      return SimLink{Duration::Millis(1 + 20 * distance), 20e6, options_.loss, options_.loss / 2,
                     options_.jitter};
    };
    options.event_sink = [this](Instant, const NodeId&, const std::string& kind,
                                const std::string&) { events.push_back(kind); };
    return options;
  }

  std::unique_ptr<Actor> MakeCoordinator(const std::vector<std::string>& journal) {
    CoordinatorOptions options;
    options.config = options_.config;
    options.journal = journal;
    options.verify_ticket = [](const std::string& ticket) -> absl::StatusOr<AdmittedTicket> {
      if (ticket != "ticket") return absl::PermissionDeniedError("not our ticket");
      return AdmittedTicket{"id", 100};
    };
    options.model = &model;
    auto actor = CoordinatorActor::Create(std::move(options));
    SKERRY_CHECK(actor.ok(), "the journal must load");
    return *std::move(actor);
  }

  std::unique_ptr<Actor> MakeNode(int i) {
    NodeActorOptions options;
    options.self = node(i);
    options.coordinator = coordinator();
    options.ticket = "ticket";
    options.endpoint = "sim";
    options.region = "region";
    options.device = {"test", "test", 10.0, int64_t{1} << 30};
    options.shards = &shards_;
    options.process = ++processes_;
    options.build = [this, i, cpu = options_.cpu_backend](
                        const RunConfig& config, const StageOrder& order,
                        const auto&) -> absl::StatusOr<std::unique_ptr<StageWork>> {
      if (options_.before_build) SKERRY_RETURN_IF_ERROR(options_.before_build(i));
      if (!options_.devices.empty()) {
        std::vector<TrainedStage::Device> devices(
            static_cast<size_t>(options_.devices.at(static_cast<size_t>(i))));
        for (auto& device : devices) device.backend = CreateCpuBackend(1);
        return TrainedStage::Create(config, order.stage, order.holds_ends, std::move(devices),
                                    std::make_unique<MadeUpText>(config), order.recomputed_layers);
      }
      return TrainedStage::Create(config, order.stage, order.holds_ends,
                                  cpu ? CreateCpuBackend(1) : CreateReferenceBackend(),
                                  std::make_unique<MadeUpText>(config), order.recomputed_layers);
    };
    return std::make_unique<NodeActor>(std::move(options));
  }

  Options options_;
  NoShards shards_;
  uint64_t processes_ = 0;  // of nodes, begun so far
  Simulation simulation_;
};

}  // namespace skerry::testing
