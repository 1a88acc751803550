#include "sim/swarm_parts.h"

#include <array>

#include "absl/strings/str_format.h"
#include "common/round_clock.h"
#include "pipeline/plan/outer_choice.h"
#include "routing/cost_model.h"

namespace skerry {

OuterConfig OuterOfOldDraws() {
  OuterConfig outer;
  outer.robust = OuterRobust::kNone;
  outer.sum_checks = 0;
  return outer;
}

RunConfig DrawConfig(Dice& dice, int32_t nodes) {
  RunConfig config;
  config.name = "swarm";
  config.nodes_min = dice.Chance(0.25) ? nodes - 1 : nodes;
  config.node_silent_s = 8;
  config.replan_s = 0;
  config.model = {.vocab = 64,
                  .hidden = 32,
                  .layers = dice.Count(4, 10),
                  .heads = 2,
                  .kv_heads = 1,
                  .ffn = 64,
                  .context = 16};
  config.outer = OuterOfOldDraws();
  OuterConfig& outer = config.outer;
  outer.inner_steps = dice.OneOf(std::array<int64_t, 4>{1, 2, 4, 6});
  outer.overlap_steps = dice.Count(0, static_cast<int32_t>(outer.inner_steps));
  outer.codec = dice.OneOf(
      std::array{DeltaCodec::kNone, DeltaCodec::kInt8, DeltaCodec::kInt4, DeltaCodec::kTopK});
  outer.reduce = OuterReduce::kAll;  // draws before the eighth know no other
  outer.residual = dice.Chance(0.7) ? ResidualPlace::kBuffer : ResidualPlace::kWeights;
  config.steps = outer.inner_steps * dice.Count(3, 6);
  config.pipeline.skip_ratio = dice.OneOf(std::array<double, 4>{0, 0.25, 0.33, 0.5});
  config.pipeline.swaps = dice.Count(0, 1);
  config.pipeline.microbatches_per_step = dice.Count(2, 9);
  config.pipeline.sequences_per_microbatch = 1;
  config.pipeline.in_flight = dice.Count(1, 5);
  return config;
}

VirtualNode DrawNode(Dice& dice, const RunConfig& config) {
  VirtualNode node;
  const double layer_s = dice.Real(0.01, 0.06);
  node.device = {"simulated", "simulated", LayerForwardFlops(config) / layer_s * 1e-9,
                 int64_t{1} << 34};
  node.memory_bytes_per_s = 1e8;
  node.joins = Instant() + Duration::Seconds(dice.Real(0.0, 3.0));
  return node;
}

std::vector<std::vector<SimLink>> DrawLinks(Dice& dice, int32_t processes) {
  std::vector<std::vector<SimLink>> links(static_cast<size_t>(processes));
  const bool lossy = dice.Chance(0.5);
  for (auto& row : links) {
    for (int32_t to = 0; to < processes; ++to) {
      row.push_back({Duration::Seconds(dice.Real(0.001, 0.15)), dice.Real(2e5, 2e7),
                     lossy ? dice.Real(0.0, 0.05) : 0, lossy ? 0.02 : 0,
                     Duration::Seconds(dice.Real(0.0, 0.03))});
    }
  }
  return links;
}

int32_t NumberOf(const NodeId& id) {
  return id.bytes[2] << 8 | id.bytes[3];
}

std::string Told(const VirtualRunOptions& options) {
  const RunConfig& config = options.config;
  return absl::StrFormat(
             "%d nodes (%d wanted) over %s, %d layers%s, %d steps of %d microbatches, τ %d δ %d, "
             "skip "
             "%.2f, swaps %d, %d in flight, %d shards%s%s",
             options.nodes.size(), config.nodes_min, options.network ? "flows" : "links",
             config.model.layers, options.math == VirtualMath::kTiny ? " with arithmetic" : "",
             config.steps, config.pipeline.microbatches_per_step, config.outer.inner_steps,
             config.outer.overlap_steps, config.pipeline.skip_ratio, config.pipeline.swaps,
             config.pipeline.in_flight, options.shards,
             config.replan_s > 0
                 ? absl::StrFormat(", moves considered every %.1f s", config.replan_s)
                 : "",
             config.outer.reduce == OuterReduce::kAll ? "" : ", sharded rounds") +
         (config.outer.mode == OuterMode::kOverlap ? "" : ", " + OuterText(config.outer)) +
         (config.outer.budget == CodecBudget::kNone
              ? ""
              : absl::StrFormat(", tables every %d rounds", config.outer.budget_rounds));
}

void DrawMode(Dice& dice, RunConfig& config) {
  OuterConfig& outer = config.outer;
  outer.mode = dice.OneOf(std::array{OuterMode::kCo2, OuterMode::kCo2, OuterMode::kStreaming,
                                     OuterMode::kStreaming, OuterMode::kStreaming,
                                     OuterMode::kSynchronous, OuterMode::kDataParallel});
  outer.fragments = dice.Count(1, static_cast<int32_t>(outer.inner_steps));
  if (outer.mode == OuterMode::kCo2) {
    outer.residual = ResidualPlace::kBuffer;
    outer.reduce = OuterReduce::kAll;
  }
  if (outer.mode == OuterMode::kDataParallel) outer.inner_steps = 1;
  outer = EffectiveOuter(outer);
}

}  // namespace skerry
