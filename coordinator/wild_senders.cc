#include "coordinator/wild_senders.h"

#include <algorithm>

namespace skerry {
namespace {

constexpr int64_t kRoundsBack = 16;  // in which those must lie
constexpr size_t kOthersMin = 2;     // of one other nobody can say which of the two is wild

bool IsLeftOutByMost(const RunState& state, const RoundCommit& commit, const NodeId& node) {
  const auto reports = state.applied.find({commit.stage, commit.round});
  if (reports == state.applied.end()) return false;
  size_t others = 0, by = 0;
  for (const Participant& p : commit.participants) {
    if (p.node == node) continue;
    ++others;
    const auto report = reports->second.find(p.node);
    if (report == reports->second.end()) continue;
    const std::vector<NodeId>& named = report->second.screened;
    by += std::count(named.begin(), named.end(), node) > 0;
  }
  return others >= kOthersMin && 2 * by > others;
}

bool IsWild(const RunState& state, int32_t stage, int64_t round, const NodeId& node) {
  int rounds = 0;
  for (int64_t r = round; r > round - kRoundsBack && rounds < kWildRounds; --r) {
    const auto commit = state.commits.find({stage, r});
    if (commit == state.commits.end()) return false;
    const auto& in = commit->second.participants;
    const auto at =
        std::find_if(in.begin(), in.end(), [&](const Participant& p) { return p.node == node; });
    if (at == in.end()) continue;
    const auto index = static_cast<size_t>(at - in.begin());
    const std::vector<int32_t>& covered = commit->second.covered;
    if (!covered.empty() && covered[index] > 1) continue;
    if (!IsLeftOutByMost(state, commit->second, node)) return false;
    ++rounds;
  }
  return rounds == kWildRounds;
}

}  // namespace

std::vector<NodeId> WildSenders(const RunState& state, int32_t stage, int64_t round) {
  std::vector<NodeId> wild;
  const auto commit = state.commits.find({stage, round});
  if (commit == state.commits.end()) return wild;
  for (const Participant& p : commit->second.participants) {
    if (IsWild(state, stage, round, p.node)) wild.push_back(p.node);
  }
  return wild;
}

}  // namespace skerry
