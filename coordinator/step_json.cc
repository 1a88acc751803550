// A traced step as an event (step_paths.h).
//
// {"step", "plan", "predicted_s", "cut", "nodes": [id…], "tasks": [[node, kind, microbatch,
// attempt, hop, ready, start, end]…], "predicted": the same}: nodes by index, times in
// microseconds.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "coordinator/step_paths.h"

namespace skerry {
namespace {

using Json = nlohmann::json;

int64_t Micros(double seconds) {
  return std::llround(seconds * 1e6);
}

// Which microbatches fit: those of the critical path first, then by number.
std::set<int32_t> Kept(const std::vector<PathTask>& tasks, size_t tasks_max) {
  std::map<int32_t, size_t> sizes;
  for (const PathTask& task : tasks) ++sizes[task.microbatch];
  std::vector<int32_t> order = {-1};  // optimizers
  for (const PathPart& part : CriticalPath(tasks)) order.push_back(tasks[part.task].microbatch);
  for (const auto& [microbatch, size] : sizes) order.push_back(microbatch);
  std::set<int32_t> kept;
  size_t used = 0;
  for (const int32_t microbatch : order) {
    if (kept.contains(microbatch) || used + sizes[microbatch] > tasks_max) continue;
    used += sizes[microbatch];
    kept.insert(microbatch);
  }
  return kept;
}

Json TasksJson(const std::vector<PathTask>& tasks, const std::set<int32_t>& kept,
               std::vector<std::string>* nodes) {
  Json list = Json::array();
  for (const PathTask& task : tasks) {
    if (!kept.contains(task.microbatch)) continue;
    auto it = std::find(nodes->begin(), nodes->end(), task.node);
    if (it == nodes->end()) it = nodes->insert(it, task.node);
    list.push_back({it - nodes->begin(), static_cast<int>(task.kind), task.microbatch, task.attempt,
                    task.hop, Micros(task.ready_s), Micros(task.start_s), Micros(task.end_s)});
  }
  return list;
}

std::vector<PathTask> TasksOf(const Json& list, const std::vector<std::string>& nodes) {
  constexpr size_t kFields = 8;
  std::vector<PathTask> tasks;
  if (!list.is_array()) return tasks;
  for (const Json& row : list) {
    const bool whole = row.is_array() && row.size() == kFields &&
                       std::all_of(row.begin(), row.end(),
                                   [](const Json& field) { return field.is_number_integer(); });
    if (!whole) continue;
    const auto node = row[0].get<int64_t>(), kind = row[1].get<int64_t>();
    if (node < 0 || node >= static_cast<int64_t>(nodes.size()) || kind < 0 ||
        kind > static_cast<int64_t>(TracedTask::Kind::kLast)) {
      continue;
    }
    const auto seconds = [&](size_t i) {
      return 1e-6 * static_cast<double>(row[i].get<int64_t>());
    };
    tasks.push_back({nodes[static_cast<size_t>(node)], static_cast<TracedTask::Kind>(kind),
                     row[2].get<int32_t>(), row[3].get<int32_t>(), row[4].get<int32_t>(),
                     seconds(5), seconds(6), seconds(7)});
  }
  return tasks;
}

int64_t Integer(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_number_integer() ? it->get<int64_t>() : 0;
}

}  // namespace

Json TraceJson(const TracedStep& step, size_t tasks_max) {
  const std::set<int32_t> kept = Kept(step.tasks, tasks_max);
  std::vector<std::string> nodes;
  Json tasks = TasksJson(step.tasks, kept, &nodes);
  Json predicted = TasksJson(step.predicted, kept, &nodes);
  Json event = {{"step", step.step},
                {"plan", step.plan_version},
                {"measured_us", Micros(step.measured_s())},
                {"predicted_us", Micros(step.predicted_s)},
                {"nodes", nodes},
                {"tasks", std::move(tasks)},
                {"predicted", std::move(predicted)}};
  if (event["tasks"].size() < step.tasks.size()) event["cut"] = true;
  return event;
}

TracedStep TraceOf(const Json& event) {
  TracedStep step;
  if (!event.is_object()) return step;
  step.step = Integer(event, "step");
  step.plan_version = Integer(event, "plan");
  step.predicted_s = 1e-6 * static_cast<double>(Integer(event, "predicted_us"));
  step.is_cut = event.contains("cut");
  std::vector<std::string> nodes;
  const Json names = event.value("nodes", Json::array());
  for (const Json& name : names) nodes.push_back(name.is_string() ? name.get<std::string>() : "");
  step.tasks = TasksOf(event.value("tasks", Json::array()), nodes);
  step.predicted = TasksOf(event.value("predicted", Json::array()), nodes);
  return step;
}

}  // namespace skerry
