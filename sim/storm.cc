#include "sim/storm.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/round_clock.h"
#include "pipeline/plan/route.h"
#include "routing/cost_model.h"
#include "sim/live_faults.h"
#include "sim/storm_blows.h"
#include "sim/swarm_dice.h"
#include "sim/swarm_director.h"
#include "sim/swarm_parts.h"

namespace skerry {
namespace {

constexpr Duration kLimit = Duration::Seconds(3600);
// With the first plan, or before it if there is none for so long.
constexpr Instant kBeginsAtLast = Instant() + Duration::Seconds(60);
constexpr int32_t kAwayMax = 6;  // nodes
// Of a liar's rounds each is checked with 0.4, unless the coordinator dies or who checks does.
constexpr int64_t kFalseRoundsMax = 40;

RunConfig DrawStormConfig(Dice& dice) {
  RunConfig config = DrawConfig(dice, kStormNodes);
  config.name = "storm";
  config.nodes_min = dice.Count(9, 14);
  config.node_silent_s = dice.Real(4, 8);
  config.replan_s = dice.Chance(0.3) ? dice.Real(10, 60) : 0;
  config.pipeline.stages = dice.Count(2, 4);
  config.pipeline.microbatches_per_step = dice.Count(3, 5);
  config.outer.inner_steps = dice.Count(2, 4);
  config.outer.overlap_steps = dice.Count(0, static_cast<int32_t>(config.outer.inner_steps));
  config.outer.reduce =
      dice.OneOf(std::array{OuterReduce::kAuto, OuterReduce::kAll, OuterReduce::kSharded});
  if (dice.Chance(0.3)) DrawMode(dice, config);
  config.checkpoint = {dice.Count(1, 4), dice.Count(1, 3)};
  return config;
}

bool HasNumbers(StormKind kind) {
  return kind != StormKind::kUsual && kind != StormKind::kQuick;
}

// Stages large enough that most replicas have a part to sum, of every way to make one that trains.
void DrawNumbers(Dice dice, VirtualRunOptions& options) {
  options.math = VirtualMath::kTiny;
  RunConfig& config = options.config;
  config.model.layers = dice.Count(12, 20);
  config.pipeline.stages = 2;
  OuterConfig& outer = config.outer;
  if (outer.mode == OuterMode::kCo2) outer.mode = OuterMode::kOverlap;  // it is never sharded
  outer.reduce = OuterReduce::kSharded;
  if (outer.mode != OuterMode::kStreaming && dice.Chance(0.2)) {
    outer.budget = CodecBudget::kBits;
    outer.budget_bits = static_cast<float>(dice.Real(1, 9));
    outer.budget_rounds = dice.Count(1, 5);
  } else if (dice.Chance(0.2)) {
    outer.robust = dice.OneOf(std::array{OuterRobust::kScreen, OuterRobust::kClip});
  }
  // Coarse both ways diverges with a buffer (docs/decisions/0017-sharded-rounds.md).
  const bool is_coarse = outer.codec == DeltaCodec::kTopK || outer.budget != CodecBudget::kNone;
  if (is_coarse) outer.residual = ResidualPlace::kWeights;
}

bool HasFourRooms(StormKind kind) {
  return kind == StormKind::kClusters || kind == StormKind::kShardedRooms;
}

bool HasRooms(StormKind kind) {
  return HasFourRooms(kind) || HasTwoRooms(kind);
}

bool IsSharded(StormKind kind) {
  return kind == StormKind::kShardedRooms || kind == StormKind::kShardedCohorts;
}

bool AreInOneRoom(StormKind kind, const NodeId& a, const NodeId& b) {
  const int32_t nodes = HasFourRooms(kind) ? 4 : kStormNodes / 2;
  const int32_t one = NumberOf(a) - 1, other = NumberOf(b) - 1;  // 0 is the coordinator
  return one >= 0 && other >= 0 && one / nodes == other / nodes;
}

// Measured, or of two as the operator says.
void DrawRooms(StormKind kind, VirtualRunOptions& options) {
  RunConfig& config = options.config;
  const bool overlaps =
      kind == StormKind::kOverlap || (kind == StormKind::kShardedCohorts && options.seed % 2 == 1);
  config.cluster = {HasTwoRooms(kind) ? "east; west" : "measured", 400, 5, overlaps ? 1 : 0};
  config.outer.reduce = OuterReduce::kAll;
  if (IsSharded(kind))
    config.outer.reduce = options.seed % 4 == 0 ? OuterReduce::kAuto : OuterReduce::kSharded;
  config.pipeline.stages = 2;
}

// Steps of some seconds, and so many of them that they last longer than the storm.
void SetPace(Dice& dice, StormKind kind, VirtualRunOptions& options) {
  RunConfig& config = options.config;
  const double step_s = kind == StormKind::kQuick ? dice.Real(1, 2) : dice.Real(1.5, 3);
  const double passes = 3.0 * config.model.layers * config.pipeline.microbatches_per_step;
  const double layer_s = step_s * config.nodes_min / passes * 0.4;
  for (VirtualNode& node : options.nodes) {
    node.device.gflops = LayerForwardFlops(config) / (layer_s * dice.Real(0.7, 1.4)) * 1e-9;
  }
  const double storm_s = kStormEvery.seconds() * kStormFaults;
  const auto spans = static_cast<int64_t>(storm_s / step_s) / config.outer.inner_steps;
  config.steps = std::max<int64_t>(1, spans) * config.outer.inner_steps;
}

class Storm final : public SwarmDirector, private SimulationObserver {
 public:
  Storm(uint64_t seed, StormKind kind)
      : kind_(kind), dice_(seed), faults_now_(&story_), sums_(VirtualRun::coordinator()) {
    for (const BlowShare& share : SharesOf(kind)) parts_ += share.parts;
  }

  LiveFaults& faults_now() { return faults_now_; }

  void Begin(VirtualRun* run) {
    run_ = run;
    faults_now_.Attach(run);
    run->simulation().Observe(this);
    run->simulation().Observe(&sums_);
    run->simulation().At(Instant(), [this](Simulation&) { Await(); });
  }

  std::string WhatIsWrong(const VirtualOutcome& outcome) const override {
    if (HasNumbers(kind_)) {
      std::string wrong = sums_.WhatIsWrong(kFalseRoundsMax);
      if (!wrong.empty()) return wrong;
    }
    if (!ended_.empty()) return ended_;
    if (!outcome.finished) return "it did not finish: " + outcome.ended;
    if (struck_ < kStormFaults) {
      return absl::StrFormat("it finished after %d of %d faults", struck_, kStormFaults);
    }
    return "";
  }
  const std::vector<std::string>& story() const override { return story_; }
  int64_t faults() const override { return struck_; }
  int64_t faulted_rounds() const override { return faulted_rounds_; }
  SumTally sums() const override { return sums_.tally(); }

 private:
  Instant now() { return run_->simulation().now(); }
  bool IsOver() const { return run_->checkers().state().finished; }

  void Await() {
    if (run_->checkers().state().plan || now() >= kBeginsAtLast) return Strike();
    run_->simulation().At(now() + Duration::Seconds(1), [this](Simulation&) { Await(); });
  }

  void Strike() {
    if (struck_ == kStormFaults || IsOver()) return;
    ++struck_;
    const auto at = static_cast<int32_t>(dice_.Count(0, parts_ - 1));
    int32_t below = 0;
    for (const BlowShare& share : SharesOf(kind_)) {
      below += share.parts;
      if (at < below) {
        Do(share.blow);
        break;
      }
    }
    run_->simulation().At(now() + kStormEvery, [this](Simulation&) { Strike(); });
  }

  // Somebody who is up and whom nothing befell that is not over; nullopt: enough are away.
  std::optional<NodeId> Victim() {
    std::vector<NodeId> well;
    for (int32_t i = 0; i < kStormNodes; ++i) {
      const NodeId node = VirtualRun::node(i);
      const bool is_away = away_until_.contains(node) && now() < away_until_.at(node);
      if (!is_away && run_->simulation().IsUp(node)) well.push_back(node);
    }
    const auto index = static_cast<size_t>(dice_.Count(0, kStormNodes - 1));
    if (static_cast<int32_t>(well.size()) < kStormNodes - kAwayMax) return std::nullopt;
    return well[index % well.size()];
  }
  Duration Away(const NodeId& node, double low_s, double high_s) {
    const Duration lasts = Duration::Seconds(dice_.Scale(low_s, high_s));
    away_until_[node] = now() + lasts;
    return lasts;
  }

  void Do(Blow blow) {
    switch (blow) {
      case Blow::kWay:
      case Blow::kLink:
        return CutLink(blow == Blow::kLink);
      case Blow::kCoordinatorDies:
        return faults_now_.Kill(VirtualRun::coordinator(), Duration::Seconds(dice_.Scale(0.2, 8)));
      case Blow::kCoordinatorHangs:
        return faults_now_.Hang(VirtualRun::coordinator(), Duration::Seconds(dice_.Scale(0.5, 15)));
      case Blow::kCoordinatorDiskFull:
        return faults_now_.FillDisk(VirtualRun::coordinator(),
                                    Duration::Seconds(dice_.Scale(0.5, 6)));
      case Blow::kStageDies:
        return KillStage();
      case Blow::kLie:
        return Lie();
      default:
        break;
    }
    const std::optional<NodeId> victim = Victim();
    if (!victim) return CutLink(false);
    DoTo(*victim, blow);
  }

  void DoTo(const NodeId& node, Blow blow) {
    switch (blow) {
      case Blow::kRestart:
        return faults_now_.Kill(node, Away(node, 0.1, 4), AnyDisk());
      case Blow::kKill:
        return faults_now_.Kill(node, Away(node, 4, 40), AnyDisk());
      case Blow::kHiccup:
        return faults_now_.Hang(node, Away(node, 0.2, 3));
      case Blow::kHang:
        return faults_now_.Hang(node, Away(node, 3, 25));
      case Blow::kCutOff:
        return faults_now_.CutOff(node, Away(node, 0.5, 20));
      case Blow::kSlow: {
        const double factor = dice_.Real(2, 10);
        return faults_now_.SlowDevice(node, factor, Duration::Seconds(dice_.Scale(1, 20)));
      }
      case Blow::kDiskFull:
        return faults_now_.FillDisk(node, Duration::Seconds(dice_.Scale(1, 30)));
      case Blow::kLeave:
        return faults_now_.Leave(node);
      default:
        return faults_now_.JumpClock(node, Duration::Seconds(dice_.Real(-2, 10)));
    }
  }

  // One of those of whom the checkers know beforehand. Of what it lies its number says, so that no
  // other throw of the seed changes.
  void Lie() {
    const RunConfig& config = run_->options().config;
    for (const int32_t liar : run_->options().liars) {
      if (!liars_.insert(VirtualRun::node(liar)).second) continue;
      if (kind_ == StormKind::kFalseSums) return FalsifySums(VirtualRun::node(liar));
      if (kind_ == StormKind::kFalseWork) return faults_now_.PassOn(VirtualRun::node(liar));
      const bool of_sums = liar % 2 == 1 && config.outer.reduce != OuterReduce::kAll;
      return faults_now_.Lie(VirtualRun::node(liar),
                             of_sums ? LiveFaults::LieAbout::kSums : LiveFaults::LieAbout::kDeltas);
    }
    CutLink(false);
  }

  void FalsifySums(const NodeId& liar) {
    sums_.OnLie(liar);
    const double factor = dice_.OneOf(std::array{-1.0, 0.5, 1.25, 1.5});
    faults_now_.FalsifySums(liar, factor, dice_.Chance(0.5));
  }

  Disk AnyDisk() { return dice_.Chance(0.5) ? Disk::kKept : Disk::kLost; }

  void CutLink(bool both) {
    const int32_t from = dice_.Count(-1, kStormNodes - 1);
    const int32_t to = dice_.Count(0, kStormNodes - 2);
    const NodeId a = from < 0 ? VirtualRun::coordinator() : VirtualRun::node(from);
    const NodeId b = VirtualRun::node(from >= 0 && to >= from ? to + 1 : to);
    const Duration lasts = Duration::Seconds(dice_.Scale(0.5, from < 0 ? 6 : 40));
    faults_now_.Tell(absl::StrFormat("the way from %s to %s is cut%s for %.3f s",
                                     LiveFaults::NameOf(a), LiveFaults::NameOf(b),
                                     both ? ", and back," : "", lasts.seconds()));
    faults_now_.CutWay(a, b, lasts);
    if (both) faults_now_.CutWay(b, a, lasts);
  }

  void KillStage() {
    const auto& plan = run_->checkers().state().plan;
    const int32_t throw_of = dice_.Count(0, 1 << 20);
    const double away_s = dice_.Scale(0.5, 20);
    if (!plan) return CutLink(false);
    const auto stage = throw_of % static_cast<int32_t>(plan->stages.size());
    faults_now_.Tell(absl::StrFormat("all of stage %d die", stage));
    for (const NodeId& node : Holders(*plan, stage)) {
      if (run_->simulation().IsUp(node)) {
        faults_now_.Kill(node, Duration::Seconds(away_s * dice_.Real(0.8, 1.2)));
      }
    }
  }

  // Who ends is started again, as a service or a patient volunteer would, or one who lies.
  void OnStop(Instant at, const NodeId& who, int exit_code, const std::string& reason) override {
    const bool lies = liars_.contains(who);
    if (who == VirtualRun::coordinator() || IsOver()) return;
    if (lies && !HasNumbers(kind_)) return;
    const bool disk = run_->simulation().IsDiskFull(who);
    if (exit_code != 0 && !disk && !lies && ended_.empty()) {
      ended_ = absl::StrFormat("%s ended by itself at %.3f s: %s", LiveFaults::NameOf(who),
                               (at - Instant()).seconds(), reason);
    }
    const Duration away = Away(who, 1, 30);
    run_->simulation().StartAt(at + away, who);
  }

  void OnPersist(Instant, const NodeId& process, const std::string& record) override {
    if (process != VirtualRun::coordinator() || record.find(R"("kind":"commit")") == record.npos) {
      return;
    }
    const RunState& state = run_->checkers().state();
    for (size_t i = 0; i < state.plan->stages.size(); ++i) {
      const auto stage = static_cast<int32_t>(i);
      const int64_t rounds = state.RoundsCommitted(stage);
      if (std::exchange(rounds_[stage], rounds) == rounds) continue;
      faulted_rounds_ += std::exchange(struck_before_[stage], struck_) != struck_;
    }
  }

  const StormKind kind_;
  Dice dice_;
  std::vector<std::string> story_;
  LiveFaults faults_now_;
  SumWatch sums_;
  VirtualRun* run_ = nullptr;
  int32_t parts_ = 0;
  int64_t struck_ = 0;
  int64_t faulted_rounds_ = 0;
  std::map<int32_t, int64_t> rounds_, struck_before_;  // by stage
  std::map<NodeId, Instant> away_until_;
  std::set<NodeId> liars_;
  std::string ended_;
};

}  // namespace

SwarmRun DrawStorm(uint64_t seed, const SwarmOutput& output, StormKind kind) {
  Dice dice(seed);
  SwarmRun drawn;
  VirtualRunOptions options;
  options.seed = seed;
  options.config = DrawStormConfig(dice);
  // A third of them; every other draw of a seed is as it was.
  if (seed % 3 == 0) options.config.checkpoint.lost_stage = LostStage::kNeighbours;
  options.config.seed = seed;
  options.config.outer.sum_checks = 0.4f;
  if (kind == StormKind::kFalseWork) options.config.pipeline.work_checks = 0.5f;
  if (kind == StormKind::kScreened) options.config.outer.robust = OuterConfig().robust;
  if (HasNumbers(kind)) DrawNumbers(Dice(Mix64(~seed)), options);
  if (HasRooms(kind)) DrawRooms(kind, options);
  for (int32_t i = 0; i < kStormNodes; ++i) {
    options.nodes.push_back(DrawNode(dice, options.config));
    if (HasTwoRooms(kind)) options.nodes.back().region = i < kStormNodes / 2 ? "east" : "west";
  }
  SetPace(dice, kind, options);
  options.shards = dice.Count(0, 2);
  options.shard_bytes = 20'000;
  options.exports = true;
  options.plans_quickly = true;
  options.limit = kLimit;
  options.keep_events = output.keep_events;
  options.keep_status = output.keep_events;
  options.stops_at_violation = output.stops_at_violation;
  options.introduces_few = output.introduces_few;
  options.liars = {dice.Count(0, 7), dice.Count(8, kStormNodes - 1)};
  if (kind == StormKind::kNumbers || kind == StormKind::kScreened || HasRooms(kind))
    options.liars = {};
  else if (HasNumbers(kind))
    options.liars.erase(std::next(options.liars.begin()));
  auto storm = std::make_shared<Storm>(Mix64(seed), kind);
  const auto links = DrawLinks(dice, kStormNodes + 1);
  options.link = storm->faults_now().Over([links, kind](const NodeId& from, const NodeId& to) {
    if (HasRooms(kind) && AreInOneRoom(kind, from, to))
      return SimLink{.one_way = Duration::Micros(200), .bytes_per_s = 1.25e8, .jitter = {}};
    return links[static_cast<size_t>(NumberOf(from))][static_cast<size_t>(NumberOf(to))];
  });
  drawn.story.push_back(Told(options));
  drawn.run = std::make_unique<VirtualRun>(std::move(options));
  storm->Begin(drawn.run.get());
  drawn.director = std::move(storm);
  return drawn;
}

}  // namespace skerry
