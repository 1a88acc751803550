// Draw 1: what seeds meant at first. It stays as it was, so that seeds that were wrong once keep
// their meaning.
#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "sim/swarm.h"
#include "sim/swarm_dice.h"
#include "sim/swarm_parts.h"

namespace skerry {
namespace {

RunConfig DrawFirstConfig(Dice& dice, int32_t nodes) {
  RunConfig config;
  config.name = "swarm";
  config.nodes_min = nodes;
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
  config.outer.inner_steps = dice.OneOf(std::array<int64_t, 4>{1, 2, 4, 6});
  config.outer.overlap_steps = dice.Count(0, static_cast<int32_t>(config.outer.inner_steps));
  config.outer.reduce = OuterReduce::kAll;
  config.outer.codec = dice.Chance(0.5) ? DeltaCodec::kInt8 : DeltaCodec::kNone;
  config.steps = config.outer.inner_steps * dice.Count(3, 6);
  config.pipeline.skip_ratio = dice.OneOf(std::array<double, 4>{0, 0.25, 0.33, 0.5});
  config.pipeline.swaps = dice.Count(0, 1);
  config.pipeline.microbatches_per_step = dice.Count(2, 9);
  config.pipeline.sequences_per_microbatch = 1;
  config.pipeline.in_flight = dice.Count(1, 5);
  return config;
}

class FaultScript {
 public:
  FaultScript(Dice& dice, SwarmRun& drawn, int32_t nodes)
      : dice_(dice), drawn_(drawn), nodes_(nodes) {}

  void Draw() {
    const int32_t faults = dice_.Count(0, 5);
    for (int32_t i = 0; i < faults; ++i) {
      const double at_s = dice_.Real(0.5, 60.0);
      switch (dice_.Count(0, 3)) {
        case 0:
          Crash("coordinator", VirtualRun::coordinator(), at_s, true);
          break;
        case 1:
          Slow(at_s);
          break;
        default: {
          const auto node = dice_.Count(0, nodes_ - 1);
          Crash(absl::StrFormat("node %d", node), VirtualRun::node(node), at_s, dice_.Chance(0.5));
        }
      }
    }
  }

 private:
  void Crash(const std::string& who, const NodeId& id, double at_s, bool returns) {
    const double away_s = dice_.Real(0.1, 20.0);
    drawn_.run->simulation().CrashAt(Instant() + Duration::Seconds(at_s), id);
    if (returns) {
      drawn_.run->simulation().StartAt(Instant() + Duration::Seconds(at_s + away_s), id);
    }
    drawn_.story.push_back(
        returns ? absl::StrFormat("%.3f s: %s crashes, is back after %.3f s", at_s, who, away_s)
                : absl::StrFormat("%.3f s: %s crashes for good", at_s, who));
  }

  void Slow(double at_s) {
    const auto node = dice_.Count(0, nodes_ - 1);
    const double factor = dice_.Real(2.0, 10.0);
    drawn_.run->simulation().At(
        Instant() + Duration::Seconds(at_s),
        [run = drawn_.run.get(), node, factor](Simulation&) { run->faults(node).slow = factor; });
    drawn_.story.push_back(
        absl::StrFormat("%.3f s: node %d becomes %.1f times slower", at_s, node, factor));
  }

  Dice& dice_;
  SwarmRun& drawn_;
  int32_t nodes_;
};

}  // namespace

SwarmRun DrawFirst(uint64_t seed, const SwarmOutput& output) {
  Dice dice(seed);
  SwarmRun drawn;
  VirtualRunOptions options;
  const auto nodes = dice.Count(3, 10);
  options.seed = seed;
  options.config = DrawFirstConfig(dice, nodes);
  options.config.seed = seed;
  for (int32_t i = 0; i < nodes; ++i) options.nodes.push_back(DrawNode(dice, options.config));
  options.link = [links = DrawLinks(dice, nodes + 1)](const NodeId& from, const NodeId& to) {
    return links[static_cast<size_t>(NumberOf(from))][static_cast<size_t>(NumberOf(to))];
  };
  options.limit = Duration::Seconds(3600);
  options.keep_events = output.keep_events;
  options.keep_status = output.keep_events;
  options.stops_at_violation = output.stops_at_violation;
  options.introduces_few = output.introduces_few;
  const RunConfig& config = options.config;
  drawn.story.push_back(absl::StrFormat(
      "%d nodes, %d layers, %d steps of %d microbatches, τ %d δ %d, skip %.2f, swaps %d, %d in "
      "flight",
      nodes, config.model.layers, config.steps, config.pipeline.microbatches_per_step,
      config.outer.inner_steps, config.outer.overlap_steps, config.pipeline.skip_ratio,
      config.pipeline.swaps, config.pipeline.in_flight));
  drawn.run = std::make_unique<VirtualRun>(std::move(options));
  FaultScript(dice, drawn, nodes).Draw();
  return drawn;
}

}  // namespace skerry
