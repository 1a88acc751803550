#include "sim/sum_watch.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <variant>

#include "absl/strings/str_format.h"
#include "coordinator/record_json.h"
#include "coordinator/work_judge.h"

namespace skerry {

void SumTally::Add(const SumTally& other) {
  told_true += other.told_true;
  accused += other.accused;
  upheld += other.upheld;
  not_shown += other.not_shown;
  disputed += other.disputed;
  states_differ += other.states_differ;
  proofs += other.proofs;
  work_checked += other.work_checked;
  work_doubted += other.work_doubted;
  work_out += other.work_out;
  liars += other.liars;
  liars_found += other.liars_found;
  liars_dropped += other.liars_dropped;
  false_rounds += other.false_rounds;
  false_rounds_max = std::max(false_rounds_max, other.false_rounds_max);
}

void SumWatch::OnDelivered(Instant, const NodeId& from, const NodeId& to, const Message& message) {
  if (to != coordinator_) return;
  tally_.work_checked += std::holds_alternative<WorkChecked>(message);
  if (const auto* checked = std::get_if<SumChecked>(&message)) {
    tally_.told_true += checked->verdict == SumVerdict::kTrue;
  } else if (const auto* held = std::get_if<SumsHeld>(&message)) {
    const auto lie = lies_.find(from);
    if (lie == lies_.end()) return;
    const std::pair round(held->stage, held->round);
    // What it says last of a round counts: a newer shape may leave it without a part.
    if (held->statement.states.empty()) {
      lie->second.summed.erase(round);
    } else {
      lie->second.summed.insert(round);
    }
  }
}

void SumWatch::OnPersist(Instant at, const NodeId& process, const std::string& record) {
  if (process != coordinator_) return;
  const bool is_proof = record.find(R"("kind":"proof")") != record.npos;
  const bool is_commit = record.find(R"("kind":"commit")") != record.npos;
  const bool is_life = record.find(R"("kind":"life")") != record.npos;
  if (!is_proof && !is_commit && !is_life) return;
  const auto parsed = nlohmann::json::parse(record, nullptr, false);
  if (is_commit) {
    const auto commit = parsed.at("commit").get<RoundCommit>();
    for (const Participant& p : commit.participants) {
      const auto lie = lies_.find(p.node);
      if (lie == lies_.end() || lie->second.is_out) continue;
      lie->second.rounds += lie->second.summed.contains({commit.stage, commit.round});
    }
    return;
  }
  const auto node = parsed.at("node").get<NodeId>();
  const auto lie = lies_.find(node);
  if (is_life) {
    tally_.work_out += parsed.value("why", "").starts_with(WorkJudge::kVerdict);
    if (lie != lies_.end()) lie->second.is_out = parsed.value("evicted", false);
    return;
  }
  ++tally_.proofs;
  if (lie != lies_.end()) {
    lie->second.is_proven = true;
  } else if (wrong_.empty()) {
    wrong_ = absl::StrFormat("at %.3f s there is a proof against %s, who is honest: %s",
                             (at - Instant()).seconds(), node.Short(),
                             parsed.at("found").get<std::string>());
  }
}

void SumWatch::OnEvent(Instant, const NodeId& who, const std::string& kind, const std::string&) {
  if (who != coordinator_) return;
  tally_.accused += kind == "sum_accused";
  tally_.upheld += kind == "sum_upheld";
  tally_.not_shown += kind == "sum_not_shown";
  tally_.disputed += kind == "sum_disputed";
  tally_.states_differ += kind == "sum_state_differs";
  tally_.work_doubted += kind == "work_doubted" || kind == "work_disputed";
}

SumTally SumWatch::tally() const {
  SumTally tally = tally_;
  for (const auto& [node, lie] : lies_) {
    tally.liars += lie.rounds > 0;
    tally.liars_found += lie.is_proven;
    tally.liars_dropped += lie.is_out && !lie.is_proven;
    tally.false_rounds += lie.rounds;
    tally.false_rounds_max = std::max(tally.false_rounds_max, lie.rounds);
  }
  return tally;
}

std::string SumWatch::WhatIsWrong(int64_t false_rounds_max) const {
  if (!wrong_.empty()) return wrong_;
  for (const auto& [node, lie] : lies_) {
    if (lie.is_out || lie.rounds <= false_rounds_max) continue;
    return absl::StrFormat("%s falsified sums of %d rounds and is in the run still", node.Short(),
                           lie.rounds);
  }
  return "";
}

}  // namespace skerry
