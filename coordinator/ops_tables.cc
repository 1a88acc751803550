// A codec for each tensor: what replicas measured becomes the table that a commit names
// (localsgd/table_choice.h; docs/decisions/0021-codec-tables.md).

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/round_clock.h"
#include "common/status.h"
#include "coordinator/border.h"
#include "coordinator/coordinator_actor.h"
#include "coordinator/listings.h"
#include "pipeline/plan/route.h"

namespace skerry {
const std::vector<int64_t>& CoordinatorActor::PartsOfStage(int32_t stage) {
  const auto [it, is_new] = table_parts_.try_emplace(stage);
  if (!is_new) return it->second;
  const StageAssignment& of = state_.plan->stages[static_cast<size_t>(stage)];
  it->second =
      TableParts(ParameterLayout::ForStage(options_.trained_model.value_or(options_.config.model),
                                           of.first_layer, of.last_layer, stage == 0));
  return it->second;
}

// Its first word on a round counts. Who says what cannot be is left out of the choice, no more: a
// table is a matter of loss and bytes, whoever measured it.
void CoordinatorActor::On(Context& context, const NodeId& from, const DeltaStatistics& message) {
  const auto stage = StageOf(from);
  if (!stage || message.stage != *stage || message.round < 0 ||
      !MeasuresRound(options_.config.outer, message.round) ||
      message.round >
          state_.RoundsCommitted(*stage) + 2 * RoundClock(options_.config).RoundsAhead()) {
    return void(++refused_);
  }
  if (message.round < state_.RoundsCommitted(*stage)) return;
  auto& said = statistics_[{*stage, message.round}];
  if (said.contains(from)) return;
  auto heard = HeardOf(message, PartsOfStage(*stage), TableCodecs(options_.config));
  if (heard.ok()) {
    said[from] = *std::move(heard);
    return;
  }
  said[from] = std::nullopt;
  ++refused_;
  context.Event("statistics_refused", EventFields({{"stage", *stage},
                                                   {"round", message.round},
                                                   {"node", from.Short()},
                                                   {"why", ErrorText(heard.status())}}));
}

// Everybody's statistics came before what they said of the round's messages, so they are all here.
std::optional<RoundTable> CoordinatorActor::AddTable(RoundCommit* commit) {
  if (!MeasuresRound(options_.config.outer, commit->round)) return std::nullopt;
  std::vector<PartStatistics> heard;
  for (const Participant& p : commit->participants) {  // in node order
    auto& said = statistics_[{commit->stage, commit->round}];
    const auto it = said.find(p.node);
    if (it != said.end() && it->second) heard.push_back(*std::move(it->second));
  }
  statistics_.erase(statistics_.lower_bound({commit->stage, 0}),
                    statistics_.upper_bound({commit->stage, commit->round}));
  const auto replicas =
      static_cast<int64_t>(state_.plan->stages[static_cast<size_t>(commit->stage)].replicas.size());
  const std::vector<int64_t>& parts = PartsOfStage(commit->stage);
  int64_t values = 0;
  for (const int64_t part : parts) values += part;
  const PieceCut cut = IsShardedStage(commit->stage) ? PieceCut::Of(values, replicas) : PieceCut();
  auto chosen = ChooseRoundTable(options_.config, parts, cut, heard);
  if (!chosen.ok()) return std::nullopt;  // nobody said anything: the former stays in force
  commit->table = PackTable(chosen->table);
  return *std::move(chosen);
}

void CoordinatorActor::EmitTable(Context& context, const RoundCommit& commit,
                                 const RoundTable& table) {
  context.Event("table",
                EventFields({{"stage", commit.stage},
                             {"round", commit.round},
                             {"from_round", commit.round + TableLag(options_.config.outer)},
                             {"bits", table.bits},
                             {"error_ratio", table.error_ratio},
                             {"over_budget", table.is_over_budget},
                             {"text", TableText(table.table)}}));
}

// Those that messages from that round on may be of, then the commit right before it, by which the
// node knows that there are no others.
void CoordinatorActor::SendTables(Context& context, const NodeId& node, int32_t stage,
                                  int64_t before_round) const {
  const OuterConfig& outer = options_.config.outer;
  const int64_t before = std::min(before_round, state_.RoundsCommitted(stage));
  const int64_t first = state_.plan->start.round;
  if (!HasBudget(outer) || before <= first) return;
  std::vector<const RoundCommit*> commits;
  for (int64_t round = before - 1; round >= first; --round) {
    const RoundCommit& commit = state_.commits.at({stage, round});
    if (!commit.table.empty() || round == before - 1) commits.push_back(&commit);
    if (!commit.table.empty() && round + TableLag(outer) <= before) break;
  }
  for (auto it = commits.rbegin(); it != commits.rend(); ++it) context.Send(node, **it);
}

// After the plan that names them.
void CoordinatorActor::SendTablesToJoiners(Context& context) const {
  const PipelinePlan& plan = *state_.plan;
  for (const Joiner& joiner : plan.joining) {
    const auto slot = SlotOf(plan, joiner.node);
    if (joiner.since != plan.version || !slot || !greeted_.contains(joiner.node)) continue;
    SendTables(context, joiner.node, slot->stage, joiner.base_version);
  }
}

}  // namespace skerry
