#include <algorithm>
#include <array>
#include <cmath>

#include "common/status.h"
#include "coordinator/chart.h"
#include "coordinator/page.h"
#include "sim/run_report.h"

namespace skerry {
namespace {

constexpr double kRow = 40, kBar = 16, kTop = 6;
constexpr double kLane = 4.5;  // of transfers, below the bars
constexpr size_t kLanes = 4;
constexpr int kColours = 8;
constexpr double kThinnest = 0.09;  // percent: still seen where a job is much shorter than a step

struct Kind {
  const char* style;
  const char* name;
};
constexpr std::array<Kind, 7> kWorks = {{{"f", "forward"},
                                         {"l", "head and loss"},
                                         {"b", "backward"},
                                         {"o", "optimizer"},
                                         {"e", "encode delta"},
                                         {"a", "apply round"},
                                         {"x", "other"}}};
constexpr std::array<Kind, 3> kCargos = {
    {{"ta", "activation"}, {"tg", "gradient"}, {"td", "delta"}}};

// Shares of the window in percent: the drawing may be stretched without stretching its text.
class Window {
 public:
  explicit Window(const RunTrace& trace)
      : start_s_(trace.window_start_s()), span_s_(trace.window_end_s() - trace.window_start_s()) {}
  double At(double s) const { return 100 * std::clamp((s - start_s_) / span_s_, 0.0, 1.0); }
  double start_s() const { return start_s_; }
  double span_s() const { return span_s_; }

 private:
  double start_s_, span_s_;
};

std::string Rect(double x, double y, double width, double height, const std::string& style,
                 const std::string& title) {
  return absl::StrFormat(
      "<rect class=\"%s\" x=\"%.3f%%\" y=\"%g\" width=\"%.3f%%\" height=\"%g\">"
      "<title>%s</title></rect>",
      style, x, y, std::max(width, kThinnest), height, title);
}

std::string Bars(const RunTrace& trace, const Window& window) {
  std::string svg;
  for (const TraceBar& bar : trace.bars()) {
    const Kind& kind = kWorks[static_cast<size_t>(bar.work)];
    std::string style = kind.style, title = kind.name;
    if (bar.microbatch >= 0) {
      style += absl::StrFormat(" m%d", bar.microbatch % kColours);
      title += absl::StrFormat(" of microbatch %d, step %d", bar.microbatch, bar.step);
    }
    title += absl::StrFormat(": %.3g s", bar.end_s - bar.start_s);
    svg += Rect(window.At(bar.start_s), kTop + kRow * bar.row,
                window.At(bar.end_s) - window.At(bar.start_s), kBar, style, title);
  }
  return svg;
}

// Every transfer in the first lane of its sender that is free, the last lane when none is.
std::string Transfers(const RunTrace& trace, const Window& window) {
  std::vector<TraceTransfer> all = trace.transfers();
  std::stable_sort(all.begin(), all.end(), [](const TraceTransfer& a, const TraceTransfer& b) {
    return a.start_s < b.start_s;
  });
  std::vector<std::array<double, kLanes>> busy_until(trace.rows().size());
  std::string svg = "<g class=\"transfers\">";
  for (const TraceTransfer& t : all) {
    auto& lanes = busy_until[static_cast<size_t>(t.row)];
    size_t lane = 0;
    while (lane + 1 < kLanes && lanes[lane] > t.start_s) ++lane;
    lanes[lane] = t.end_s;
    const Kind& kind = kCargos[static_cast<size_t>(t.cargo)];
    const bool delta = t.cargo == TraceCargo::kDelta;
    const std::string title = absl::StrFormat(
        "%s of %s %d, %s %d, to node%d: %s in %.3g s", kind.name, delta ? "stage" : "microbatch",
        t.microbatch, delta ? "round" : "step", t.step, t.to,
        HumanBytes(static_cast<double>(t.bytes)), t.end_s - t.start_s);
    svg += Rect(window.At(t.start_s), kTop + kRow * t.row + kBar + 1 + kLane * double(lane),
                window.At(t.end_s) - window.At(t.start_s), kLane - 1, kind.style, title);
  }
  return svg + "</g>";
}

std::string Marks(const RunTrace& trace, const Window& window) {
  std::string svg;
  for (const TraceMark& mark : trace.marks()) {
    if (mark.at_s < trace.window_start_s() || mark.at_s > trace.window_end_s()) continue;
    const auto row = std::find_if(trace.rows().begin(), trace.rows().end(),
                                  [&](const TraceRow& r) { return r.node == mark.node; });
    const bool everybody = mark.node == 0;
    if (!everybody && row == trace.rows().end()) continue;
    const double top = everybody ? 0 : kTop + kRow * double(row - trace.rows().begin()) - 3;
    const double bottom = everybody ? kTop + kRow * double(trace.rows().size()) : top + kRow;
    svg += absl::StrFormat(
        "<line class=\"mark bad\" x1=\"%.3f%%\" x2=\"%.3f%%\" y1=\"%g\" y2=\"%g\"><title>%s: %s at "
        "%.2f s</title></line>",
        window.At(mark.at_s), window.At(mark.at_s), top, bottom,
        everybody ? "coordinator" : absl::StrFormat("node%d", mark.node), EscapeHtml(mark.what),
        mark.at_s);
  }
  return svg;
}

std::string Grid(const RunTrace& trace, const Window& window, double bottom) {
  std::string svg;
  const double step = NiceStep(window.span_s(), 12);
  const double end_s = window.start_s() + window.span_s();
  for (double k = std::ceil(window.start_s() / step); k * step < end_s; ++k) {
    const double s = k * step;
    svg += absl::StrFormat(
        "<line class=\"grid\" x1=\"%.3f%%\" x2=\"%.3f%%\" y1=\"0\" y2=\"%g\"/>"
        "<text class=\"tick\" x=\"%.3f%%\" y=\"%g\" text-anchor=\"middle\">%g s</text>",
        window.At(s), window.At(s), bottom, window.At(s), bottom + 16, s);
  }
  for (size_t row = 1; row < trace.rows().size(); ++row) {
    if (trace.rows()[row].stage == trace.rows()[row - 1].stage) continue;
    const double y = kTop + kRow * double(row) - 4;
    svg += absl::StrFormat("<line class=\"stageline\" x1=\"0\" x2=\"100%%\" y1=\"%g\" y2=\"%g\"/>",
                           y, y);
  }
  return svg;
}

std::string Names(const RunPicture& picture, double height) {
  std::string html = absl::StrFormat("<div class=\"names\" style=\"height:%gpx\">", height);
  for (const TraceRow& row : picture.trace->rows()) {
    html += absl::StrFormat(
        "<div><b>%d·%d</b> node%d<br><span class=\"muted\">%s</span></div>", row.stage, row.replica,
        row.node,
        EscapeHtml(picture.run->options().nodes[static_cast<size_t>(row.node) - 1].region));
  }
  return html + "</div>";
}

template <size_t n>
std::string Keys(const std::array<Kind, n>& kinds) {
  std::string html;
  for (const Kind& kind : kinds) {
    html += absl::StrFormat("<span class=\"key k-%s\">%s</span>", kind.style, kind.name);
  }
  return html;
}

}  // namespace

std::string GanttSection(const RunPicture& picture) {
  const RunTrace& trace = *picture.trace;
  if (trace.bars().empty() || trace.window_end_s() <= trace.window_start_s()) return "";
  const Window window(trace);
  const double bottom = kTop + kRow * double(trace.rows().size());
  std::string html =
      "<input type=\"checkbox\" id=\"by-mb\"><label for=\"by-mb\">colour by microbatch</label>"
      "<input type=\"checkbox\" id=\"with-tr\" checked><label for=\"with-tr\">transfers</label>"
      "<span class=\"zoom\"><button type=\"button\" data-zoom=\"0.5\" aria-label=\"narrower\">−"
      "</button><button type=\"button\" data-zoom=\"2\" aria-label=\"wider\">+</button>"
      "<button type=\"button\" data-zoom=\"0\">fit</button></span>"
      "<div class=\"legend\">";
  html += Keys(kWorks) + Keys(kCargos) + "</div><div class=\"gantt\">";
  html += Names(picture, bottom);
  html += absl::StrFormat(
      "<div class=\"scroll\"><svg class=\"bars\" style=\"height:%gpx\" role=\"img\" "
      "aria-label=\"Work of every node over time\">",
      bottom + 24);
  html += Grid(trace, window, bottom) + Bars(trace, window) + Transfers(trace, window) +
          Marks(trace, window) + "</svg></div></div>";
  std::string note =
      absl::StrFormat("inner steps %d to about %d, %.2f to %.2f s; rows are stage·replica",
                      trace.window_first_step(), trace.window_first_step() + 3,
                      trace.window_start_s(), trace.window_end_s());
  if (trace.rows().size() < trace.nodes()) {
    note += absl::StrFormat("; %d of %d nodes are drawn", trace.rows().size(), trace.nodes());
  }
  if (trace.is_truncated()) note += "; only the first part of what happened is drawn";
  return Section("Who did what when", note, html);
}

}  // namespace skerry
