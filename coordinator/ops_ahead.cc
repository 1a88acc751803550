// Nodes that hold what this journal does not know: it was restored from an older copy, or cut.
//
// A plan or a commit is durable before anybody hears of it, so a Hello that names a later plan, or
// more rounds than any stage has, proves it, or is a lie. Nothing such a node says is taken: what
// it trained is of a ledger that is not here. Where another replica of its stage knows no more than
// the journal it starts over as if it had died. Where all of a stage know more, going on would drop
// what they have learnt, and the operator may have a newer copy: the coordinator ends, and tells
// nobody.

#include <algorithm>
#include <limits>

#include "common/status.h"
#include "coordinator/coordinator_actor.h"
#include "pipeline/plan/route.h"

namespace skerry {

bool CoordinatorActor::IsAhead(const Hello& hello) const {
  if (hello.plan_version <= 0) return false;
  if (!state_.plan || hello.plan_version > state_.plan->version) return true;
  // Before the run went back there may have been more rounds.
  return hello.plan_version >= state_.plan->start.since &&
         hello.base_version > state_.RoundsOfAnyStage();
}

void CoordinatorActor::TendAhead(Context& context) {
  std::erase_if(ahead_, [&](const auto& one) { return !state_.nodes.at(one.first).alive; });
  const auto starts_over = [&](const NodeId& node) {
    if (state_.plan && !TakesPart(node)) return true;
    return std::any_of(greeted_.begin(), greeted_.end(), [&](const NodeId& other) {
      return !state_.plan || StageOf(other) == StageOf(node);
    });
  };
  const auto is_unheard = [&](const NodeId& other) {
    return state_.nodes.at(other).alive && !ahead_.contains(other);
  };
  const auto ahead = ahead_;
  for (const auto& [node, hello] : ahead) {
    if (starts_over(node)) {
      ahead_.erase(node);
      if (TakesPart(node)) {
        DeclareGone(context, node, Gone::kDead, "it holds rounds or a plan that the journal lacks");
      }
      if (stopping_) return;
      PipelinePlan without;
      without.version = std::min(hello.plan_version, std::numeric_limits<int64_t>::max() - 1) + 1;
      context.Send(node, PlanUpdate{without});
      continue;
    }
    if (!state_.plan && static_cast<int32_t>(ahead.size()) < options_.config.nodes_min) continue;
    const auto stage = StageOf(node);
    const std::vector<NodeId> holders =
        stage ? Holders(*state_.plan, *stage) : std::vector<NodeId>();
    if (std::any_of(holders.begin(), holders.end(), is_unheard)) continue;  // it may yet say Hello
    stopping_ = true;
    return context.Stop(
        1, absl::StrFormat("nodes went further than this journal: %s has %d rounds by plan %d, the "
                           "journal %d by plan %d, so it is an older copy. Serve a newer one; if "
                           "there is none end the nodes, then serve this one: it goes back to its "
                           "newest checkpoint [SK-journal-older]",
                           node.Short(), hello.base_version, hello.plan_version,
                           state_.RoundsOfAnyStage(), state_.plan ? state_.plan->version : 0));
  }
}

}  // namespace skerry
