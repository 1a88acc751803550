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

// The first round that it could take part in since it has its slot.
int64_t FirstRound(const RunState& state, const NodeId& node) {
  const Joiner* joiner = JoinerOf(*state.plan, node);
  return std::max(state.plan->start.round, joiner ? joiner->from_round : 0);
}

// What a codec leaves out adds up until it is sent: of top-k, which sends one value in 64, the
// message of who has been there for long is up to 64 times as long as a new replica's first. So the
// word of a much newer one is none.
bool Measures(const RunState& state, const NodeId& other, const NodeId& node, int64_t round) {
  constexpr int64_t kMemory = 64, kMedians = 3;  // as many as pass by default
  const int64_t others = round + 1 - FirstRound(state, other);
  return std::min(round + 1 - FirstRound(state, node), kMemory) <= kMedians * others;
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
    const bool left_out = std::find(screened.begin(), screened.end(), node) != screened.end();
    by += left_out && Measures(state, p.node, node, commit.round) ? 1 : 0;
  }
  return 2 * by > others ? by : 0;
}

// Rounds in a row that include `round`, up and down; `by`: the fewest others in one of them.
int WildRounds(const RunState& state, int32_t stage, int64_t round, const NodeId& node,
               size_t* by) {
  const int64_t first = FirstRound(state, node);
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
