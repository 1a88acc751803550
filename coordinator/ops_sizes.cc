// How large activations and gradients are is watched (docs/PROTOCOL.md, "Sizes are watched"). Who
// is odd is named and checked more often, never put out: a stage's true results may be odd for a
// while, and a neighbour can make them so.

#include <cmath>
#include <nlohmann/json.hpp>

#include "common/status.h"
#include "coordinator/border.h"
#include "coordinator/boundary_watch.h"
#include "coordinator/coordinator_actor.h"
#include "coordinator/record_json.h"
#include "pipeline/plan/route.h"

namespace skerry {

struct CoordinatorActor::SizesWatching {
  static constexpr Duration kJudgeEvery = Duration::Seconds(5);
  static constexpr int kTellsMax = 32;  // of a node in a life: it may turn and turn

  BoundaryWatch watch;
  std::map<NodeId, int32_t> stages;  // as they were when it was noted
  std::map<NodeId, int> told;
  Instant judged;
  bool is_new = false;  // something came since

  // Whether the journal is to know.
  bool MayTell(const NodeId& node) { return ++told[node] <= kTellsMax; }
};

void CoordinatorActor::On(Context&, const NodeId& from, const BoundarySizes& message) {
  const auto stage = StageOf(from);
  if (!stage || !IsSane(message, options_.config)) return void(++refused_);
  if (!sizes_watching_) sizes_watching_ = std::make_shared<SizesWatching>();
  SizesWatching& watching = *sizes_watching_;
  BoundarySizes known{message.first_step, {}};
  for (const BoundarySide& side : message.sides) {
    if (side.other != from && StageOf(side.other)) known.sides.push_back(side);
  }
  const auto [at, is_fresh] = watching.stages.try_emplace(from, *stage);
  if (std::exchange(at->second, *stage) != *stage) watching.watch.Forget(from);
  watching.watch.Note(from, known);
  watching.is_new = true;
}

namespace {

// For people: "it makes activations 16.0 times as large as others of stage 1 do, says 3fa9".
std::string Told(const BoundaryWatch::Finding& finding) {
  std::string by;
  for (const NodeId& node : finding.by) by += (by.empty() ? "" : ", ") + node.Short();
  if (finding.what == "words") {
    return absl::StrFormat("what it says of the size of what passed is contradicted by %s", by);
  }
  return absl::StrFormat(
      "its %s are %.3g times as large as those of others of stage %d%s, said by %s", finding.what,
      std::exp2(finding.off), finding.stage,
      finding.is == BoundaryWatch::Is::kOdd ? "" : " (or theirs are wrong)", by);
}

nlohmann::json Shorts(const std::vector<NodeId>& nodes) {
  nlohmann::json shorts = nlohmann::json::array();
  for (const NodeId& node : nodes) shorts.push_back(node.Short());
  return shorts;
}

}  // namespace

void CoordinatorActor::TendSizes(Context& context) {
  if (!sizes_watching_ || !state_.plan || state_.finished) return;
  SizesWatching& watching = *sizes_watching_;
  const bool is_due = context.now() - watching.judged >= SizesWatching::kJudgeEvery;
  if (!watching.is_new || !is_due) return;
  watching.judged = context.now();
  watching.is_new = false;
  for (auto it = watching.stages.begin(); it != watching.stages.end();) {
    const bool is_here = StageOf(it->first) == it->second;
    if (!is_here) watching.watch.Forget(it->first);
    it = is_here ? std::next(it) : watching.stages.erase(it);
  }
  std::vector<std::vector<NodeId>> stages;
  for (size_t s = 0; s < state_.plan->stages.size(); ++s) {
    stages.push_back(LiveReplicas(*state_.plan, static_cast<int32_t>(s)));
  }
  const BoundaryWatch::Changes changes = watching.watch.Judge(stages);
  for (const BoundaryWatch::Finding& finding : changes.named) {
    if (!state_.nodes.contains(finding.node) || !watching.MayTell(finding.node)) continue;
    Record(context, SizesRecord(finding.node, NameOf(finding.is), Told(finding)));
    context.Event(finding.is == BoundaryWatch::Is::kOdd ? "odd_sizes" : "sizes_disputed",
                  EventFields({{"stage", finding.stage},
                               {"node", finding.node.Short()},
                               {"what", finding.what},
                               {"times_others", std::exp2(finding.off)},
                               {"by", Shorts(finding.by)}}));
  }
  // Also who was named in a life before.
  std::vector<NodeId> settled;
  for (const auto& [node, is] : state_.odd) {
    const bool is_judged = watching.watch.judgements() >= BoundaryWatch::kThrice;
    if (is_judged && !watching.watch.named().contains(node)) settled.push_back(node);
  }
  for (const NodeId& node : settled) {
    Record(context, SizesRecord(node, "", "the size of what it sends is like others' again"));
    context.Event("sizes_settled", EventFields({{"node", node.Short()}}));
  }
}

}  // namespace skerry
