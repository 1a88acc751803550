// Moving nodes that work to where they do more (docs/PROTOCOL.md, 27).
//
// Whether a move is worth its cost is looked at in the background (pipeline/plan/replan.h): after
// every change of who is here, and every replan_s. A decision waits for the end of a round and is
// void when the plan changes before; made, it is one journalled plan, and from then on the movers
// are joiners like any other (ops_handover.cc). So a coordinator that restarts has nothing to
// resume: it decides again.

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/round_clock.h"
#include "coordinator/border.h"
#include "coordinator/coordinator_actor.h"
#include "pipeline/plan/cohorts.h"
#include "pipeline/plan/route.h"
#include "routing/cost_model.h"

namespace skerry {
namespace {

constexpr size_t kFleetMax = 128;  // larger ones only hand slots on
// A stage rests after a move until so many rounds, or so many times replan_s, have passed.
constexpr int64_t kRestRounds = 10;
constexpr double kRestReplans = 10;
// The run's own traffic makes a link look slower than it is, up to so many times.
constexpr double kLoadFactor = 3;
// Departures are counted as if each node had been here so much longer without one: the first says
// little.
constexpr double kQuietSeconds = 3600;
constexpr int64_t kRoundsToBegin = 2;  // of a node that comes into a stage, about

// A decision without its figures.
std::string WhatIsSaid(int64_t plan_version, const Replan& replan) {
  return absl::StrFormat("%d %s", plan_version,
                         replan.migrates ? "migrate " + MovesText(replan.moves) : "stay");
}

}  // namespace

struct CoordinatorActor::Replanning {
  ReplanRequest request;
  std::string reason;
  Replan chosen;
};

void CoordinatorActor::NoteChange(const std::string& reason) {
  if (!change_.empty() && change_ != reason) {
    change_ = reason + " (not the first change)";
  } else {
    change_ = reason;
  }
}

// Those who stand by count, too: they leave for the same reasons.
void CoordinatorActor::CountNodeSeconds(Instant now) {
  if (!counted_from_) {
    counted_from_ = counted_ = now;
    node_seconds_ = kQuietSeconds * static_cast<double>(active_.size());
  }
  node_seconds_ += (now - counted_).seconds() * static_cast<double>(active_.size());
  counted_ = now;
}

Churn CoordinatorActor::ChurnSoFar(bool has_standbys) const {
  Churn churn;
  if (!counted_from_ || departures_ == 0) return churn;
  churn.departures_per_s = static_cast<double>(departures_) / node_seconds_;
  const double begins_s = options_.config.node_silent_s +
                          static_cast<double>(kRoundsToBegin * options_.config.outer.inner_steps) *
                              state_.predicted_step_s;
  if (has_standbys) {
    churn.refill_s = begins_s;
  } else if (arrivals_ > 0) {
    churn.refill_s =
        begins_s + (counted_ - *counted_from_).seconds() / static_cast<double>(arrivals_);
  }
  return churn;
}

// A change of class is a reason to look at the places again.
void CoordinatorActor::WatchSpeed(const NodeId& node, const Heartbeat& beat) {
  const bool works = beat.phase == Phase::kTraining || beat.phase == Phase::kWaitingForPeers ||
                     beat.phase == Phase::kWaitingForRound;
  const auto stage = StageOf(node);
  if (!works || !stage || options_.config.replan_s == 0) return;
  SpeedWatch& watch = speeds_[node];
  if (!watch.OnBeat(*stage, beat.backward_s, beat.backwards)) return;
  ++links_changed_;
  if (watch.class_slower() > 0) {
    NoteChange(absl::StrFormat("%s computes %.1f times as slowly as before", node.Short(),
                               1 / watch.factor()));
  } else {
    NoteChange(absl::StrFormat("%s computes as fast as before again", node.Short()));
  }
}

void CoordinatorActor::TendReplan(Context& context) {
  if (state_.plan && !state_.finished) CountNodeSeconds(context.now());
  const bool rests = state_.finished || state_.orders.paused_at.has_value();
  if (options_.config.replan_s == 0 || !state_.plan || rests) return;
  const bool is_due = !change_.empty() || context.now() >= next_replan_;
  // Who stands by fills a dead slot before anybody is moved for it.
  if (!is_due || replanning_ || choosing_) return;
  if (context.now() >= next_replan_) MeasureAgain(context);
  StartReplan(context);
}

// Ways that microbatches take, those that say nothing sure first, then those not read for longest;
// each node at most once.
void CoordinatorActor::MeasureAgain(Context& context) {
  std::set<ProbeSchedule::Pair> ways;
  const PipelinePlan& plan = *state_.plan;
  for (size_t index = 0; index < plan.paths.size(); ++index) {
    const Path patched = PatchedPath(plan, index, last_step_ + 1);
    for (size_t hop = 0; hop < patched.size() && patched.size() > 1; ++hop) {
      const NodeId& from = NodeOf(plan, patched[hop]);
      const NodeId& to = NodeOf(plan, patched[(hop + 1) % patched.size()]);
      ways.insert({from, to});
      ways.insert({to, from});
    }
  }
  std::vector<NodeId> nodes(probed_.begin(), probed_.end());
  if (nodes.size() > kFleetMax) return;
  std::vector<ProbeSchedule::Pair> pairs = links_.WorthMeasuring(nodes, context.now());
  std::vector<ProbeSchedule::Pair> oldest(ways.begin(), ways.end());
  const auto asked = [&](const ProbeSchedule::Pair& pair) {
    const auto at = asked_again_.find(pair);
    return at == asked_again_.end() ? started_ : at->second;
  };
  std::stable_sort(oldest.begin(), oldest.end(),
                   [&](const auto& a, const auto& b) { return asked(a) < asked(b); });
  std::erase_if(pairs, [&](const auto& pair) { return !state_.links.contains(pair); });
  pairs.insert(pairs.end(), oldest.begin(), oldest.end());
  const auto now_asked = probes_.Again(pairs, context.now());
  for (const auto& pair : now_asked) asked_again_[pair] = context.now();
  Ask(context, now_asked);
}

// A link that is a little worse than it was read before is busy; what is far worse, or better, is
// news.
LinkReading CoordinatorActor::ReadUnderLoad(const NodeId& from, const LinkReading& reading) {
  const auto known = state_.links.find({from, reading.target});
  if (known == state_.links.end()) {
    ++links_changed_;
    return reading;
  }
  const LinkReading& before = known->second;
  LinkReading believed = reading;
  constexpr double kAlike = 1.25;
  const double slower = before.bytes_per_s / std::max(1.0, reading.bytes_per_s);
  const double longer = reading.rtt_s / std::max(1e-6, before.rtt_s);
  if (slower >= 1 && slower < kLoadFactor) believed.bytes_per_s = before.bytes_per_s;
  if (longer >= 1 && longer < kLoadFactor) believed.rtt_s = before.rtt_s;
  const double change = std::max({slower, 1 / slower, longer, 1 / longer});
  if (believed != before && change > kAlike) ++links_changed_;
  if (change >= kLoadFactor) {
    NoteChange(absl::StrFormat("the link from %s to %s has changed", from.Short(),
                               reading.target.Short()));
  }
  return believed;
}

// Its part of the newest round of its stage that has landed is made, and all agree on what came of
// it: now it loses least, and nothing is left to be said about it.
bool CoordinatorActor::MayLeave(const NodeId& node) const {
  const auto stage = StageOf(node);
  if (!stage) return false;
  const int64_t rounds = state_.RoundsCommitted(*stage);
  const int64_t in_flight = RoundClock(options_.config).in_flight_max();
  for (int64_t round = rounds - 1; round >= std::max<int64_t>(0, rounds - in_flight); --round) {
    if (AllAgreeWith(node, *stage, round)) return true;
  }
  return false;
}

bool CoordinatorActor::AllAgreeWith(const NodeId& node, int32_t stage, int64_t round) const {
  const auto reports = state_.applied.find({stage, round});
  if (reports == state_.applied.end()) return false;
  const auto own = reports->second.find(node);
  const std::vector<NodeId> participants = ParticipantsOf(*state_.plan, stage, round);
  return own != reports->second.end() &&
         own->second.base_digest == *state_.AgreedDigest(stage, round) &&
         std::all_of(participants.begin(), participants.end(),
                     [&](const NodeId& n) { return reports->second.contains(n); });
}

// Replicas of whose deltas the newest round is made; a joiner is none before its first.
std::set<NodeId> CoordinatorActor::AtWork() const {
  std::set<NodeId> at_work;
  for (size_t i = 0; i < state_.plan->stages.size(); ++i) {
    const auto stage = static_cast<int32_t>(i);
    const int64_t round = state_.RoundsCommitted(stage) - 1;
    const auto commit = state_.commits.find({stage, round});
    if (commit == state_.commits.end()) continue;
    for (const NodeId& node : LiveReplicas(*state_.plan, stage)) {
      const auto& made_of = commit->second.participants;
      const bool is_in = std::any_of(made_of.begin(), made_of.end(),
                                     [&](const Participant& p) { return p.node == node; });
      const std::vector<NodeId> cohort = CohortOf(*state_.plan, node);
      const bool is_spoken_for = std::any_of(made_of.begin(), made_of.end(), [&](const auto& p) {
        return std::find(cohort.begin(), cohort.end(), p.node) != cohort.end();
      });
      const bool counts = is_in || is_spoken_for || IsAbsent(*state_.plan, stage, round, node);
      if (counts && state_.nodes.at(node).alive) at_work.insert(node);
    }
  }
  return at_work;
}

std::set<int32_t> CoordinatorActor::RestingStages(Instant now) const {
  const Duration rest = Duration::Seconds(kRestReplans * options_.config.replan_s);
  const Duration after_failure = Duration::Seconds(2 * options_.config.node_silent_s);
  const int64_t rest_rounds = RoundClock(options_.config).RoundsIn(kRestRounds);
  std::set<int32_t> resting;
  for (const auto& [stage, round] : state_.moved) {
    const auto at = moved_at_.find(stage);
    const bool rounds_passed = state_.RoundsCommitted(stage) - round >= rest_rounds;
    if (!rounds_passed && at != moved_at_.end() && now - at->second < rest) resting.insert(stage);
  }
  for (const auto& [stage, failed] : failed_handover_) {
    if (now - failed < after_failure) resting.insert(stage);
  }
  return resting;
}

void CoordinatorActor::StartReplan(Context& context) {
  const RunConfig config = Settled(options_.config, *state_.plan);
  next_replan_ = context.now() + Duration::Seconds(config.replan_s);
  const std::string reason = std::exchange(change_, "");
  const CoordinatorParts::Looked looked{state_.plan->version, links_changed_, Standbys(), AtWork(),
                                        RestingStages(context.now())};
  if (std::exchange(looked_, looked) == looked) return;
  const int64_t soonest = SoonestFirstStep(config);  // a mover's first
  auto replanning = std::make_shared<Replanning>();
  replanning->reason = reason.empty() ? "it is time to look" : reason;
  ReplanRequest& request = replanning->request;
  request.plan = *state_.plan;
  request.standbys = looked.standbys;
  request.at_work = looked.at_work;
  request.resting = looked.resting;
  request.steps_left = std::max<int64_t>(0, config.steps - soonest);
  request.steps_done = std::max<int64_t>(0, last_step_);
  request.churn = ChurnSoFar(!request.standbys.empty());
  request.wants_figures = logged_replan_ != WhatIsSaid(state_.plan->version, {});
  for (const ShardName& shard : options_.shards) request.data_bytes += shard.bytes;
  request.input.config = config;
  std::set<NodeId> nodes(request.standbys.begin(), request.standbys.end());
  for (const StageAssignment& stage : state_.plan->stages) {
    nodes.insert(stage.replicas.begin(), stage.replicas.end());
  }
  if (nodes.size() > kFleetMax) {
    replanning->chosen.why = "in a fleet of this size slots are only handed on";
    return LogReplan(context, replanning->chosen, replanning->reason);
  }
  request.input.nodes.assign(nodes.begin(), nodes.end());
  for (const NodeId& node : nodes) {
    DeviceProfile& device = request.input.devices[node] =
        ComputingFor(config, state_.nodes.at(node).device);
    const auto speed = speeds_.find(node);
    if (speed == speeds_.end() || speed->second.class_slower() == 0) continue;
    device.gflops *= speed->second.factor();
    device.name.clear();  // it is not like the others of its kind
  }
  request.input.links = links_.Estimate(request.input.nodes, context.now());
  replanning_ = replanning;
  replanning_job_ = context.Submit({"replan", Duration::Millis(50), [replanning] {
                                      replanning->chosen = ChooseMoves(replanning->request);
                                    }});
}

void CoordinatorActor::ReplanChosen(Context& context) {
  const auto replanning = std::exchange(replanning_, nullptr);
  if (state_.finished || !state_.plan) return;
  if (state_.plan->version != replanning->request.plan.version) {  // of a past that is over
    if (change_.empty()) change_ = replanning->reason;
    looked_ = {};
    return;
  }
  const Replan& chosen = replanning->chosen;
  LogReplan(context, chosen, replanning->reason);
  migration_.reset();
  if (!chosen.migrates) return;
  // Whoever died may be back at once, and is given its slot for less.
  migration_ =
      CoordinatorParts::Migration{chosen.moves, state_.plan->version,
                                  context.now() + Duration::Seconds(options_.config.node_silent_s)};
}

// Not again what the last line said of the same plan.
void CoordinatorActor::LogReplan(Context& context, const Replan& replan,
                                 const std::string& reason) {
  const char* decision = replan.migrates ? "migrate" : "stay";
  const std::string said = WhatIsSaid(state_.plan->version, replan);
  if (std::exchange(logged_replan_, said) == said) return;
  nlohmann::json moves = nlohmann::json::array();
  for (const Move& move : replan.moves) {
    moves.push_back({{"node", move.node.Short()},
                     {"from_stage", move.from_stage},
                     {"to_stage", move.to.stage}});
  }
  context.Event("replan", EventFields({{"reason", reason},
                                       {"now_s", replan.now_s},
                                       {"then_s", replan.then_s},
                                       {"gain_s", replan.gain_s},
                                       {"cost_s", replan.cost_s},
                                       {"pays_back_steps", replan.pays_back_steps},
                                       {"moves", moves},
                                       {"decision", decision},
                                       {"why", replan.why}}));
}

// One plan: the movers' old slots are dead or somebody else's from it on.
void CoordinatorActor::MigrateIfReady(Context& context) {
  if (!migration_ || state_.finished || state_.orders.paused_at) return;
  if (migration_->plan_version != state_.plan->version) return migration_.reset();
  if (context.now() < migration_->not_before) return;
  const std::vector<NodeId> standbys = Standbys();
  std::map<int32_t, int64_t> rounds;
  std::set<NodeId> leaving;
  for (const Move& move : migration_->moves) {
    const NodeId replaced = NodeOf(*state_.plan, move.to);
    if (!IsDead(*state_.plan, replaced)) leaving.insert(replaced);
    if (move.from_stage >= 0) {
      leaving.insert(move.node);
    } else if (std::find(standbys.begin(), standbys.end(), move.node) == standbys.end()) {
      return migration_.reset();
    }
    rounds[move.to.stage] = state_.RoundsCommitted(move.to.stage);
  }
  if (!std::all_of(leaving.begin(), leaving.end(), [&](const NodeId& n) { return MayLeave(n); })) {
    return;
  }
  const std::vector<Move> moves = std::exchange(migration_, std::nullopt)->moves;
  const PipelinePlan plan = CallBackAbsent(WithMoves(*state_.plan, moves, rounds));
  for (const Move& move : moves) {
    leaving.insert(move.node);
    joining_since_[move.node] = context.now();
    held_up_since_.erase(move.to.stage);
    moved_at_[move.to.stage] = context.now();
    if (move.from_stage >= 0) moved_at_[move.from_stage] = context.now();
  }
  for (const NodeId& node : leaving) {
    ForgetHoldings(node);
    beats_.erase(node);
  }
  Record(context, PlanRecord(plan, state_.predicted_step_s, state_.lower_bound_s));
  nlohmann::json told = nlohmann::json::array();
  for (const Move& move : moves) {
    told.push_back({{"node", move.node.Short()},
                    {"from_stage", move.from_stage},
                    {"to_stage", move.to.stage},
                    {"replica", move.to.replica}});
  }
  context.Event("migration", EventFields({{"moves", told}}));
  AnnouncePlan(context, MovesText(moves));
  GoOnWithout(context);
}

}  // namespace skerry
