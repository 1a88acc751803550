// What the state of a stage is, for who joins it (docs/PROTOCOL.md, 17; decision 31).
//
// Every live replica keeps the version that the joiner was named with and says the root of what all
// replicas have in common. What most of them say is what the joiner is told, on this channel, which
// is authenticated; a replica whose root differs holds another state than its stage. In memory
// only: replicas say it again to a coordinator that restarted.

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"
#include "coordinator/border.h"
#include "coordinator/coordinator_actor.h"
#include "pipeline/plan/route.h"

namespace skerry {
namespace {

// The joiner of a stage that has no state yet; nullptr: nobody.
const Joiner* JoiningNow(const PipelinePlan& plan, int32_t stage) {
  for (const Joiner& joiner : plan.joining) {
    if (!joiner.IsFixed() && SlotOf(plan, joiner.node)->stage == stage) return &joiner;
  }
  return nullptr;
}

}  // namespace

void CoordinatorActor::On(Context& context, const NodeId& from, const StateRoot& message) {
  const auto stage = StageOf(from);
  if (!stage || message.stage != *stage) return void(++refused_);
  const Joiner* joiner = JoiningNow(*state_.plan, *stage);
  // Of a joiner that is given up, or has it all.
  if (joiner == nullptr || joiner->base_version != message.round || joiner->node == from) return;
  StateRoots& roots = state_roots_[*stage];
  if (roots.since != joiner->since) roots = {joiner->since, {}, {}};
  // The first word counts: it cannot follow the others.
  roots.said.try_emplace(from, message.root);
  AgreeOnState(context, *stage);
}

// The root of more than half of those who have that version, or of most when all have spoken.
void CoordinatorActor::AgreeOnState(Context& context, int32_t stage) {
  const auto it = state_roots_.find(stage);
  if (it == state_roots_.end()) return;
  const Joiner* joiner = JoiningNow(*state_.plan, stage);
  if (joiner == nullptr || joiner->since != it->second.since) {
    state_roots_.erase(it);
    return;
  }
  StateRoots& roots = it->second;
  std::map<Digest, size_t> votes;
  size_t voters = 0, silent = 0;
  for (const NodeId& node : LiveReplicas(*state_.plan, stage)) {
    const auto said = roots.said.find(node);
    const bool is_out = said != roots.said.end() && said->second.IsZero();
    voters += is_out ? 0 : 1;
    if (said == roots.said.end()) ++silent;
    if (said != roots.said.end() && !is_out) ++votes[said->second];
  }
  const auto most = std::max_element(
      votes.begin(), votes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (!roots.agreed && most != votes.end() && 2 * most->second > voters) {
    roots.agreed = most->first;
    context.Event("state_root", EventFields({{"stage", stage},
                                             {"version", joiner->base_version},
                                             {"node", joiner->node.Short()},
                                             {"replicas", most->second},
                                             {"root", most->first.Short()}}));
    context.Send(joiner->node, StateRoot{stage, joiner->base_version, most->first, 0});
  } else if (!roots.agreed && silent == 0 && votes.size() > 1) {
    return GiveUpJoiner(context, joiner->node, "the replicas do not agree on the state");
  } else if (!roots.agreed && silent == 0 && voters == 0) {
    return GiveUpJoiner(context, joiner->node, "no replica has kept the state");
  }
  if (roots.agreed) EvictLiars(context, stage);
}

// By their own word.
void CoordinatorActor::EvictLiars(Context& context, int32_t stage) {
  const StateRoots roots = state_roots_.at(stage);
  for (const NodeId& node : LiveReplicas(*state_.plan, stage)) {
    const auto said = roots.said.find(node);
    const bool lies = said != roots.said.end() && !said->second.IsZero() &&
                      said->second != *roots.agreed && TakesPart(node);
    if (!lies) continue;
    context.Event("state_mismatch", EventFields({{"stage", stage}, {"node", node.Short()}}));
    DeclareGone(context, node, Gone::kEvicted, "its state differs from its stage's");
    if (stopping_) return;
  }
}

// One joiner's word against one donor's: noted, and no more.
void CoordinatorActor::On(Context& context, const NodeId& from, const StateRefuted& message) {
  const auto stage = StageOf(from);
  const Joiner* joiner = stage ? JoiningNow(*state_.plan, *stage) : nullptr;
  if (joiner == nullptr || joiner->node != from || message.stage != *stage ||
      message.round != joiner->base_version || StageOf(message.donor) != stage) {
    return void(++refused_);
  }
  context.Event("state_refuted", EventFields({{"stage", *stage},
                                              {"version", message.round},
                                              {"node", message.donor.Short()},
                                              {"by", from.Short()},
                                              {"chunk", message.chunk},
                                              {"digest", message.digest.Short()}}));
}

}  // namespace skerry
