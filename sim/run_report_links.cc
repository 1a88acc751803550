#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "common/median.h"
#include "common/status.h"
#include "coordinator/chart.h"
#include "coordinator/page.h"
#include "sim/run_report.h"

namespace skerry {
namespace {

constexpr double kRow = 34, kHalf = 13;  // a node's row; each direction above or below its middle
constexpr double kNames = 150;
constexpr double kFigures = 150;

struct Line {
  double up = 0, down = 0;  // bytes/s; 0: without limit
};

Line LineOf(const VirtualRun& run, int32_t node) {
  const auto& network = run.options().network;
  if (!network) return {};
  const SiteSpec& site =
      network->sites[static_cast<size_t>(network->site_of_node[static_cast<size_t>(node)])];
  return {site.up_bytes_per_s, site.down_bytes_per_s};
}

double PeakRate(const ByteBins& bins) {
  const auto peak = std::max_element(bins.bytes().begin(), bins.bytes().end());
  return peak == bins.bytes().end() ? 0 : *peak / bins.width_s();
}

// An area from the middle of a row, up (−1) or down (+1); `full` is the rate of its whole height.
std::string Area(const ByteBins& bins, const Axis& x, double middle, int direction, double full) {
  if (bins.bytes().empty() || full <= 0) return "";
  std::string path = absl::StrFormat("M%.1f %.1f", x.At(0), middle);
  double time_s = 0;
  for (const double bytes : bins.bytes()) {
    const double share = std::min(bytes / bins.width_s() / full, 1.0);
    const double y = middle + direction * kHalf * share;
    path += absl::StrFormat("L%.1f %.1fL%.1f %.1f", x.At(time_s), y,
                            std::min(x.At(time_s + bins.width_s()), x.stop), y);
    time_s += bins.width_s();
  }
  path += absl::StrFormat("L%.1f %.1fZ", std::min(x.At(time_s), x.stop), middle);
  return absl::StrFormat("<path class=\"%s\" d=\"%s\"/>", direction < 0 ? "up" : "down", path);
}

std::string Figure(const ByteBins& bins, double line, double seconds) {
  const double mean = bins.total() / std::max(seconds, 1e-9);
  const auto mbps = [](double bytes_per_s) {
    const double value = bytes_per_s * 8e-6;
    return absl::StrFormat("%.*f", value < 9.95 ? 1 : 0, value);
  };
  if (line <= 0) return mbps(mean) + " Mbit/s";
  return absl::StrFormat("%.*f %% of %s Mbit/s", mean / line < 0.0995 ? 1 : 0, 100 * mean / line,
                         mbps(line));
}

// Colours by the logarithm: a few large flows do not hide the rest.
double Strength(double bytes, double most) {
  if (bytes <= 0 || most <= 0) return 0;
  return std::clamp(1 + std::log10(bytes / most) / 3, 0.06, 1.0);
}

}  // namespace

std::string LineUseSvg(const RunPicture& picture) {
  const RunTrace& trace = *picture.trace;
  if (trace.rows().empty()) return "";
  const double end_s = picture.outcome->virtual_s;
  const Axis x{0, end_s, kNames, kChartWidth - kFigures};
  double fastest = 0;  // the scale of lines without a limit
  for (const TraceRow& row : trace.rows())
    fastest = std::max({fastest, PeakRate(row.up), PeakRate(row.down)});
  const double bottom = 4 + kRow * static_cast<double>(trace.rows().size());
  std::string svg = absl::StrFormat(
      "<div class=\"legend\"><span class=\"key up\">up</span><span class=\"key down\">down</span>"
      "<span>a full half-row is the whole line; without a limit, %.0f Mbit/s</span></div>"
      "<div class=\"scroll\"><svg class=\"wide\" viewBox=\"0 0 %g %g\" role=\"img\" "
      "aria-label=\"Use of every node's line over time\">",
      fastest * 8e-6, kChartWidth, bottom + 26);
  for (size_t i = 0; i < trace.rows().size(); ++i) {
    const TraceRow& row = trace.rows()[i];
    const Line line = LineOf(*picture.run, row.node);
    const double middle = 4 + kRow * (static_cast<double>(i) + 0.5);
    svg += absl::StrFormat(
        "<text class=\"name\" x=\"0\" y=\"%.1f\">%d·%d node%d</text>"
        "<text class=\"tick\" x=\"0\" y=\"%.1f\">%s</text>"
        "<line class=\"grid\" x1=\"%g\" x2=\"%g\" y1=\"%.1f\" y2=\"%.1f\"/>",
        middle - 2, row.stage, row.replica, row.node, middle + 12,
        EscapeHtml(picture.run->options().nodes[static_cast<size_t>(row.node) - 1].region), x.start,
        x.stop, middle, middle);
    svg += Area(row.up, x, middle, -1, line.up > 0 ? line.up : fastest);
    svg += Area(row.down, x, middle, 1, line.down > 0 ? line.down : fastest);
    svg += absl::StrFormat(
        "<text class=\"tick\" x=\"%g\" y=\"%.1f\">%s</text>"
        "<text class=\"tick\" x=\"%g\" y=\"%.1f\">%s</text>",
        x.stop + 8, middle - 2, Figure(row.up, line.up, end_s), x.stop + 8, middle + 12,
        Figure(row.down, line.down, end_s));
  }
  return svg + XTicks(x, bottom, " s") + "</svg></div>";
}

std::string MatrixSvg(const RunTrace& trace) {
  const auto& names = trace.matrix_names();
  const auto& bytes = trace.matrix();
  double most = 0;
  for (const auto& row : bytes)
    for (const double value : row) most = std::max(most, value);
  if (most <= 0) return "";
  const double count = static_cast<double>(names.size());
  const double cell = std::clamp(620 / count, 13.0, 34.0);
  size_t longest = 0;
  for (const std::string& name : names) longest = std::max(longest, name.size());
  const double label = 7.2 * static_cast<double>(longest);
  const double left = label + 8, top = label * 0.87 + 14, size = cell * count;
  const double right = label * 0.5 + 4;  // the last name leans over
  std::string svg = absl::StrFormat(
      "<div class=\"scroll\"><svg class=\"matrix\" viewBox=\"0 0 %g %g\" width=\"%g\" "
      "height=\"%g\" "
      "role=\"img\" aria-label=\"Bytes from everybody to everybody\">",
      left + size + right, top + size + 4, left + size + right, top + size + 4);
  for (size_t i = 0; i < names.size(); ++i) {
    const double at = cell * (static_cast<double>(i) + 0.5);
    const std::string name = EscapeHtml(names[i]);
    svg += absl::StrFormat(
        "<text class=\"tick\" x=\"%g\" y=\"%.1f\" text-anchor=\"end\">%s</text>"
        "<text class=\"tick\" transform=\"translate(%.1f %g) rotate(-60)\">%s</text>",
        left - 6, top + at + 4, name, left + at + 4, top - 6, name);
  }
  for (size_t from = 0; from < names.size(); ++from) {
    for (size_t to = 0; to < names.size(); ++to) {
      const double value = bytes[from][to];
      svg += absl::StrFormat(
          "<rect class=\"cell\" style=\"--strength:%.0f%%\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" "
          "height=\"%.1f\"><title>%s → %s: %s</title></rect>",
          100 * Strength(value, most), left + cell * static_cast<double>(to) + 0.5,
          top + cell * static_cast<double>(from) + 0.5, cell - 1, cell - 1, EscapeHtml(names[from]),
          EscapeHtml(names[to]), HumanBytes(value));
    }
  }
  return svg + "</svg></div>";
}

std::string RoundsTable(const RunReport& report) {
  struct OfStage {
    std::vector<double> transfer_s, landing_s;
    double transfer_total_s = 0, wait_total_s = 0;
    int64_t fewest = INT64_MAX, most = 0;
  };
  std::map<int64_t, OfStage> stages;
  for (const ReportRound& round : report.rounds) {
    OfStage& stage = stages[round.stage];
    stage.transfer_s.push_back(round.transfer_s);
    if (round.landed_s > 0) stage.landing_s.push_back(round.landed_s - round.committed_s);
    stage.transfer_total_s += round.transfer_s;
    stage.wait_total_s += round.wait_s;
    stage.fewest = std::min(stage.fewest, round.participants);
    stage.most = std::max(stage.most, round.participants);
  }
  if (stages.empty()) return "";
  std::string html =
      "<div class=\"scroll\"><table><thead><tr><th>stage</th><th>rounds</th><th>participants</th>"
      "<th>boundary → committed, here</th><th>committed → applied by all</th><th>hidden</th>"
      "</tr></thead><tbody>";
  for (const auto& [index, stage] : stages) {
    html += absl::StrFormat("<tr><th>%d</th><td>%d</td><td>%s</td>", index, stage.transfer_s.size(),
                            stage.fewest == stage.most
                                ? absl::StrFormat("%d", stage.most)
                                : absl::StrFormat("%d to %d", stage.fewest, stage.most));
    html += absl::StrFormat(
        "<td>%.2f s</td><td>%.2f s</td><td>%s</td></tr>", UpperMedian(stage.transfer_s),
        UpperMedian(stage.landing_s),
        stage.transfer_total_s > 0
            ? absl::StrFormat("%.1f %%", 100 * (1 - stage.wait_total_s / stage.transfer_total_s))
            : "–");
  }
  return html + "</tbody></table></div>";
}

}  // namespace skerry
