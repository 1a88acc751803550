// The clocks of a step's nodes brought together (step_paths.h).
#include <algorithm>
#include <limits>

#include "coordinator/step_paths.h"

namespace skerry {
namespace {

constexpr double kMicro = 1e-6;
using Pair = std::pair<std::string, std::string>;

// Every task with times of its node's clock.
std::vector<PathTask> OnOwnClocks(const std::map<std::string, StepTrace>& traces) {
  std::vector<PathTask> tasks;
  // Seconds since the first node's beginning: clocks may be days apart, and a double holds fewer
  // digits.
  const int64_t zero_us = traces.empty() ? 0 : traces.begin()->second.began_us;
  for (const auto& [node, trace] : traces) {
    const auto began_us = trace.began_us - zero_us;
    for (const TracedTask& task : trace.tasks) {
      tasks.push_back({node, task.kind, task.microbatch, task.attempt, task.hop,
                       kMicro * static_cast<double>(began_us + task.ready_us),
                       kMicro * static_cast<double>(began_us + task.start_us),
                       kMicro * static_cast<double>(began_us + task.end_us)});
    }
  }
  return tasks;
}

// How long the fastest message of each pair seems to have been under way.
std::map<Pair, double> ShortestWays(const std::vector<PathTask>& tasks) {
  const TaskGraph graph(tasks);
  std::map<Pair, double> ways;
  for (size_t i = 0; i < tasks.size(); ++i) {
    const size_t source = graph.source(i);
    if (source == TaskGraph::kNone || tasks[source].node == tasks[i].node) continue;
    const double seems = tasks[i].ready_s - tasks[source].end_s;
    const auto [it, is_new] = ways.try_emplace({tasks[source].node, tasks[i].node}, seems);
    if (!is_new) it->second = std::min(it->second, seems);
  }
  return ways;
}

struct Tie {
  double round_trip_s = std::numeric_limits<double>::infinity();
  std::string to;
  double ahead_s = 0;  // the node's clock, of `to`'s
};

// Between `node` and those whose clocks are known: the tie of least uncertainty.
Tie BestTie(const std::map<Pair, double>& ways, const std::map<std::string, double>& known,
            const std::string& node) {
  constexpr double kOneWay = 1e6;  // worse than any round trip
  Tie best;
  for (const auto& [to, offset] : known) {
    const auto here = ways.find({to, node}), back = ways.find({node, to});
    Tie tie{best.round_trip_s, to, 0};
    if (here != ways.end() && back != ways.end()) {
      tie = {here->second + back->second, to, (here->second - back->second) / 2};
    } else if (here != ways.end()) {
      tie = {kOneWay, to, here->second};
    } else if (back != ways.end()) {
      tie = {kOneWay, to, -back->second};
    }
    if (tie.round_trip_s < best.round_trip_s) best = tie;
  }
  return best;
}

}  // namespace

std::vector<PathTask> OnOneClock(const std::map<std::string, StepTrace>& traces) {
  std::vector<PathTask> tasks = OnOwnClocks(traces);
  const std::map<Pair, double> ways = ShortestWays(tasks);
  std::map<std::string, double> ahead;  // of the first node's clock, by node
  std::map<std::string, StepTrace>::size_type left = traces.size();
  while (left-- > 0) {
    std::string next;
    Tie best;
    for (const auto& [node, trace] : traces) {
      if (ahead.contains(node)) continue;
      const Tie tie = BestTie(ways, ahead, node);
      if (!next.empty() && !(tie.round_trip_s < best.round_trip_s)) continue;
      next = node;
      best = tie;
    }
    // Without any message between them: as if both had begun at once.
    const double began_apart =
        1e-6 * static_cast<double>(traces.at(next).began_us - traces.begin()->second.began_us);
    ahead[next] = best.to.empty() ? began_apart : ahead.at(best.to) + best.ahead_s;
  }
  double first = std::numeric_limits<double>::infinity();
  for (PathTask& task : tasks) {
    const double by = ahead.at(task.node);
    task.ready_s -= by, task.start_s -= by, task.end_s -= by;
    first = std::min(first, task.start_s);
  }
  for (PathTask& task : tasks) task.ready_s -= first, task.start_s -= first, task.end_s -= first;
  std::stable_sort(tasks.begin(), tasks.end(),
                   [](const PathTask& a, const PathTask& b) { return a.end_s < b.end_s; });
  return tasks;
}

}  // namespace skerry
