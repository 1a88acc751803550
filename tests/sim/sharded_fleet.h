// Two stages of four replicas whose rounds are sharded, and a count of what rounds move.
#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "routing/cost_model.h"
#include "sim/virtual_run.h"

namespace skerry::testing {

inline VirtualRunOptions EightNodes() {
  VirtualRunOptions options;
  options.config.steps = 8;
  options.config.nodes_min = 8;
  options.config.node_silent_s = 8;
  options.config.replan_s = 0;
  options.config.model = {
      .vocab = 64, .hidden = 64, .layers = 4, .heads = 2, .kv_heads = 1, .ffn = 256, .context = 16};
  options.config.outer.inner_steps = 2;
  options.config.outer.overlap_steps = 1;
  options.config.pipeline.stages = 2;
  options.config.pipeline.microbatches_per_step = 8;
  options.config.pipeline.sequences_per_microbatch = 1;
  VirtualNode node;
  node.device = {"simulated", "simulated", 0.05, int64_t{1} << 34};
  options.nodes.assign(8, node);
  options.link = [](const NodeId&, const NodeId&) {
    return SimLink{.one_way = Duration::Millis(20), .bytes_per_s = 1e7, .jitter = {}};
  };
  options.exports = true;
  options.limit = Duration::Seconds(3600);
  return options;
}

// What is wrong with a run that must finish; empty: nothing.
inline std::string EndOf(const VirtualRun&, const VirtualOutcome& outcome) {
  if (!outcome.violations.empty()) {
    return outcome.violations.front().rule + ": " + outcome.violations.front().what;
  }
  return outcome.finished ? "" : "ended: " + outcome.ended;
}

// Runs it and watches messages of rounds.
class CountedRounds {
 public:
  explicit CountedRounds(VirtualRunOptions options) : run_(std::move(options)) {}

  void Run() {
    run_.WatchMessages([this](Instant at, const Message& message) { Saw(at, message); });
    outcome = run_.Run();
  }

  // Sent by a replica of a round, mean; with headers.
  double BitsPerParameter(int32_t replicas) const {
    const RunConfig& config = run_.options().config;
    const auto parameters =
        static_cast<double>(StageParameters(config.model, config.model.layers, true));
    const auto rounds = static_cast<double>(config.steps / config.outer.inner_steps);
    return 8 * static_cast<double>(bytes) / (replicas * rounds * parameters);
  }

  std::vector<Instant> moments;  // when one of them was delivered
  int64_t bytes = 0;
  VirtualOutcome outcome;

 private:
  void Saw(Instant at, const Message& message) {
    const bool is_of_rounds =
        std::holds_alternative<Delta>(message) || std::holds_alternative<DeltaSum>(message) ||
        std::holds_alternative<SumsHeld>(message) || std::holds_alternative<RoundCommit>(message) ||
        std::holds_alternative<RoundApplied>(message);
    if (!is_of_rounds) return;
    moments.push_back(at);
    bytes += WireSize(message);
  }

  VirtualRun run_;
};

}  // namespace skerry::testing
