// What the device of every node did in one step: as predicted above, as it was below, with the
// chain of tasks that ended last.
#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "common/status.h"
#include "coordinator/chart.h"
#include "coordinator/page.h"
#include "coordinator/report_page.h"

namespace skerry {
namespace {

using Kind = TracedTask::Kind;

constexpr double kNames = 92;      // room for ids
constexpr double kRow = 34;        // of a node
constexpr double kThin = 7;        // predicted
constexpr double kBar = 15;        // as it was
constexpr double kThinnest = 0.8;  // still seen where a task is much shorter than a step
constexpr size_t kRowsMax = 48;

constexpr std::array<const char*, 5> kStyles = {"gs", "gf", "gl", "gb", "go"};

struct Rows {
  std::vector<std::string> nodes;
  std::map<std::string, double> top;
};

// Stage by stage, replica by replica; who is in no stage any more, last.
Rows RowsOf(const RunReport& report, const TracedStep& step) {
  Rows rows;
  const auto add = [&](const std::string& node) {
    if (rows.nodes.size() >= kRowsMax || rows.top.contains(node)) return;
    rows.top[node] = 4 + kRow * static_cast<double>(rows.nodes.size());
    rows.nodes.push_back(node);
  };
  std::map<std::string, bool> traced;
  for (const PathTask& task : step.tasks) traced[task.node] = true;
  for (const ReportStage& stage : report.stages) {
    for (const std::string& node : stage.replicas) {
      if (traced.contains(node)) add(node);
    }
  }
  for (const auto& [node, yes] : traced) add(node);
  return rows;
}

std::string Title(const PathTask& task) {
  std::string title = TaskName(task.kind);
  if (task.microbatch >= 0) title += absl::StrFormat(" of microbatch %d", task.microbatch);
  if (task.attempt > 0) title += absl::StrFormat(", attempt %d", task.attempt + 1);
  title += absl::StrFormat(": %.1f ms from %.1f ms on", 1e3 * (task.end_s - task.start_s),
                           1e3 * task.start_s);
  if (task.start_s - task.ready_s > 1e-3) {
    title +=
        absl::StrFormat(", its input was here %.1f ms before", 1e3 * (task.start_s - task.ready_s));
  }
  return title;
}

std::string Bars(const std::vector<PathTask>& tasks, const Rows& rows, const Axis& x,
                 bool predicted) {
  std::string svg;
  for (const PathTask& task : tasks) {
    const auto row = rows.top.find(task.node);
    if (row == rows.top.end()) continue;
    const double left = x.At(task.start_s), right = x.At(task.end_s);
    svg += absl::StrFormat(
        "<rect class=\"%s%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%g\"><title>%s%s"
        "</title></rect>",
        kStyles[static_cast<size_t>(task.kind)], predicted ? " gp" : "", left,
        row->second + (predicted ? 0 : kThin + 2), std::max(right - left, kThinnest),
        predicted ? kThin : kBar, predicted ? "predicted: " : "", EscapeHtml(Title(task)));
  }
  return svg;
}

std::string Chain(const TracedStep& step, const Rows& rows, const Axis& x) {
  std::string svg, points;
  for (const PathPart& part : CriticalPath(step.tasks)) {
    const std::string& to = part.what == PathPart::What::kWay ? part.to : part.from;
    const auto from_row = rows.top.find(part.from), to_row = rows.top.find(to);
    if (from_row == rows.top.end() || to_row == rows.top.end()) continue;
    const double middle = kThin + 2 + kBar / 2;
    points += absl::StrFormat("%.1f,%.1f %.1f,%.1f ", x.At(part.start_s), from_row->second + middle,
                              x.At(part.end_s), to_row->second + middle);
  }
  if (points.empty()) return "";
  return "<polyline class=\"gchain\" points=\"" + points + "\"/>";
}

std::string Legend() {
  std::string html = "<div class=\"legend\">";
  for (const Kind kind :
       {Kind::kStart, Kind::kForward, Kind::kLoss, Kind::kBackward, Kind::kOptimizer}) {
    html += absl::StrFormat("<span class=\"key k%s\">%s</span>", kStyles[static_cast<size_t>(kind)],
                            TaskName(kind));
  }
  return html +
         "<span class=\"key kgchain\">the chain that ended last</span><span>thin and pale: as "
         "predicted</span></div>";
}

std::string Words(const TracedStep& step) {
  std::string text = absl::StrFormat("Step %d took %.3f s from its first task to its last",
                                     step.step, step.measured_s());
  if (step.predicted_s > 0) {
    text += absl::StrFormat("; the plan predicts %.3f s a step", step.predicted_s);
  }
  const std::vector<Remedy> remedies = Remedies(step.tasks);
  if (!remedies.empty()) {
    const Remedy& best = remedies.front();
    const std::string what = best.to.empty() ? "computing of " + best.from
                                             : "way between " + best.from + " and " + best.to;
    text += absl::StrFormat(". What would help most: the %s in half the time, then %.3f s",
                            EscapeHtml(what), best.step_s);
  }
  return "<p>" + text + ".</p>";
}

}  // namespace

std::string GanttStyle() {
  return R"(
.gs { fill: var(--valid); } .gf { fill: var(--train); } .gl { fill: var(--bad); }
.gb { fill: var(--train); fill-opacity: .55; } .go { fill: var(--ref); } .gp { opacity: .4; }
.gchain { stroke: var(--text); stroke-width: 1.3; opacity: .75; }
.key.kgs::before { background: var(--valid); } .key.kgl::before { background: var(--bad); }
.key.kgb::before { opacity: .55; } .key.kgo::before { background: var(--ref); }
.key.kgchain::before { height: 0; border-radius: 0; border-top: 2px solid var(--text);
  width: 18px; background: none; vertical-align: 4px; }
.ganttid { fill: var(--text); font: 12.5px ui-monospace, "DejaVu Sans Mono", monospace; }
.scroll .tasks { min-width: 640px; }
)";
}

std::string GanttChart(const RunReport& report) {
  if (!report.trace || report.trace->tasks.empty()) return "";
  const TracedStep& step = *report.trace;
  const Rows rows = RowsOf(report, step);
  double end_s = 0;
  for (const PathTask& task : step.tasks) end_s = std::max(end_s, task.end_s);
  for (const PathTask& task : step.predicted) end_s = std::max(end_s, task.end_s);
  const Axis x{0, 1e3 * end_s, kNames, kChartWidth - kChartRight};
  const Axis seconds{0, end_s, kNames, kChartWidth - kChartRight};
  const double bottom = 8 + kRow * static_cast<double>(rows.nodes.size());
  std::string svg = absl::StrFormat(
      "<svg class=\"tasks\" viewBox=\"0 0 %g %g\" role=\"img\" aria-label=\"Tasks of every node in "
      "step %d\">",
      kChartWidth, bottom + 26, step.step);
  for (const std::string& node : rows.nodes) {
    const double y = rows.top.at(node);
    svg += absl::StrFormat(
        "<line class=\"grid\" x1=\"0\" x2=\"%g\" y1=\"%.1f\" y2=\"%.1f\"/>"
        "<text class=\"ganttid\" x=\"0\" y=\"%.1f\">%s</text>",
        kChartWidth, y + kRow - 6, y + kRow - 6, y + 18, EscapeHtml(node));
  }
  svg += XTicks(x, bottom, " ms") + Bars(step.predicted, rows, seconds, true) +
         Bars(step.tasks, rows, seconds, false) + Chain(step, rows, seconds) + "</svg>";
  return Words(step) + Legend() + Scrolled("tasks of nodes", svg);
}

}  // namespace skerry
