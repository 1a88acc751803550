#include "sim/plan_gantt.h"

#include <algorithm>

#include "absl/strings/str_format.h"

namespace skerry {
namespace {

constexpr double kStepsShown = 2;
constexpr int kLeft = 190;   // pixels for names
constexpr int kWidth = 980;  // of the chart
constexpr int kRow = 16;
constexpr size_t kBarsMax = 20000;

struct Look {
  const char* colour;
  const char* text;
};

Look LookOf(TaskRecord::Kind kind) {
  switch (kind) {
    case TaskRecord::Kind::kBackward:
      return {"#4f81bd", "backward"};
    case TaskRecord::Kind::kLoss:
      return {"#c0504d", "loss"};
    case TaskRecord::Kind::kForward:
      return {"#9bbb59", "forward"};
    case TaskRecord::Kind::kStart:
      return {"#f79646", "first forward"};
    case TaskRecord::Kind::kStep:
      return {"#8064a2", "optimizer"};
  }
  return {"#888", ""};
}

// The optimizer's step is of all microbatches.
std::string NameOf(const TaskRecord& task) {
  const std::string name = LookOf(task.kind).text;
  if (task.kind == TaskRecord::Kind::kStep) return name;
  return name + absl::StrFormat(" of microbatch %d", task.microbatch);
}

}  // namespace

std::string GanttSvg(const ShownPlan& shown, const std::vector<std::string>& names) {
  const Workload& workload = shown.model.problem.workload;
  const double shown_s = std::max(kStepsShown * shown.evaluation.step_s, 1e-9);
  const int height = kRow * (workload.slots() + 3);
  std::string svg =
      absl::StrFormat("<svg viewBox=\"0 0 %d %d\" font-family=\"system-ui\" font-size=\"11\">\n",
                      kLeft + kWidth, height);
  for (int32_t slot = 0; slot < workload.slots(); ++slot) {
    const int32_t stage = workload.stage_of_slot[static_cast<size_t>(slot)];
    svg += absl::StrFormat(
        "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"%s\"/>"
        "<text x=\"4\" y=\"%d\">stage %d, node %s</text>\n",
        kLeft, kRow * slot, kWidth, kRow, stage % 2 == 0 ? "#f4f4f4" : "#e8e8e8",
        kRow * slot + kRow - 4, stage, names[static_cast<size_t>(slot)]);
  }
  size_t bars = 0;
  for (const TaskRecord& task : shown.records) {
    if (task.start_s >= shown_s || ++bars > kBarsMax) continue;
    const double x = kLeft + kWidth * task.start_s / shown_s;
    const double width = kWidth * (std::min(task.end_s, shown_s) - task.start_s) / shown_s;
    const Look look = LookOf(task.kind);
    svg += absl::StrFormat(
        "<rect x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=\"%s\" stroke=\"#fff\" "
        "stroke-width=\"0.4\"><title>%s, %.3f to %.3f s</title></rect>\n",
        x, kRow * task.slot + 2, std::max(width, 0.3), kRow - 4, look.colour, NameOf(task),
        task.start_s, task.end_s);
  }
  const int y = kRow * (workload.slots() + 1);
  svg += absl::StrFormat("<text x=\"%d\" y=\"%d\">0 s</text>", kLeft, y);
  svg += absl::StrFormat("<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%.3f s</text>\n",
                         kLeft + kWidth, y, shown_s);
  int x = kLeft;
  for (const auto kind :
       {TaskRecord::Kind::kStart, TaskRecord::Kind::kForward, TaskRecord::Kind::kLoss,
        TaskRecord::Kind::kBackward, TaskRecord::Kind::kStep}) {
    const Look look = LookOf(kind);
    svg += absl::StrFormat(
        "<rect x=\"%d\" y=\"%d\" width=\"10\" height=\"10\" fill=\"%s\"/>"
        "<text x=\"%d\" y=\"%d\">%s</text>\n",
        x, y + kRow - 9, look.colour, x + 14, y + kRow, look.text);
    x += 110;
  }
  return svg + "</svg>\n";
}

}  // namespace skerry
