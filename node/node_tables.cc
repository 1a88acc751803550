// A node's share of codec tables: measures its delta now and then, and learns of the commits from
// which round on messages are of which table (localsgd/table_choice.h).

#include <algorithm>
#include <utility>

#include "common/status.h"
#include "localsgd/table_choice.h"
#include "node/node_actor.h"
#include "node/node_results.h"

namespace skerry {

// Commits come in order, so a table that the round needs came with that one or before.
bool NodeActor::IsTableKnown(int64_t round) const {
  if (!HasBudget(config_->outer)) return true;
  return round - TableLag(config_->outer) < commits_known_;
}

// Whether that is all the commit was sent for: a joiner hears again of some before its own.
bool NodeActor::LearnTable(Context& context, const RoundCommit& commit) {
  if (!HasBudget(config_->outer) || commit.stage != stage_) return false;
  commits_known_ = std::max(commits_known_, commit.round + 1);
  const int64_t first = commit.round + TableLag(config_->outer);
  if (!commit.table.empty() && tables_.emplace(first, commit.table).second && work_) {
    const absl::Status set = work_->SetTable(first, commit.table);
    if (!set.ok()) Fail(context, set);
  }
  return commit.round < rounds_->next();
}

void NodeActor::GiveTables(Context& context) {
  for (const auto& [first, table] : tables_) {
    const absl::Status set = work_->SetTable(first, table);
    if (!set.ok()) return Fail(context, set);
  }
}

bool NodeActor::MeasuresNow() const {
  return MeasuresRound(config_->outer, encoded_);
}

// Every codec encodes and decodes what is measured.
Duration NodeActor::EncodingCost() const {
  const double each = work_->Cost(WorkKind::kEncode).seconds();
  const double codecs = MeasuresNow() ? static_cast<double>(TableCodecs(*config_).size()) : 0;
  return Duration::Seconds(each * (1 + 2 * codecs));
}

// Before all else that is said of the round, so that its commit finds everybody's.
void NodeActor::SendStatistics(Context& context, int64_t round) {
  if (!results_->statistics) return;
  DeltaStatistics said = *std::move(results_->statistics);
  said.stage = stage_;
  said.round = round;
  Send(context, options_.coordinator, said);
  said_[round] = std::move(said);
}

}  // namespace skerry
