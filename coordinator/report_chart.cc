#include <algorithm>
#include <cmath>
#include <map>

#include "common/status.h"
#include "coordinator/chart.h"
#include "coordinator/page.h"
#include "coordinator/report_page.h"

namespace skerry {
namespace {

constexpr double kWidth = kChartWidth, kLeft = kChartLeft, kRight = kChartRight;
constexpr size_t kLinePointsMax = 600;
constexpr size_t kPointsMax = 100;
constexpr size_t kBarsMax = 480;  // of all stages together
constexpr int64_t kRoundRowsMax = 48;
constexpr size_t kPacePoints = 160;

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
  std::vector<double> sums = {0};  // of what stands before
  for (const auto& point : curve) sums.push_back(sums.back() + point.second);
  LossCurve smooth;
  for (size_t i = 0; i < curve.size(); ++i) {
    const size_t first = i - std::min(i, reach);
    const size_t last = std::min(i + reach, curve.size() - 1);
    smooth.emplace_back(curve[i].first,
                        (sums[last + 1] - sums[first]) / static_cast<double>(last - first + 1));
  }
  return smooth;
}

std::string ValidationPoints(const LossCurve& curve, const Axis& x, const Axis& y) {
  std::string svg;
  const size_t stride = curve.size() / kPointsMax + 1;
  // The newest is among them.
  for (size_t i = curve.empty() ? 0 : (curve.size() - 1) % stride; i < curve.size(); i += stride) {
    const auto& [step, loss] = curve[i];
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

// "184k", "1.2M": beneath an axis there is no room for words.
std::string ShortCount(int64_t count) {
  const auto value = static_cast<double>(count);
  for (const auto& [unit, letter] : {std::pair{1e9, "G"}, {1e6, "M"}, {1e3, "k"}}) {
    if (value >= unit) return absl::StrFormat("%.3g%s", value / unit, letter);
  }
  return absl::StrFormat("%d", count);
}

// What a step of the axis is in tokens and in time, beneath it.
std::string OtherScales(const RunReport& report, const Axis& x, double bottom) {
  const auto& ended = report.step_ended_s;
  if (ended.size() < 2 || report.step_tokens.size() != ended.size()) return "";
  std::string svg;
  const double step = NiceStep(x.high - x.low, 9);
  for (double k = 0; k * step <= x.high; ++k) {
    const auto at = std::partition_point(ended.begin(), ended.end(), [&](const auto& entry) {
      return static_cast<double>(entry.first) + 1 < k * step;
    });
    if (at == ended.end()) continue;
    const auto i = static_cast<size_t>(at - ended.begin());
    const bool begins = k == 0;
    const std::string tokens = begins ? "0 tokens" : ShortCount(report.step_tokens[i]);
    const std::string time = HumanSeconds(begins ? report.planned_s.value_or(0) : at->second);
    // The last one may stand at the edge.
    constexpr double kHalfLabel = 36;
    const double center = std::min(x.At(k * step), kWidth - kHalfLabel);
    int line = 1;
    for (const std::string& text : {tokens, time}) {
      svg += absl::StrFormat(
          "<text class=\"tick\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>", center,
          bottom + 18 + 16 * line++, text);
    }
  }
  return svg;
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
  constexpr size_t kMarksMax = 200;
  size_t marks = 0;
  for (auto it = report.events.rbegin(); it != report.events.rend() && marks < kMarksMax; ++it) {
    const ReportEvent& event = *it;
    const bool marked = event.bad || event.kind == "restarted" || event.kind == "returned";
    if (!marked || event.at_s < x.low || event.at_s > x.high) continue;
    ++marks;
    svg += absl::StrFormat(
        "<line class=\"%s\" x1=\"%.1f\" x2=\"%.1f\" y1=\"4\" y2=\"%.1f\"><title>%s</title></line>",
        event.bad ? "mark bad" : "mark", x.At(event.at_s), x.At(event.at_s), bottom,
        EscapeHtml(event.text));
  }
  return svg;
}

// Of each stage the last ones: so many that all of them can be told apart.
std::vector<const ReportRound*> NewestRounds(const RunReport& report, int64_t stages) {
  const size_t of_each = std::max<size_t>(2, kBarsMax / static_cast<size_t>(stages));
  std::map<int64_t, size_t> of_stage;
  for (const ReportRound& round : report.rounds) ++of_stage[round.stage];
  std::vector<const ReportRound*> shown;
  for (const ReportRound& round : report.rounds) {
    if (of_stage[round.stage]-- <= of_each) shown.push_back(&round);
  }
  return shown;
}

// (when, tokens a second since the point before), of parts of the run that took about as long.
std::vector<std::pair<double, double>> Pace(const RunReport& report) {
  const auto& ended = report.step_ended_s;
  std::vector<std::pair<double, double>> pace;
  if (ended.size() < 3 || report.step_tokens.size() != ended.size()) return pace;
  double before_s = ended.front().second;
  const double part = (ended.back().second - before_s) / static_cast<double>(kPacePoints);
  int64_t before = report.step_tokens.front();
  for (size_t i = 1; i < ended.size(); ++i) {
    const double seconds = ended[i].second - before_s;
    if (seconds <= 0 || (seconds < part && i + 1 < ended.size())) continue;
    pace.emplace_back(ended[i].second,
                      static_cast<double>(report.step_tokens[i] - before) / seconds);
    before_s = ended[i].second;
    before = report.step_tokens[i];
  }
  return pace;
}

std::string Line(const std::vector<std::pair<double, double>>& points, const Axis& x, const Axis& y,
                 const char* style) {
  std::string text;
  for (const auto& [at, value] : points) {
    text += absl::StrFormat("%.1f,%.1f ", x.At(at), y.At(value));
  }
  return absl::StrFormat("<polyline class=\"%s\" points=\"%s\"/>", style, text);
}

std::string BusyAxis(const Axis& y) {
  std::string svg;
  for (const double share : {0.0, 0.5, 1.0}) {
    svg += absl::StrFormat(
        "<text class=\"tick\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%.0f %%</text>", kWidth,
        y.At(share) - 3, 100 * share);
  }
  return svg;
}

}  // namespace

std::string LossChartSvg(const RunReport& report) {
  if (report.training.empty() && report.validation.empty() && report.reference.empty()) return "";
  constexpr double kHeight = 372, kBottom = kHeight - 78;
  Axis x{0, 1, kLeft, kWidth - kRight};
  Axis y{0, 1, kBottom, 10};
  FindRange(report, x, y);
  std::string svg = Legend(report);
  svg += absl::StrFormat("<svg viewBox=\"0 0 %g %g\" role=\"img\" aria-label=\"Loss over steps\">",
                         kWidth, kHeight);
  svg += YGrid(y) + XTicks(x, kBottom, "") + OtherScales(report, x, kBottom);
  svg += absl::StrFormat(
      "<text class=\"tick\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">inner step</text>",
      kWidth - kRight, kHeight - 8);
  svg += Polyline(report.training, x, y, "raw");
  svg += Polyline(Smooth(report.reference), x, y, "reference");
  svg += Polyline(Smooth(report.training), x, y, "training");
  svg += ValidationPoints(report.validation, x, y);
  return svg + "</svg>";
}

std::string PaceChartSvg(const RunReport& report) {
  const auto pace = Pace(report);
  if (pace.size() < 2) return "";
  constexpr double kHeight = 190, kBottom = kHeight - 26;
  const Axis x{pace.front().first, pace.back().first, kLeft, kWidth - kRight - 34};
  Axis y{0, 1, kBottom, 16};
  for (const auto& point : pace) y.high = std::max(y.high, 1.05 * point.second);
  const Axis share{0, 1, kBottom, 16};
  std::vector<std::pair<double, double>> busy;
  const size_t stride = report.busy.size() / kPacePoints + 1;
  for (size_t i = 0; i < report.busy.size(); i += stride) {
    if (report.busy[i].first >= x.low && report.busy[i].first <= x.high)
      busy.push_back(report.busy[i]);
  }
  std::string svg = "<div class=\"legend\"><span class=\"key training\">tokens a second</span>";
  if (busy.size() > 1) {
    svg +=
        "<span class=\"key reference\">share of traced steps in which devices were busy "
        "(right)</span>";
  }
  svg += absl::StrFormat(
      "</div><svg viewBox=\"0 0 %g %g\" role=\"img\" aria-label=\"Tokens a second over time\">",
      kWidth, kHeight);
  svg += YGrid(y) + TimeTicks(x, kBottom) + Line(pace, x, y, "training");
  if (busy.size() > 1) svg += BusyAxis(share) + Line(busy, x, share, "reference");
  return svg + "</svg>";
}

std::string RoundsChartSvg(const RunReport& report) {
  if (report.rounds.empty()) return "";
  constexpr double kRow = 30, kBar = 18;
  int64_t stages = 0;
  for (const ReportRound& round : report.rounds) stages = std::max(stages, round.stage + 1);
  if (stages > kRoundRowsMax) return "";  // the table says it
  const std::vector<const ReportRound*> shown = NewestRounds(report, stages);
  Axis x{INFINITY, -INFINITY, kLeft + 14, kWidth - kRight};
  for (const ReportRound* round : shown) {
    x.low = std::min(x.low, round->committed_s - round->transfer_s);
    x.high = std::max({x.high, round->committed_s, round->landed_s});
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
  for (const ReportRound* round : shown) {
    svg +=
        RoundBar(*round, x, 6 + kRow * static_cast<double>(round->stage) + (kRow - kBar) / 2, kBar);
  }
  return svg + EventMarks(report, x, bottom) + TimeTicks(x, bottom) + "</svg>";
}

}  // namespace skerry
