#include "sim/fault_grid.h"

#include <algorithm>
#include <array>
#include <utility>
#include <variant>

#include "absl/strings/str_format.h"
#include "pipeline/plan/route.h"
#include "routing/cost_model.h"
#include "sim/live_faults.h"
#include "sim/swarm_dice.h"
#include "sim/swarm_director.h"
#include "sim/swarm_parts.h"

namespace skerry {
namespace {

constexpr Duration kLimit = Duration::Seconds(1800);
constexpr int32_t kNodes = 6;           // two stages of three
constexpr int32_t kComesLate = kNodes;  // where somebody joins in training: the seventh
constexpr int64_t kFirstRound = 1;      // that faults strike in

class Grid final : public SwarmDirector, private SimulationObserver {
 public:
  Grid(uint64_t seed, const GridCell& cell)
      : dice_(Mix64(seed)), cell_(cell), faults_now_(&story_) {
    passes_ = dice_.Count(0, 9);
  }

  LiveFaults& faults_now() { return faults_now_; }

  void Begin(VirtualRun* run) {
    run_ = run;
    faults_now_.Attach(run);
    run->simulation().Observe(this);
  }

  std::string WhatIsWrong(const VirtualOutcome& outcome) const override {
    if (!victim_) return absl::StrFormat("the phase '%s' never came", NameOf(cell_.phase));
    if (!outcome.finished) return "it did not finish: " + outcome.ended;
    const Checkers& checkers = run_->checkers();
    for (size_t i = 0; i < run_->options().nodes.size(); ++i) {
      const NodeId node = VirtualRun::node(static_cast<int32_t>(i));
      if (node == *victim_ || node == gone_) continue;
      if (checkers.put_out().contains(node)) {
        return LiveFaults::NameOf(node) + " was put out although nothing had befallen it";
      }
      const auto stopped = run_->simulation().stopped(node);
      if (stopped && stopped->exit_code != 0) {
        return LiveFaults::NameOf(node) + " ended by itself: " + stopped->reason;
      }
    }
    return "";
  }
  const std::vector<std::string>& story() const override { return story_; }
  int64_t faults() const override { return victim_ ? 1 : 0; }
  int64_t faulted_rounds() const override { return victim_ ? 1 : 0; }

 private:
  // So that there is a slot to hand on.
  void OnPersist(Instant at, const NodeId&, const std::string&) override {
    const RunState& state = run_->checkers().state();
    if (cell_.phase != GridPhase::kHandover || gone_ || state.commits.empty()) return;
    gone_ = VirtualRun::node(dice_.Count(0, kNodes - 1));
    const Duration away = Seconds(0.1, 2);
    run_->simulation().At(
        at, [this, away](Simulation&) { faults_now_.Kill(*gone_, away, Disk::kLost); });
  }

  // From within a handler: at once after it.
  void Strike(const NodeId& victim, const std::string& when) {
    if (victim_) return;
    victim_ = victim;
    run_->simulation().At(run_->simulation().now(), [this, when](Simulation&) {
      faults_now_.Tell(LiveFaults::NameOf(*victim_) + ": " + when);
      Do();
    });
  }

  Duration Seconds(double low, double high) { return Duration::Seconds(dice_.Scale(low, high)); }

  void Do() {
    const NodeId& victim = *victim_;
    switch (cell_.fault) {
      case GridFault::kKill:
        return faults_now_.Kill(victim, std::nullopt);
      case GridFault::kRestart:
        return faults_now_.Kill(victim, Seconds(0.05, 5), Disk::kLost);
      case GridFault::kHang:
        return faults_now_.Hang(victim, Seconds(0.5, 20));
      case GridFault::kCutOff:
        return faults_now_.CutOff(victim, Seconds(0.5, 20));
      case GridFault::kOneWay:
        return CutOneWay(victim);
      case GridFault::kDiskFull: {
        const bool own = cell_.phase == GridPhase::kJoining && cell_.time % 2 == 0;
        return faults_now_.FillDisk(own ? victim : VirtualRun::coordinator(), Seconds(0.5, 10));
      }
      case GridFault::kLeave:
        faults_now_.Leave(victim);
        if (cell_.time % 2 == 0) {
          run_->simulation().StartAt(run_->simulation().now() + Seconds(0.5, 10), victim);
        }
        return;
      case GridFault::kCoordinatorDies:
        return faults_now_.Kill(VirtualRun::coordinator(), Seconds(0.1, 10));
    }
  }

  void CutOneWay(const NodeId& victim) {
    const auto nodes = static_cast<int32_t>(run_->options().nodes.size());
    const int32_t own = LiveFaults::IndexOf(victim);
    const int32_t other = (own + dice_.Count(1, nodes - 1)) % nodes;
    const bool to_coordinator = dice_.Chance(0.25);
    const NodeId to = to_coordinator ? VirtualRun::coordinator() : VirtualRun::node(other);
    const Duration lasts = Seconds(1, 30);
    faults_now_.Tell(absl::StrFormat("the way from it to %s is cut for %.3f s",
                                     LiveFaults::NameOf(to), lasts.seconds()));
    faults_now_.CutWay(victim, to, lasts);
  }

  void OnJobStart(Instant, const NodeId& who, JobId, const std::string& name) override {
    if (cell_.phase != GridPhase::kStep || victim_ || name != PassName()) return;
    const auto stage = LiveStageOf(who);
    if (!stage || run_->checkers().state().RoundsCommitted(*stage) < kFirstRound) return;
    if (passes_-- == 0) Strike(who, "works on a microbatch, " + name);
  }

  void OnSent(Instant, const NodeId& from, const NodeId&, const Message& message) override {
    if (cell_.phase != GridPhase::kBoundary || victim_ || !IsWanted(from)) return;
    const auto* delta = std::get_if<Delta>(&message);
    if (delta == nullptr || delta->round < kFirstRound || !LiveStageOf(from)) return;
    Strike(from, absl::StrFormat("has sent its delta of round %d", delta->round));
  }

  void OnDelivered(Instant, const NodeId& from, const NodeId& to, const Message& message) override {
    if (victim_) return;
    switch (cell_.phase) {
      case GridPhase::kJoining:
        if (std::holds_alternative<Welcome>(message) && Joins(to)) Strike(to, "was welcomed");
        return;
      case GridPhase::kLanding: {
        const auto* commit = std::get_if<RoundCommit>(&message);
        if (commit == nullptr || commit->round < kFirstRound || !IsWanted(to)) return;
        return Strike(to, absl::StrFormat("has heard of the commit of round %d", commit->round));
      }
      case GridPhase::kHandover: {
        const auto* request = std::get_if<ObjectRequest>(&message);
        if (request == nullptr || !request->object.starts_with("state/")) return;
        const bool is_donor = cell_.time % 2 == 0;
        return Strike(is_donor ? to : from, is_donor ? "is asked for its state" : "asks for state");
      }
      case GridPhase::kCheckpoint: {
        const auto* request = std::get_if<ObjectRequest>(&message);
        const bool asked = cell_.time % 2 == 0
                               ? std::holds_alternative<CheckpointRequest>(message)
                               : request != nullptr && request->object.starts_with("checkpoint/");
        if (asked && IsWanted(to)) Strike(to, "is asked for its part of a checkpoint");
        return;
      }
      default:
        return;
    }
  }

  const char* PassName() const {
    return std::array{"forward", "backward", "start", "loss"}[static_cast<size_t>(cell_.time % 4)];
  }
  // One in two, so that stage 0 is not always first.
  bool IsWanted(const NodeId& who) const {
    return LiveFaults::IndexOf(who) % 2 == cell_.time / 2 % 2;
  }
  bool Joins(const NodeId& who) const {
    const int32_t index = LiveFaults::IndexOf(who);
    return cell_.time % 3 == 0 ? index == cell_.time % kNodes : index == kComesLate;
  }
  std::optional<int32_t> LiveStageOf(const NodeId& who) const {
    const auto& plan = run_->checkers().state().plan;
    if (!plan || IsDead(*plan, who)) return std::nullopt;
    const auto slot = SlotOf(*plan, who);
    return slot ? std::optional(slot->stage) : std::nullopt;
  }

  Dice dice_;
  GridCell cell_;
  std::vector<std::string> story_;
  LiveFaults faults_now_;
  VirtualRun* run_ = nullptr;
  int32_t passes_ = 0;
  std::optional<NodeId> victim_, gone_;
};

RunConfig DrawGridConfig(Dice& dice, const GridCell& cell) {
  RunConfig config = DrawConfig(dice, kNodes);
  config.name = "grid";
  // Who joins may be one of the first, and not come back.
  config.nodes_min = cell.phase == GridPhase::kJoining ? kNodes - 1 : kNodes;
  config.node_silent_s = 6;
  config.model.layers = 4;
  config.pipeline.stages = 2;
  config.pipeline.skip_ratio = dice.OneOf(std::array<double, 2>{0, 0.5});
  config.pipeline.microbatches_per_step = dice.Count(3, 6);
  config.outer.inner_steps = 2;
  config.outer.overlap_steps = dice.Count(0, 2);
  config.outer.reduce = dice.OneOf(std::array{OuterReduce::kAll, OuterReduce::kSharded});
  if (dice.Chance(0.3)) DrawMode(dice, config);
  config.steps = config.outer.inner_steps * (cell.phase == GridPhase::kHandover ? 14 : 8);
  if (cell.phase == GridPhase::kCheckpoint) config.checkpoint = {2, 2};
  return config;
}

}  // namespace

const char* NameOf(GridFault fault) {
  constexpr std::array<const char*, kGridFaults> kNames = {
      "killed",  "restarted", "hangs",  "cut off",
      "one way", "disk full", "leaves", "coordinator dies"};
  return kNames[static_cast<size_t>(fault)];
}

const char* NameOf(GridPhase phase) {
  constexpr std::array<const char*, kGridPhases> kNames = {"joining", "step",     "boundary",
                                                           "landing", "handover", "checkpoint"};
  return kNames[static_cast<size_t>(phase)];
}

GridCell GridCellOf(uint64_t seed) {
  const auto index = static_cast<int64_t>((seed - 1) % static_cast<uint64_t>(kGridCells));
  return {GridFault{static_cast<uint8_t>(index % kGridFaults)},
          GridPhase{static_cast<uint8_t>(index / kGridFaults)},
          static_cast<int32_t>((seed - 1) / static_cast<uint64_t>(kGridCells))};
}

SwarmRun DrawGridCell(uint64_t seed, const SwarmOutput& output) {
  const GridCell cell = GridCellOf(seed);
  Dice dice(seed);
  SwarmRun drawn;
  VirtualRunOptions options;
  options.seed = seed;
  options.config = DrawGridConfig(dice, cell);
  options.config.seed = seed;
  for (int32_t i = 0; i <= kNodes; ++i) {
    options.nodes.push_back(DrawNode(dice, options.config));
    options.nodes.back().device.gflops /= 3;
  }
  const bool late = cell.phase == GridPhase::kJoining && cell.time % 3 != 0;
  if (late) options.nodes.back().joins = Instant() + Duration::Seconds(dice.Real(6, 15));
  if (!late) options.nodes.pop_back();
  options.shards = 1;
  options.shard_bytes = 20'000;
  options.exports = true;
  options.plans_quickly = true;
  options.limit = kLimit;
  options.keep_events = output.keep_events;
  options.keep_status = output.keep_events;
  options.stops_at_violation = output.stops_at_violation;
  options.introduces_few = output.introduces_few;
  auto grid = std::make_shared<Grid>(seed, cell);
  const auto links = DrawLinks(dice, kNodes + 2);
  options.link = grid->faults_now().Over([links](const NodeId& from, const NodeId& to) {
    return links[static_cast<size_t>(NumberOf(from))][static_cast<size_t>(NumberOf(to))];
  });
  drawn.story.push_back(
      absl::StrFormat("%s while %s: %s", NameOf(cell.fault), NameOf(cell.phase), Told(options)));
  drawn.run = std::make_unique<VirtualRun>(std::move(options));
  grid->Begin(drawn.run.get());
  drawn.director = std::move(grid);
  return drawn;
}

}  // namespace skerry
