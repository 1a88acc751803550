// Draws 2 to 10: everything that may befall a run, over links or over flows.
#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/check.h"
#include "common/round_clock.h"
#include "pipeline/plan/outer_choice.h"
#include "routing/cost_model.h"
#include "sim/fault_script.h"
#include "sim/swarm.h"
#include "sim/swarm_dice.h"
#include "sim/swarm_faults.h"

namespace skerry {
namespace {

constexpr Duration kLimit = Duration::Seconds(3600);
// A link loses frames and knows no windows: minutes of bulk on it, repeated by the courier, hold up
// heartbeats as no TCP connection would.
constexpr int64_t kShardOverLinksMax = 100'000;

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

// Devices for which a layer takes some tens of milliseconds: slower than most links, not than all.
VirtualNode DrawNode(Dice& dice, const RunConfig& config) {
  VirtualNode node;
  const double layer_s = dice.Real(0.01, 0.06);
  node.device = {"simulated", "simulated", LayerForwardFlops(config) / layer_s * 1e-9,
                 int64_t{1} << 34};
  node.memory_bytes_per_s = 1e8;
  node.joins = Instant() + Duration::Seconds(dice.Real(0.0, 3.0));
  return node;
}

PathSpec DrawPath(Dice& dice, bool within_region, bool lossy) {
  PathSpec path;
  path.one_way = Duration::Seconds(within_region ? dice.Scale(2e-4, 2e-3) : dice.Real(0.005, 0.12));
  path.bytes_per_s = dice.Scale(1e6, 5e7);
  path.flow_bytes_per_s = dice.Chance(0.5) ? dice.Scale(5e5, 1e7) : 0;
  path.loss = lossy ? dice.Scale(1e-4, 1e-2) : 0;
  path.jitter = Duration::Seconds(dice.Real(0.0, 0.005));
  return path;
}

// Regions, ways and access lines; of some nodes several lie behind one line.
NetworkSpec DrawNetwork(Dice& dice, int32_t processes) {
  NetworkSpec network;
  const auto regions = dice.Count(2, 4);
  const bool lossy = dice.Chance(0.5);
  for (int32_t from = 0; from < regions; ++from) {
    network.regions.push_back(absl::StrFormat("region %d", from));
    for (int32_t to = 0; to < regions; ++to) {
      network.paths.push_back(DrawPath(dice, from == to, lossy));
    }
  }
  for (int32_t process = 0; process < processes; ++process) {
    const auto sites = static_cast<int32_t>(network.sites.size());
    if (process > 1 && dice.Chance(0.2)) {
      network.site_of_node.push_back(dice.Count(1, sites - 1));
      continue;
    }
    SiteSpec site;
    site.name = absl::StrFormat("site %d", sites);
    site.region = dice.Count(0, regions - 1);
    site.up_bytes_per_s = dice.Scale(2e5, 2e7);
    site.down_bytes_per_s = site.up_bytes_per_s * dice.Real(1, 4);
    site.access_one_way = Duration::Seconds(dice.Real(0.0, 0.01));
    network.sites.push_back(site);
    network.site_of_node.push_back(sites);
  }
  network.congestion_control =
      dice.Chance(0.5) ? CongestionControl::kBbr : CongestionControl::kCubic;
  network.queue = Duration::Seconds(dice.Real(0.02, 0.2));
  return network;
}

// Of every ordered pair of processes.
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

// More rounds, and some nodes that come when the others train already.
void DrawLateComers(Dice& dice, VirtualRunOptions& options) {
  RunConfig& config = options.config;
  config.steps = config.outer.inner_steps * dice.Count(8, 20);
  const auto nodes = static_cast<int32_t>(options.nodes.size());
  const auto late = dice.Count(0, std::min(2, nodes - 3));
  config.nodes_min = nodes - late;
  for (int32_t i = nodes - late; i < nodes; ++i) {
    options.nodes[static_cast<size_t>(i)].joins = Instant() + Duration::Seconds(dice.Real(5, 60));
  }
}

// Nodes that go and come back, with or without what they had.
void DrawReturns(Dice& dice, int32_t nodes, std::vector<Fault>& faults) {
  const auto count = dice.Count(1, 3);
  for (int32_t i = 0; i < count; ++i) {
    Fault fault;
    fault.kind = dice.Chance(0.7) ? FaultKind::kRestart : FaultKind::kHang;
    fault.where = {FaultEnd::Kind::kNode, dice.Count(1, nodes)};
    fault.at = Instant() + Duration::Seconds(dice.Real(5, 80));
    fault.lasts = Duration::Seconds(dice.Scale(0.1, 20));
    fault.keeps_disk = dice.Chance(0.5);
    faults.push_back(fault);
  }
}

// What makes moves pay: long runs, nodes that differ more, and some that go for good.
void DrawMoves(Dice& dice, VirtualRunOptions& options, std::vector<Fault>& faults) {
  RunConfig& config = options.config;
  const auto nodes = static_cast<int32_t>(options.nodes.size());
  config.replan_s = dice.Chance(0.85) ? dice.Scale(2, 20) : 0;
  config.steps = config.outer.inner_steps * dice.Count(16, 40);
  options.limit = options.limit * 3;
  if (dice.Chance(0.7)) {
    for (VirtualNode& node : options.nodes) node.device.gflops /= dice.Scale(1, 8);
  }
  const auto deaths = dice.Count(0, nodes / 2);
  for (int32_t i = 0; i < deaths; ++i) {
    Fault fault;
    fault.kind = FaultKind::kCrash;
    fault.where = {FaultEnd::Kind::kNode, dice.Count(1, nodes)};
    fault.at = Instant() + Duration::Seconds(dice.Real(5, 60));
    faults.push_back(fault);
  }
}

// Stages of more replicas, whose rounds are sharded, whatever way the sums travel; small pieces of
// the model, so that they are many. And some that die, again and again while rounds are under way.
void DrawSharded(Dice& dice, RunConfig& config) {
  config.outer.reduce = dice.Chance(0.8) ? OuterReduce::kSharded : OuterReduce::kAuto;
  config.outer.down_codec =
      DownCodec{static_cast<uint8_t>(dice.Count(0, static_cast<int32_t>(DownCodec::kLast)))};
  config.pipeline.stages = dice.Count(2, 3);
  config.model.hidden = 64;
  config.model.ffn = 256;
}

// A budget for a codec of each tensor, and a table as often as every round; rounds of either kind.
void DrawBudget(Dice& dice, OuterConfig& outer) {
  outer.budget = dice.Chance(0.7) ? CodecBudget::kBits : CodecBudget::kError;
  outer.budget_bits = static_cast<float>(dice.Real(0.5, 9));
  outer.budget_rounds = dice.Count(1, 5);
  if (dice.Chance(0.4)) outer.reduce = OuterReduce::kAll;
  if (outer.reduce != OuterReduce::kAll || !dice.Chance(0.4)) return;
  outer.mode = OuterMode::kCo2;
  outer.residual = ResidualPlace::kBuffer;
  outer = EffectiveOuter(outer);
}

// What makes more moves pay: devices that matter more than lines, and few stages, so that somebody
// can be spared.
void DrawMoreMoves(Dice& dice, VirtualRunOptions& options) {
  const double slower = dice.Scale(1, 6);
  const double spread = dice.Chance(0.7) ? dice.Real(2, 10) : 1;
  for (VirtualNode& node : options.nodes) node.device.gflops /= slower * dice.Scale(1, spread);
  options.config.pipeline.stages = dice.Count(2, 3);
}

// Settings that the planner is to choose, and links that it may compress.
void DrawOpenSettings(Dice& dice, RunConfig& config) {
  OuterConfig& outer = config.outer;
  if (dice.Chance(0.5)) outer.tier = OuterTier::kAuto;
  if (dice.Chance(0.5)) outer.overlap_steps = -1;
  if (dice.Chance(0.4)) {
    outer.inner_steps = 0;
    config.steps = 16 * dice.Count(4, 10);
  }
  config.pipeline.slow_link_codec =
      dice.OneOf(std::array{DeltaCodec::kNone, DeltaCodec::kBf16, DeltaCodec::kInt8});
}

// Any mode, and what goes with it.
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

struct With {
  bool returns = false;
  bool lateness = false;
  bool moves = false;
  bool sharded = false;
  bool more_moves = false;
  bool open_settings = false;
  bool modes = false;
  bool budgets = false;
};

SwarmRun Draw(uint64_t seed, const SwarmOutput& output, const With& with) {
  Dice dice(seed);
  SwarmRun drawn;
  VirtualRunOptions options;
  const bool sharded = with.sharded || (with.modes && dice.Chance(0.35));
  const auto nodes = sharded      ? dice.Count(6, 16)
                     : with.moves ? dice.Count(6, 14)
                                  : dice.Count(with.returns ? 4 : 3, 10);
  options.seed = seed;
  options.config = DrawConfig(dice, nodes);
  options.config.seed = seed;
  if (sharded) DrawSharded(dice, options.config);
  if (with.modes) DrawMode(dice, options.config);
  for (int32_t i = 0; i < nodes; ++i) options.nodes.push_back(DrawNode(dice, options.config));
  if (with.returns) DrawLateComers(dice, options);
  options.math = dice.Chance(0.15) ? VirtualMath::kTiny : VirtualMath::kModelled;
  options.shards = dice.Count(0, 2);
  options.shard_bytes = static_cast<int64_t>(dice.Scale(2e4, 2e6));
  options.exports = true;
  options.limit = kLimit;
  options.keep_events = output.keep_events;
  options.keep_status = output.keep_events;
  options.stops_at_violation = output.stops_at_violation;
  drawn.map = DrawNetwork(dice, nodes + 1);
  const auto links = DrawLinks(dice, nodes + 1);
  const bool over_flows = dice.Chance(0.5);
  drawn.faults = DrawFaults(dice, drawn.map, over_flows);
  if (with.returns) DrawReturns(dice, nodes, drawn.faults);
  if (with.lateness) DrawLateness(dice, nodes, over_flows, drawn.faults);
  if (with.moves) DrawMoves(dice, options, drawn.faults);
  if (with.more_moves) DrawMoreMoves(dice, options);
  if (with.open_settings) DrawOpenSettings(dice, options.config);
  if (with.budgets) DrawBudget(dice, options.config.outer);
  // The links ask the simulation, which is made after them, for the time.
  const auto simulation = std::make_shared<Simulation*>(nullptr);
  if (over_flows) {
    options.network = drawn.map;
  } else {
    options.shard_bytes = std::min(options.shard_bytes, kShardOverLinksMax);
    options.link = [links, simulation, faults = drawn.faults, map = drawn.map](const NodeId& from,
                                                                               const NodeId& to) {
      const int32_t a = NumberOf(from), b = NumberOf(to);
      const SimLink& usual = links[static_cast<size_t>(a)][static_cast<size_t>(b)];
      return DisturbedLink(usual, faults, map, a, b, (*simulation)->now());
    };
  }
  const absl::Status prepared = PrepareFaults(drawn.faults, drawn.map, options);
  SKERRY_CHECK(prepared.ok(), "faults of our own drawing");
  drawn.story.push_back(Told(options));
  for (const Fault& fault : drawn.faults) drawn.story.push_back(Told(fault));
  drawn.run = std::make_unique<VirtualRun>(std::move(options));
  *simulation = &drawn.run->simulation();
  ScriptFaults(drawn.faults, drawn.map, kLimit, *drawn.run);
  return drawn;
}

}  // namespace

SwarmRun DrawSecond(uint64_t seed, const SwarmOutput& output) {
  return Draw(seed, output, {});
}

SwarmRun DrawThird(uint64_t seed, const SwarmOutput& output) {
  return Draw(seed, output, {.returns = true});
}

SwarmRun DrawFourth(uint64_t seed, const SwarmOutput& output) {
  return Draw(seed, output, {.returns = true, .lateness = true});
}

SwarmRun DrawFifth(uint64_t seed, const SwarmOutput& output) {
  return Draw(seed, output, {.returns = true, .moves = true});
}

SwarmRun DrawSixth(uint64_t seed, const SwarmOutput& output) {
  return Draw(seed, output, {.returns = true, .lateness = true, .moves = true});
}

SwarmRun DrawSeventh(uint64_t seed, const SwarmOutput& output) {
  return Draw(seed, output,
              {.returns = true,
               .lateness = true,
               .moves = true,
               .more_moves = true,
               .open_settings = true});
}

SwarmRun DrawEighth(uint64_t seed, const SwarmOutput& output) {
  return Draw(seed, output, {.returns = true, .lateness = true, .moves = true, .sharded = true});
}

SwarmRun DrawNinth(uint64_t seed, const SwarmOutput& output) {
  return Draw(seed, output, {.returns = true, .lateness = true, .moves = true, .modes = true});
}

SwarmRun DrawTenth(uint64_t seed, const SwarmOutput& output) {
  return Draw(seed, output,
              {.returns = true, .lateness = true, .moves = true, .sharded = true, .budgets = true});
}

}  // namespace skerry
