#include "coordinator/step_paths.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>

namespace skerry {
namespace {

using Kind = TracedTask::Kind;

constexpr double kSame = 20e-6;  // seconds: equal but for the time between two jobs

}  // namespace

const char* TaskName(Kind kind) {
  constexpr std::array kNames = {"first forward", "forward", "loss", "backward", "optimizer"};
  return kNames[static_cast<size_t>(kind)];
}

double TracedStep::measured_s() const {
  double first = tasks.empty() ? 0 : tasks.front().start_s, last = first;
  for (const PathTask& task : tasks) {
    first = std::min(first, task.start_s);
    last = std::max(last, task.end_s);
  }
  return last - first;
}

TaskGraph::TaskGraph(const std::vector<PathTask>& tasks)
    : source_(tasks.size(), kNone), before_(tasks.size(), kNone), in_order_(tasks.size()) {
  // (microbatch, attempt) → how far its forward way went; phase and hop → who did it.
  using Attempt = std::pair<int32_t, int32_t>;
  std::map<Attempt, int32_t> last_hop;
  std::map<std::pair<Attempt, std::pair<Kind, int32_t>>, size_t> done;
  for (size_t i = 0; i < tasks.size(); ++i) {
    in_order_[i] = i;
    const PathTask& task = tasks[i];
    if (task.kind == Kind::kOptimizer) continue;
    const Attempt attempt{task.microbatch, task.attempt};
    const bool forward = task.kind == Kind::kStart || task.kind == Kind::kForward;
    if (forward) last_hop[attempt] = std::max(last_hop[attempt], task.hop);
    done.emplace(std::pair{attempt, std::pair{forward ? Kind::kForward : task.kind, task.hop}}, i);
  }
  const auto find = [&](const Attempt& attempt, Kind kind, int32_t hop) {
    const auto it = done.find({attempt, {kind, hop}});
    return it == done.end() ? kNone : it->second;
  };
  for (size_t i = 0; i < tasks.size(); ++i) {
    const PathTask& task = tasks[i];
    const Attempt attempt{task.microbatch, task.attempt};
    if (task.kind == Kind::kForward) source_[i] = find(attempt, Kind::kForward, task.hop - 1);
    if (task.kind == Kind::kLoss) source_[i] = find(attempt, Kind::kForward, last_hop[attempt]);
    if (task.kind != Kind::kBackward) continue;
    source_[i] = task.hop < last_hop[attempt] ? find(attempt, Kind::kBackward, task.hop + 1)
                                              : find(attempt, Kind::kLoss, 0);
  }
  std::stable_sort(in_order_.begin(), in_order_.end(), [&](size_t a, size_t b) {
    return tasks[a].start_s != tasks[b].start_s ? tasks[a].start_s < tasks[b].start_s
                                                : tasks[a].end_s < tasks[b].end_s;
  });
  std::map<std::string, size_t> previous;
  for (const size_t i : in_order_) {
    const auto [it, is_first] = previous.try_emplace(tasks[i].node, i);
    if (is_first) continue;
    before_[i] = it->second;
    it->second = i;
  }
}

namespace {

// The next part back from `task`, and the task before it; kNone: the step begins here.
size_t StepBack(const std::vector<PathTask>& tasks, const TaskGraph& graph, size_t i,
                std::vector<PathPart>* path) {
  const PathTask& task = tasks[i];
  const size_t before = graph.before(i), source = graph.source(i);
  const double free_s = before == TaskGraph::kNone ? -1e300 : tasks[before].end_s;
  if (source != TaskGraph::kNone && task.ready_s > free_s) {
    if (task.start_s > task.ready_s)
      path->push_back(
          {PathPart::What::kQueued, task.node, task.node, i, task.ready_s, task.start_s});
    path->push_back({PathPart::What::kWay, tasks[source].node, task.node, i, tasks[source].end_s,
                     task.ready_s});
    return source;
  }
  if (before != TaskGraph::kNone && task.start_s > free_s + kSame)
    path->push_back({PathPart::What::kQueued, task.node, task.node, i, free_s, task.start_s});
  return before;
}

}  // namespace

std::vector<PathPart> CriticalPath(const std::vector<PathTask>& tasks) {
  std::vector<PathPart> path;
  if (tasks.empty()) return path;
  const TaskGraph graph(tasks);
  const auto last = std::max_element(
      tasks.begin(), tasks.end(), [](const auto& a, const auto& b) { return a.end_s < b.end_s; });
  std::set<size_t> seen;  // clocks that disagree may make a circle of what caused what
  for (auto i = static_cast<size_t>(last - tasks.begin());
       i != TaskGraph::kNone && seen.insert(i).second;) {
    path.push_back(
        {PathPart::What::kComputing, tasks[i].node, "", i, tasks[i].start_s, tasks[i].end_s});
    i = StepBack(tasks, graph, i, &path);
  }
  std::reverse(path.begin(), path.end());
  return path;
}

std::pair<std::string, std::string> ShareOf(const PathPart& part) {
  const bool way = part.what == PathPart::What::kWay && part.from != part.to;
  const bool computing = part.what == PathPart::What::kComputing;
  return {part.from, way ? part.to : computing ? "" : "queued"};
}

std::map<std::pair<std::string, std::string>, double> SharesOf(const std::vector<PathPart>& path) {
  std::map<std::pair<std::string, std::string>, double> shares;
  for (const PathPart& part : path) shares[ShareOf(part)] += part.end_s - part.start_s;
  return shares;
}

double StepSecondsIf(const std::vector<PathTask>& tasks, const std::string& from,
                     const std::string& to, double factor) {
  const TaskGraph graph(tasks);
  std::vector<double> end(tasks.size(), 0);
  double first = 1e300, last = -1e300;
  for (const size_t i : graph.in_order()) {
    const PathTask& task = tasks[i];
    const size_t before = graph.before(i), source = graph.source(i);
    double start = before == TaskGraph::kNone ? task.start_s : end[before];
    double was_free = before == TaskGraph::kNone ? task.start_s : tasks[before].end_s;
    if (source != TaskGraph::kNone) {
      const std::string& sender = tasks[source].node;
      const bool named = (sender == from && task.node == to) || (sender == to && task.node == from);
      const double way = task.ready_s - tasks[source].end_s;
      const double ready = end[source] + (named ? way * factor : way);
      start = before == TaskGraph::kNone ? ready : std::max(start, ready);
      was_free = before == TaskGraph::kNone ? task.ready_s : std::max(was_free, task.ready_s);
    }
    // What else the device did in between takes as long.
    start += std::max(0.0, task.start_s - was_free);
    const double seconds = task.end_s - task.start_s;
    end[i] = start + (to.empty() && task.node == from ? seconds * factor : seconds);
    first = std::min(first, start);
    last = std::max(last, end[i]);
  }
  return tasks.empty() ? 0 : last - first;
}

std::vector<Remedy> Remedies(const std::vector<PathTask>& tasks) {
  constexpr size_t kMost = 5;
  std::vector<Remedy> remedies;
  std::set<std::pair<std::string, std::string>> tried;
  for (const auto& [share, seconds] : SharesOf(CriticalPath(tasks))) {
    auto [from, to] = share;
    if (to == "queued") continue;
    if (!to.empty() && to < from) std::swap(from, to);  // a way is one in both directions
    if (!tried.insert({from, to}).second) continue;
    remedies.push_back({from, to, StepSecondsIf(tasks, from, to, 0.5)});
  }
  std::stable_sort(remedies.begin(), remedies.end(),
                   [](const Remedy& a, const Remedy& b) { return a.step_s < b.step_s; });
  if (remedies.size() > kMost) remedies.resize(kMost);
  return remedies;
}

std::map<std::string, Idle> IdleTimes(const std::vector<PathTask>& tasks) {
  const TaskGraph graph(tasks);
  std::map<std::string, Idle> times;
  for (const size_t i : graph.in_order()) {
    const PathTask& task = tasks[i];
    Idle& idle = times[task.node];
    idle.busy_s += task.end_s - task.start_s;
    const size_t before = graph.before(i), source = graph.source(i);
    if (before == TaskGraph::kNone) continue;
    const double gap =
        std::min(task.start_s, std::max(task.ready_s, tasks[before].end_s)) - tasks[before].end_s;
    if (gap <= 0) continue;
    idle.idle_s += gap;
    if (source != TaskGraph::kNone) idle.for_node[tasks[source].node] += gap;
  }
  return times;
}

}  // namespace skerry
