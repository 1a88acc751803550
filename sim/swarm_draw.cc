// Draws 2 to 11: everything that may befall a run, over links or over flows.
#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "common/check.h"
#include "common/round_clock.h"
#include "pipeline/plan/route.h"
#include "sim/fault_script.h"
#include "sim/swarm.h"
#include "sim/swarm_dice.h"
#include "sim/swarm_faults.h"
#include "sim/swarm_parts.h"

namespace skerry {
namespace {

constexpr Duration kLimit = Duration::Seconds(3600);
// A link carries all in one order and knows no windows: minutes of bulk on it hold up heartbeats as
// no TCP connection would.
constexpr int64_t kShardOverLinksMax = 100'000;

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
    site.local_is_shared = true;  // a home's radio
    network.sites.push_back(site);
    network.site_of_node.push_back(sites);
  }
  network.congestion_control =
      dice.Chance(0.5) ? CongestionControl::kBbr : CongestionControl::kCubic;
  network.queue = Duration::Seconds(dice.Real(0.02, 0.2));
  return network;
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

struct With {
  bool returns = false;
  bool lateness = false;
  bool moves = false;
  bool sharded = false;
  bool more_moves = false;
  bool open_settings = false;
  bool modes = false;
  bool budgets = false;
  bool losses = false;
  bool relays = false;  // of pairs that are cut
};

SimLink InARow(const SimLink& a, const SimLink& b) {
  return {a.one_way + b.one_way, std::min(a.bytes_per_s, b.bytes_per_s),
          1 - (1 - a.loss) * (1 - b.loss), std::max(a.repetition, b.repetition),
          a.jitter + b.jitter};
}

// Stages that die as a whole, one after another; most come back, with nothing.
struct StageDeath {
  Instant at;
  int32_t which = 0;
  std::optional<Duration> away;
};
std::vector<StageDeath> DrawStageDeaths(Dice& dice, RunConfig& config) {
  config.checkpoint = {dice.Count(1, 3), dice.Count(1, 3)};
  config.pipeline.stages = dice.Count(2, 3);
  config.outer.absences = dice.Chance(0.9);
  std::vector<StageDeath> deaths(static_cast<size_t>(dice.Count(1, 3)));
  for (StageDeath& death : deaths) {
    death.at = Instant() + Duration::Seconds(dice.Real(10, 120));
    death.which = dice.Count(0, 2);
    if (dice.Chance(0.8)) death.away = Duration::Seconds(dice.Scale(0.1, 40));
  }
  return deaths;
}

// Without `away` half of them are back after a minute, so that there are enough nodes.
void KillStage(const StageDeath& death, std::set<NodeId>& befallen, VirtualRun& run) {
  const auto& plan = run.checkers().state().plan;
  if (!plan || run.checkers().state().finished) return;
  const auto stage = death.which % static_cast<int32_t>(plan->stages.size());
  int32_t index = 0;
  for (const NodeId& node : Holders(*plan, stage)) {
    befallen.insert(node);
    run.simulation().CrashAt(run.simulation().now(), node);
    if (!death.away && ++index % 2 == 0) continue;
    const Duration away = death.away.value_or(Duration::Seconds(60));
    run.simulation().StartAt(run.simulation().now() + away, node);
  }
}

void ScriptDeaths(const std::vector<StageDeath>& deaths, SwarmRun& drawn) {
  for (const StageDeath& death : deaths) {
    drawn.story.push_back(absl::StrFormat(
        "%.3f s: all of stage %d die, %s", (death.at - Instant()).seconds(), death.which,
        death.away ? absl::StrFormat("back after %.3f s", death.away->seconds())
                   : "half of them for good"));
    drawn.run->simulation().At(death.at, [death, befallen = drawn.befallen, run = drawn.run.get()](
                                             Simulation&) { KillStage(death, *befallen, *run); });
  }
}

// The links ask the simulation, which is made after them, for the time.
auto LinksOf(std::vector<std::vector<SimLink>> links, const SwarmRun& drawn,
             std::shared_ptr<Simulation*> simulation, bool relays) {
  return [links = std::move(links), simulation = std::move(simulation), relays,
          faults = drawn.faults, map = drawn.map](const NodeId& from, const NodeId& to) {
    const int32_t a = NumberOf(from), b = NumberOf(to);
    const Instant now = (*simulation)->now();
    const auto way = [&](int32_t one, int32_t other) {
      const SimLink& usual = links[static_cast<size_t>(one)][static_cast<size_t>(other)];
      return DisturbedLink(usual, faults, map, one, other, now);
    };
    if (!relays || !IsRelayedNow(faults, a, b, now)) return way(a, b);
    return InARow(way(a, 0), way(0, b));
  };
}

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
  options.introduces_few = output.introduces_few;
  options.relays_cut_pairs = with.relays;
  drawn.map = DrawNetwork(dice, nodes + 1);
  auto links = DrawLinks(dice, nodes + 1);
  const bool over_flows = dice.Chance(0.5);
  drawn.faults = DrawFaults(dice, drawn.map, over_flows);
  if (with.returns) DrawReturns(dice, nodes, drawn.faults);
  if (with.lateness) DrawLateness(dice, nodes, over_flows, drawn.faults);
  if (with.moves) DrawMoves(dice, options, drawn.faults);
  if (with.more_moves) DrawMoreMoves(dice, options);
  if (with.open_settings) DrawOpenSettings(dice, options.config);
  if (with.budgets) DrawBudget(dice, options.config.outer);
  std::vector<StageDeath> deaths;
  if (with.losses) deaths = DrawStageDeaths(dice, options.config);
  const auto simulation = std::make_shared<Simulation*>(nullptr);
  if (over_flows) {
    options.network = drawn.map;
  } else {
    options.shard_bytes = std::min(options.shard_bytes, kShardOverLinksMax);
    options.link = LinksOf(std::move(links), drawn, simulation, with.relays);
  }
  const absl::Status prepared = PrepareFaults(drawn.faults, drawn.map, options);
  SKERRY_CHECK(prepared.ok(), "faults of our own drawing");
  drawn.story.push_back(Told(options));
  for (const Fault& fault : drawn.faults) drawn.story.push_back(Told(fault));
  drawn.run = std::make_unique<VirtualRun>(std::move(options));
  *simulation = &drawn.run->simulation();
  ScriptFaults(drawn.faults, drawn.map, kLimit, *drawn.run);
  ScriptDeaths(deaths, drawn);
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

SwarmRun DrawEighteenth(uint64_t seed, const SwarmOutput& output) {
  return Draw(seed, output, {.returns = true, .lateness = true, .moves = true, .relays = true});
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

SwarmRun DrawEleventh(uint64_t seed, const SwarmOutput& output) {
  return Draw(seed, output,
              {.returns = true, .lateness = true, .moves = true, .modes = true, .losses = true});
}

}  // namespace skerry
