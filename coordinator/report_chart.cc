#include <algorithm>
#include <cmath>

#include "common/status.h"
#include "coordinator/chart.h"
#include "coordinator/report_page.h"

namespace skerry {
namespace {

constexpr double kWidth = kChartWidth, kLeft = kChartLeft, kRight = kChartRight;
constexpr size_t kLinePointsMax = 1200;

std::string Polyline(const LossCurve& curve, const Axis& x, const Axis& y,
                     const std::string& style) {
  if (curve.size() < 2) return "";
  const size_t stride = curve.size() / kLinePointsMax + 1;
  std::string points;
  for (size_t i = 0; i < curve.size(); i += stride) {
    points += absl::StrFormat("%.1f,%.1f ", x.At(static_cast<double>(curve[i].first)),
                              y.At(curve[i].second));
  }
  return absl::StrFormat("<polyline class=\"%s\" points=\"%s\"/>", style, points);
}

// Mean over a window of about a fortieth of the run around each step.
LossCurve Smooth(const LossCurve& curve) {
  const size_t reach = curve.size() / 80;
  LossCurve smooth;
  for (size_t i = 0; i < curve.size(); ++i) {
    const size_t first = i - std::min(i, reach);
    const size_t last = std::min(i + reach, curve.size() - 1);
    double sum = 0;
    for (size_t j = first; j <= last; ++j) sum += curve[j].second;
    smooth.emplace_back(curve[i].first, sum / static_cast<double>(last - first + 1));
  }
  return smooth;
}

std::string ValidationPoints(const LossCurve& curve, const Axis& x, const Axis& y) {
  std::string svg;
  for (const auto& [step, loss] : curve) {
    svg += absl::StrFormat(
        "<circle class=\"validation\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\"><title>step %d: %.4f</title>"
        "</circle>",
        x.At(static_cast<double>(step)), y.At(loss), step, loss);
  }
  return svg;
}

std::string Legend(const RunReport& report) {
  std::string html = "<div class=\"legend\">";
  if (!report.training.empty()) html += "<span class=\"key training\">training loss</span>";
  if (!report.validation.empty()) html += "<span class=\"key validation\">held-out text</span>";
  if (!report.reference.empty()) {
    html += "<span class=\"key reference\">one process, nothing skipped</span>";
  }
  return html + "</div>";
}

// Loss range over all curves, with a little air; steps from 0.
void FindRange(const RunReport& report, Axis& x, Axis& y) {
  x.low = 0;
  x.high = 1;
  y.low = INFINITY;
  y.high = -INFINITY;
  for (const LossCurve* curve : {&report.training, &report.validation, &report.reference}) {
    for (const auto& [step, loss] : *curve) {
      x.high = std::max(x.high, static_cast<double>(step));
      y.low = std::min(y.low, loss);
      y.high = std::max(y.high, loss);
    }
  }
  const double air = std::max(0.05 * (y.high - y.low), 1e-3);
  y.low = std::max(0.0, y.low - air);
  y.high += air;
}

std::string RoundBar(const ReportRound& round, const Axis& x, double top, double height) {
  const double end = x.At(round.committed_s);
  const double start = std::min(x.At(round.committed_s - round.transfer_s), end - 2);
  const double wait =
      round.wait_s > 0 ? std::max(end - x.At(round.committed_s - round.wait_s), 2.0) : 0.0;
  std::string svg = absl::StrFormat(
      "<g><title>stage %d, round %d: %d replicas, %.2f s on the way, %.2f s waited</title>"
      "<rect class=\"transfer\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"2\"/>",
      round.stage, round.round, round.participants, round.transfer_s, round.wait_s, start, top,
      end - start, height);
  if (wait > 0) {
    svg += absl::StrFormat(
        "<rect class=\"wait\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"2\"/>",
        end - wait, top, wait, height);
  }
  if (round.landed_s > round.committed_s) {
    const double landed = x.At(round.landed_s), middle = top + height / 2;
    svg += absl::StrFormat("<path class=\"landing\" d=\"M%.1f %.1fH%.1fM%.1f %.1fV%.1f\"/>", end,
                           middle, landed, landed, top + 2, top + height - 2);
  }
  return svg + "</g>";
}

std::string EventMarks(const RunReport& report, const Axis& x, double bottom) {
  std::string svg;
  for (const ReportEvent& event : report.events) {
    const bool marked = event.bad || event.kind == "restarted" || event.kind == "returned";
    if (!marked || event.at_s < x.low || event.at_s > x.high) continue;
    svg += absl::StrFormat(
        "<line class=\"%s\" x1=\"%.1f\" x2=\"%.1f\" y1=\"4\" y2=\"%.1f\"><title>%s</title></line>",
        event.bad ? "mark bad" : "mark", x.At(event.at_s), x.At(event.at_s), bottom,
        EscapeHtml(event.text));
  }
  return svg;
}

}  // namespace

std::string LossChartSvg(const RunReport& report) {
  if (report.training.empty() && report.validation.empty() && report.reference.empty()) return "";
  constexpr double kHeight = 340, kBottom = kHeight - 46;
  Axis x{0, 1, kLeft, kWidth - kRight};
  Axis y{0, 1, kBottom, 10};
  FindRange(report, x, y);
  std::string svg = Legend(report);
  svg += absl::StrFormat("<svg viewBox=\"0 0 %g %g\" role=\"img\" aria-label=\"Loss over steps\">",
                         kWidth, kHeight);
  svg += YGrid(y) + XTicks(x, kBottom, "");
  svg += absl::StrFormat(
      "<text class=\"tick\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">inner step</text>",
      kWidth - kRight, kHeight - 8);
  svg += Polyline(report.training, x, y, "raw");
  svg += Polyline(Smooth(report.reference), x, y, "reference");
  svg += Polyline(Smooth(report.training), x, y, "training");
  svg += ValidationPoints(report.validation, x, y);
  return svg + "</svg>";
}

std::string RoundsChartSvg(const RunReport& report) {
  if (report.rounds.empty()) return "";
  constexpr double kRow = 30, kBar = 18;
  int64_t stages = 0;
  Axis x{INFINITY, -INFINITY, kLeft + 14, kWidth - kRight};
  for (const ReportRound& round : report.rounds) {
    stages = std::max(stages, round.stage + 1);
    x.low = std::min(x.low, round.committed_s - round.transfer_s);
    x.high = std::max({x.high, round.committed_s, round.landed_s});
  }
  const double bottom = 6 + kRow * static_cast<double>(stages);
  std::string svg = absl::StrFormat(
      "<div class=\"legend\"><span class=\"key transfer\">deltas on the way</span>"
      "<span class=\"key wait\">waited for</span>"
      "<span class=\"key landing\">applied by all replicas</span></div>"
      "<svg viewBox=\"0 0 %g %g\" role=\"img\" aria-label=\"Outer rounds over time\">",
      kWidth, bottom + 30);
  for (int64_t stage = 0; stage < stages; ++stage) {
    const double middle = 6 + kRow * (static_cast<double>(stage) + 0.5);
    svg += absl::StrFormat(
        "<text class=\"tick\" x=\"%g\" y=\"%.1f\" text-anchor=\"end\">stage %d</text>"
        "<line class=\"grid\" x1=\"%g\" x2=\"%g\" y1=\"%.1f\" y2=\"%.1f\"/>",
        kLeft + 4, middle + 4, stage, x.start, x.stop, middle, middle);
  }
  for (const ReportRound& round : report.rounds) {
    svg +=
        RoundBar(round, x, 6 + kRow * static_cast<double>(round.stage) + (kRow - kBar) / 2, kBar);
  }
  return svg + EventMarks(report, x, bottom) + XTicks(x, bottom, " s") + "</svg>";
}

}  // namespace skerry
