#include "coordinator/wild_deltas.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "pipeline/plan/route.h"

namespace skerry {
namespace {

// With a message of one round: one of several may be long without being wild.
bool TookPart(const RoundCommit& commit, const NodeId& node) {
  for (size_t i = 0; i < commit.participants.size(); ++i) {
    if (commit.participants[i].node != node) continue;
    return commit.covered.empty() || commit.covered[i] == 1;
  }
  return false;
}

// By how many of the other participants it was left out in that round; 0 unless by most.
size_t ByMost(const RunState& state, const RoundCommit& commit, const NodeId& node) {
  const auto reports = state.applied.find({commit.stage, commit.round});
  if (reports == state.applied.end()) return 0;
  size_t others = 0, by = 0;
  for (const Participant& p : commit.participants) {
    if (p.node == node) continue;
    ++others;
    const auto report = reports->second.find(p.node);
    if (report == reports->second.end()) continue;
    const auto& screened = report->second.screened;
    by += std::find(screened.begin(), screened.end(), node) != screened.end() ? 1 : 0;
  }
  return 2 * by > others ? by : 0;
}

// Rounds in a row that include `round`, up and down; `by`: the fewest others in one of them.
int WildRounds(const RunState& state, int32_t stage, int64_t round, const NodeId& node,
               size_t* by) {
  const Joiner* joiner = JoinerOf(*state.plan, node);
  const int64_t first = std::max(state.plan->start.round, joiner ? joiner->from_round : 0);
  int rounds = 0;
  const auto counts = [&](int64_t at) {  // whether the row goes on beyond it
    const auto commit = state.commits.find({stage, at});
    if (commit == state.commits.end() || at < first) return false;
    if (!TookPart(commit->second, node)) return true;
    const size_t most = ByMost(state, commit->second, node);
    if (most == 0) return false;
    *by = rounds == 0 ? most : std::min(*by, most);
    return ++rounds < kWildRounds;
  };
  if (!counts(round)) return rounds;
  for (int64_t at = round - 1; counts(at);) --at;
  for (int64_t at = round + 1; rounds < kWildRounds && counts(at);) ++at;
  return rounds;
}

}  // namespace

std::optional<WildSender> FindWildSender(const RunState& state, const RoundApplied& said) {
  if (!state.plan) return std::nullopt;
  for (const NodeId& node : said.screened) {
    const auto slot = SlotOf(*state.plan, node);
    if (!slot || slot->stage != said.stage || IsDead(*state.plan, node)) continue;
    size_t by = 0;
    if (WildRounds(state, said.stage, said.round, node, &by) < kWildRounds) continue;
    return WildSender{node, absl::StrFormat("its deltas were left out as wild in %d rounds in a "
                                            "row, by %d others of its stage or more",
                                            kWildRounds, by)};
  }
  return std::nullopt;
}

}  // namespace skerry
