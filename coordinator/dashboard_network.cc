// The network as a graph: every node, or of many every region, and the measured links between them.
// Unlike the map it needs to know no places.
#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numbers>

#include "common/status.h"
#include "coordinator/chart.h"
#include "coordinator/dashboard_view.h"
#include "coordinator/page.h"

namespace skerry {
namespace {

using Json = nlohmann::json;

constexpr double kHeight = 430;
constexpr double kAcross = 300, kDown = 160;  // half axes of the ring on which they stand
constexpr size_t kDotsMax = 24;               // more nodes than that are shown by region
constexpr size_t kLinesMax = 200;
constexpr double kRadius = 9;

struct Dot {
  std::string name, region;
  int64_t stage = -1, replica = 0;  // of one node
  int64_t here = 0, waits = 0, gone = 0;
  double x = 0, y = 0;
};

struct Line {
  std::vector<double> there, back, rtt_ms;  // Mbit/s from the lesser name on, and to it
  bool relayed = false, waits = false;
};

using Dots = std::vector<Dot>;
using Lines = std::map<std::pair<std::string, std::string>, Line>;

double Mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

double Fastest(const Line& line) {
  return std::max(Mean(line.there), Mean(line.back));
}

// Every node; of the status, else (a moment that is past) as the log tells of them.
Dots NodesOf(const Json& status, const RunReport& report) {
  Dots dots;
  const auto nodes = status.find("nodes");
  if (nodes == status.end() || !nodes->is_array()) {
    for (const ReportNode& node : report.nodes) dots.push_back({node.id, node.region, -1, 0, 1});
    return dots;
  }
  for (const Json& node : *nodes) {
    const bool alive = node.value("alive", false);
    const bool waits = alive && !node.value("waiting_for", "").empty();
    dots.push_back({node.value("id", ""), node.value("region", ""),
                    node.value("stage", int64_t{-1}), node.value("replica", int64_t{0}),
                    alive ? 1 : 0, waits ? 1 : 0, alive ? 0 : 1});
  }
  return dots;
}

Dots ByRegion(const Dots& nodes) {
  std::map<std::string, Dot> regions;
  for (const Dot& node : nodes) {
    Dot& dot = regions[node.region];
    dot.name = node.region.empty() ? "(no name)" : node.region;
    dot.here += node.here;
    dot.waits += node.waits;
    dot.gone += node.gone;
  }
  Dots dots;
  for (auto& [region, dot] : regions) dots.push_back(std::move(dot));
  return dots;
}

// Neighbours on the ring are of one region, then of one stage.
void Place(Dots& dots) {
  std::sort(dots.begin(), dots.end(), [](const Dot& a, const Dot& b) {
    return std::tie(a.region, a.stage, a.name) < std::tie(b.region, b.stage, b.name);
  });
  for (size_t i = 0; i < dots.size(); ++i) {
    const double turn =
        2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(dots.size());
    dots[i].x = kChartWidth / 2 + kAcross * std::sin(turn);
    dots[i].y = kHeight / 2 - kDown * std::cos(turn);
  }
}

// `dot_of`: of each node, the name of what stands for it.
Lines LinesOf(const Json& status, const RunReport& report,
              const std::map<std::string, std::string>& dot_of) {
  Lines lines;
  const auto between = [&](const std::string& a, const std::string& b) -> Line* {
    const auto from = dot_of.find(a), to = dot_of.find(b);
    if (from == dot_of.end() || to == dot_of.end() || from->second == to->second) return nullptr;
    return &lines[std::minmax(from->second, to->second)];
  };
  for (const auto& [ends, link] : report.links) {
    Line* line = between(ends.first, ends.second);
    if (line == nullptr) continue;
    const bool there = dot_of.at(ends.first) < dot_of.at(ends.second);
    (there ? line->there : line->back).push_back(link.mbps);
    line->rtt_ms.push_back(link.rtt_ms);
    line->relayed |= link.relayed;
  }
  for (const Json& node : status.value("nodes", Json::array())) {
    const std::string what = node.value("waiting_for", "");
    Line* line = between(node.value("id", ""), what.substr(what.find_last_of(' ') + 1));
    if (line != nullptr) line->waits = true;
  }
  return lines;
}

// Bent towards the middle, so that lines of neighbours do not lie on the ring.
std::string LineSvg(const Dot& a, const Dot& b, const Line& line, double strength) {
  const double there = Mean(line.there), back = Mean(line.back);
  std::string title = EscapeHtml(a.name) + " – " + EscapeHtml(b.name);
  if (!line.rtt_ms.empty())
    title +=
        absl::StrFormat(": %.0f ms, %.0f Mbit/s there, %.0f back", Mean(line.rtt_ms), there, back);
  if (line.relayed) title += ", through a relay";
  if (line.waits) title += "; one waits for the other now";
  const double x = (a.x + b.x) / 4 + kChartWidth / 4, y = (a.y + b.y) / 4 + kHeight / 4;
  return absl::StrFormat(
      "<path class=\"way%s%s\" style=\"--strength:%.2f\" d=\"M%.0f %.0fQ%.0f %.0f %.0f "
      "%.0f\"><title>%s</title></path>",
      line.waits ? " waiting" : "", line.relayed ? " relayed" : "", strength, a.x, a.y, x, y, b.x,
      b.y, title);
}

std::string LinesSvg(const Dots& dots, const Lines& lines) {
  std::map<std::string, const Dot*> by_name;
  for (const Dot& dot : dots) by_name[dot.name] = &dot;
  double least = 1e300, most = 0;
  std::vector<const Lines::value_type*> drawn;
  for (const auto& line : lines) {
    if (Fastest(line.second) > 0) least = std::min(least, Fastest(line.second));
    most = std::max(most, Fastest(line.second));
    drawn.push_back(&line);
  }
  // Who waits last: on top.
  std::stable_sort(drawn.begin(), drawn.end(), [](const auto* a, const auto* b) {
    return std::pair(a->second.waits, Mean(a->second.there)) <
           std::pair(b->second.waits, Mean(b->second.there));
  });
  if (drawn.size() > kLinesMax) drawn.erase(drawn.begin(), drawn.end() - kLinesMax);
  std::string svg;
  for (const auto* line : drawn) {
    // By how many times it is as fast as the slowest.
    const double share = most > least && Fastest(line->second) > 0
                             ? std::log(Fastest(line->second) / least) / std::log(most / least)
                             : 0;
    svg += LineSvg(*by_name.at(line->first.first), *by_name.at(line->first.second), line->second,
                   0.2 + 0.7 * share);
  }
  return svg;
}

std::string DotSvg(const Dot& dot, bool is_node) {
  const char* state = dot.here == 0 ? "gone" : 2 * dot.waits > dot.here ? "waits" : "works";
  const double aside = (dot.x - kChartWidth / 2) / kAcross;
  const char* anchor = aside > 0.2 ? "start" : aside < -0.2 ? "end" : "middle";
  const double x = dot.x + (aside > 0.2 ? 15 : aside < -0.2 ? -15 : 0);
  const double y = aside > -0.2 && aside < 0.2 ? dot.y + (dot.y < kHeight / 2 ? -29 : 22) : dot.y;
  std::string second = absl::StrFormat("%d node%s", dot.here, dot.here == 1 ? "" : "s");
  if (is_node) {
    second = EscapeHtml(dot.region.substr(0, 16));
    if (dot.stage >= 0)
      second = absl::StrFormat("stage %d%s%s", dot.stage, second.empty() ? "" : ", ", second);
  }
  return absl::StrFormat(
      "<g><title>%s: %s</title><circle class=\"back\" cx=\"%.0f\" cy=\"%.0f\" r=\"%g\"/><circle "
      "class=\"box %s\" cx=\"%.0f\" cy=\"%.0f\" r=\"%g\"/><text class=\"id\" x=\"%.0f\" "
      "y=\"%.0f\" text-anchor=\"%s\">%s</text><text class=\"tick\" x=\"%.0f\" y=\"%.0f\" "
      "text-anchor=\"%s\">%s</text></g>",
      EscapeHtml(dot.name), state, dot.x, dot.y, kRadius, state, dot.x, dot.y, kRadius, x, y,
      anchor, EscapeHtml(dot.name.substr(0, 20)), x, y + 14, anchor, second);
}

}  // namespace

std::string NetworkSvg(const Json& status, const RunReport& report) {
  Dots dots = NodesOf(status, report);
  const bool of_nodes = dots.size() <= kDotsMax;
  std::map<std::string, std::string> dot_of;
  for (const Dot& node : dots) {
    const std::string region = node.region.empty() ? "(no name)" : node.region;
    dot_of[node.name] = of_nodes ? node.name : region;
  }
  if (!of_nodes) dots = ByRegion(dots);
  if (dots.size() < 2 || dots.size() > kDotsMax) return "";
  Place(dots);
  std::string svg = LinesSvg(dots, LinesOf(status, report, dot_of));
  for (const Dot& dot : dots) svg += DotSvg(dot, of_nodes);
  return "<p class=\"legend\"><span class=\"key works\">works</span><span class=\"key "
         "waits\">waits</span><span class=\"key gone\">gone</span><span>a line: a measured link, "
         "stronger is faster; orange: waited for now; dashed: relayed</span></p>" +
         Scrolled("network", absl::StrFormat("<svg class=\"network\" viewBox=\"0 0 %g %g\" "
                                             "role=\"img\" aria-label=\"%s and the links between "
                                             "them; the table of links says the same\">",
                                             kChartWidth, kHeight, of_nodes ? "nodes" : "regions") +
                                 svg + "</svg>");
}

}  // namespace skerry
