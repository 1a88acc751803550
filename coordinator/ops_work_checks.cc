// Pipeline work is checked by replicas drawn by lot (docs/PROTOCOL.md, "Work is checked").

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "coordinator/border.h"
#include "coordinator/record_json.h"
#include "coordinator/work_checking.h"
#include "pipeline/plan/route.h"

namespace skerry {
namespace {

// Takes one out, by lot.
template <typename T>
T DrawFrom(Context& context, std::vector<T>& from) {
  const size_t at = context.rng().Below(from.size());
  T drawn = from[at];
  from.erase(from.begin() + static_cast<int64_t>(at));
  return drawn;
}

}  // namespace

// ---- drawing -----------------------------------------------------------------------------------

void CoordinatorActor::TendWorkChecks(Context& context) {
  if (options_.config.pipeline.work_checks <= 0 || !state_.plan || state_.finished) return;
  if (!work_checking_) work_checking_ = std::make_shared<WorkChecking>();
  WorkChecking& checking = *work_checking_;
  checking.odd.clear();
  for (const auto& [node, is] : state_.odd) checking.odd.insert(node);
  int64_t front = -1;
  for (const auto& [node, beat] : beats_) {
    if (TakesPart(node)) front = std::max(front, beat.step);
  }
  if (front < 0) return;
  const double step_s = StepSeconds();
  const double of_heartbeats = step_s > 0 ? 2 * options_.config.heartbeat_s / step_s : 0;
  const int64_t until = std::min(options_.config.steps,
                                 front + WorkChecking::kStepsAhead +
                                     static_cast<int64_t>(std::ceil(std::min(of_heartbeats, 1e4))));
  checking.drawn_below = std::max(checking.drawn_below, front + WorkChecking::kStepsAhead);
  for (; checking.drawn_below <= until; ++checking.drawn_below) {
    checking.DrawStep(*this, context, checking.drawn_below);
  }
  // What has not come by now never will: a microbatch was led around, a copy was too late, the
  // checker could not.
  const int64_t lag = 4 * options_.config.outer.inner_steps;
  while (!checking.open.empty() && checking.open.begin()->first.first < front - lag) {
    checking.Judge(*this, context, checking.open.begin()->first);
  }
}

void CoordinatorActor::WorkChecking::DrawStep(CoordinatorActor& actor, Context& context,
                                              int64_t step) {
  const PipelinePlan& plan = *actor.state_.plan;
  std::vector<Visits> visits(plan.stages.size());
  for (int32_t m = 0; m < plan.microbatches_per_step; ++m) {
    const Path path = PathOf(plan, step, m);
    const auto node_at = [&](size_t hop) {
      const Slot& slot = path[hop % path.size()];  // after the last it is home again
      return plan.stages[static_cast<size_t>(slot.stage)]
          .replicas[static_cast<size_t>(slot.replica)];
    };
    for (size_t hop = 1; hop < path.size(); ++hop) {
      if (!WorksAt(plan, node_at(hop), step)) continue;
      visits[static_cast<size_t>(path[hop].stage)][node_at(hop)].push_back(
          {m, node_at(hop - 1), node_at(hop + 1)});
    }
  }
  const double share = double{actor.options_.config.pipeline.work_checks};
  for (size_t stage = 1; stage < visits.size(); ++stage) {
    DrawStage(context, share, step, static_cast<int32_t>(stage), visits[stage]);
  }
}

void CoordinatorActor::WorkChecking::DrawStage(Context& context, double share, int64_t step,
                                               int32_t stage, const Visits& visits) {
  if (visits.size() < 2) return;
  double times = 1, all = 0;
  std::vector<NodeId> checkers;
  for (const auto& [node, of] : visits) {
    const double known = odd.contains(node) ? 0 : static_cast<double>(judge.ChecksOf(node));
    times = std::max(times, kNewTimes / (1.0 + known));
    all += static_cast<double>(of.size());
    checkers.push_back(node);
  }
  const auto suspects = static_cast<double>(std::min(kSuspectsMax, visits.size() - 1));
  for (double due = share * times * all / suspects; !checkers.empty() && due > 0; --due) {
    if (context.rng().Uniform() >= due) break;
    Compare(context, step, stage, DrawFrom(context, checkers), visits);
  }
}

// Who is odd first.
NodeId CoordinatorActor::WorkChecking::DrawSuspect(Context& context,
                                                   std::vector<NodeId>& suspects) const {
  const auto first = std::find_if(suspects.begin(), suspects.end(),
                                  [&](const NodeId& node) { return odd.contains(node); });
  if (first == suspects.end()) return DrawFrom(context, suspects);
  const NodeId suspect = *first;
  suspects.erase(first);
  return suspect;
}

void CoordinatorActor::WorkChecking::Compare(Context& context, int64_t step, int32_t stage,
                                             const NodeId& checker, const Visits& visits) {
  if (open.size() >= kOpenMax) return;
  Comparison& comparison = open[{step, checker}];
  comparison.stage = stage;
  std::vector<NodeId> suspects;
  for (const auto& [node, of] : visits) {
    if (node != checker) suspects.push_back(node);
  }
  while (!suspects.empty() && comparison.microbatches.size() < kSuspectsMax) {
    const NodeId suspect = DrawSuspect(context, suspects);
    const auto& of = visits.at(suspect);
    const Visit& visit = of[context.rng().Below(of.size())];
    comparison.microbatches[suspect] = visit.microbatch;
    for (const NodeId& to : std::set<NodeId>{checker, visit.before, visit.after}) {
      context.Send(to,
                   WorkCheck{step, visit.microbatch, suspect, checker, visit.before, visit.after});
    }
  }
}

// ---- judging -----------------------------------------------------------------------------------

void CoordinatorActor::On(Context& context, const NodeId& from, const WorkChecked& message) {
  if (!work_checking_) return void(++refused_);
  const std::pair key(message.step, from);
  const auto open = work_checking_->open.find(key);
  if (open == work_checking_->open.end()) return void(++refused_);
  WorkChecking::Comparison& comparison = open->second;
  const auto asked = comparison.microbatches.find(message.suspect);
  if (asked == comparison.microbatches.end() || asked->second != message.microbatch) {
    return void(++refused_);
  }
  comparison.microbatches.erase(asked);
  comparison.found.push_back({message.suspect, double{message.forward}, double{message.backward}});
  if (comparison.microbatches.empty()) work_checking_->Judge(*this, context, key);
}

// With what has come of a comparison.
void CoordinatorActor::WorkChecking::Judge(CoordinatorActor& actor, Context& context, Key key) {
  const auto stays = actor.work_checking_;  // when the run goes back
  const auto done = open.extract(key);
  const Comparison& comparison = done.mapped();
  const NodeId checker = key.second;
  const int32_t stage = comparison.stage;
  const auto is_elsewhere = [&](const NodeId& node) {
    if (actor.StageOf(node) != stage) return true;
    const auto [known, is_new] = stages.try_emplace(node, stage);
    if (std::exchange(known->second, stage) != stage) judge.Forget(node);
    return false;
  };
  std::vector<WorkJudge::Found> found = comparison.found;
  std::erase_if(found, [&](const WorkJudge::Found& of) { return is_elsewhere(of.suspect); });
  if (found.empty() || is_elsewhere(checker)) return;
  judge.Note(checker, found);
  for (const WorkJudge::Found& of : found) {
    if (actor.stopping_ || !actor.state_.plan) return;
    const std::vector<NodeId> replicas = LiveReplicas(*actor.state_.plan, stage);
    TellDoubt(context, key, stage, of.suspect, replicas.size());
    const auto why = judge.WhyOut(of.suspect, replicas);
    if (!why) continue;
    judge.Forget(of.suspect);
    actor.DeclareGone(context, of.suspect, Gone::kEvicted, *why);
  }
}

// Once, until it doubts no more.
void CoordinatorActor::WorkChecking::TellDoubt(Context& context, const Key& key, int32_t stage,
                                               const NodeId& suspect, size_t replicas) {
  const auto& [step, checker] = key;
  const auto opinion = judge.OpinionOf(checker, suspect, replicas);
  if (!opinion || !opinion->doubts) return void(told_doubt.erase({checker, suspect}));
  if (!told_doubt.insert({checker, suspect}).second) return;
  context.Event(replicas > 2 ? "work_doubted" : "work_disputed",
                EventFields({{"stage", stage},
                             {"node", suspect.Short()},
                             {"by", checker.Short()},
                             {"step", step},
                             {"off", opinion->off},
                             {"times_others", opinion->times}}));
}

}  // namespace skerry
