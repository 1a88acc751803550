// The pipeline as a picture: a column a stage, a box a replica, an arrow from who waits to whom it
// waits for.
#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "common/status.h"
#include "coordinator/chart.h"
#include "coordinator/dashboard_view.h"
#include "coordinator/page.h"

namespace skerry {
namespace {

using Json = nlohmann::json;

constexpr double kTop = 34;   // room for the names of the stages
constexpr double kGap = 10;   // between boxes of a column
constexpr double kTall = 46;  // a box with two lines of text
constexpr double kFlat = 12;  // of a crowd: colour only; the table of nodes has their names
constexpr double kFlatGap = 3;
constexpr size_t kTallMax = 10;   // replicas
constexpr size_t kFlatRows = 20;  // of a crowd, then side by side
constexpr size_t kArrowsMax = 48;
constexpr double kLabelWidth = 96;  // of a column that has room for text
constexpr double kAside = 0.62;     // share of a column that its boxes take; arrows run between

struct Box {
  double x, y, width, height;
  Json node;  // of the status; null: it says nothing of it
};

using Boxes = std::map<std::string, Box>;

std::map<std::string, Json> NodesById(const Json& status) {
  std::map<std::string, Json> nodes;
  for (const Json& node : status.value("nodes", Json::array())) nodes[node.value("id", "")] = node;
  return nodes;
}

std::string State(const Json& node) {
  if (node.is_null()) return "unknown";
  if (!node.value("alive", false)) return "gone";
  return node.value("waiting_for", "").empty() ? "works" : "waits";
}

std::string Doing(const Json& node) {
  if (node.is_null()) return "";
  const std::string state = State(node);
  if (state == "gone") return "gone";
  return state == "waits" ? "waits for the " + node.value("waiting_for", "")
                          : node.value("phase", "");
}

// "gradient of microbatch 5 from b702f634" names a node; "commit of round 3" none.
std::string WaitsFor(const Json& node) {
  if (State(node) != "waits") return "";
  const std::string what = node.value("waiting_for", "");
  return what.substr(what.find_last_of(' ') + 1);
}

std::string BoxSvg(const std::string& id, const Box& box) {
  const std::string region = box.node.is_null() ? "" : box.node.value("region", "");
  std::string svg = absl::StrFormat(
      "<g><title>%s %s: %s</title><rect class=\"back\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" "
      "height=\"%.1f\" rx=\"5\"/><rect class=\"box %s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" "
      "height=\"%.1f\" rx=\"5\"/>",
      EscapeHtml(id), EscapeHtml(region), EscapeHtml(Doing(box.node)), box.x, box.y, box.width,
      box.height, State(box.node), box.x, box.y, box.width, box.height);
  if (box.height == kTall) {
    svg += absl::StrFormat(
        "<text class=\"id\" x=\"%.1f\" y=\"%.1f\">%s</text><text class=\"tick\" x=\"%.1f\" "
        "y=\"%.1f\">%s</text>",
        box.x + 8, box.y + 19, EscapeHtml(id), box.x + 8, box.y + 36,
        EscapeHtml(region.substr(0, 12)));
  }
  return svg + "</g>";
}

// One shape for all of a kind.
std::string CrowdSvg(const Boxes& boxes) {
  std::map<std::string, std::string> by_state;
  for (const auto& [id, box] : boxes) {
    by_state[State(box.node)] += absl::StrFormat("M%.1f %.0fh%.1fv%.0fh-%.1fz", box.x, box.y,
                                                 box.width, box.height, box.width);
  }
  std::string svg;
  for (const auto& [state, path] : by_state) {
    svg += "<path class=\"box " + state + "\" d=\"" + path + "\"/>";
  }
  return svg;
}

std::string WaitLine(const std::string& path) {
  return "<path class=\"waitline\" d=\"" + path + "\" marker-end=\"url(#head)\"/>";
}

// Past columns that lie between, in the gap above or below the row it comes from.
std::string LongArrow(const Box& from, const Box& to) {
  const bool right = to.x > from.x, up = to.y < from.y;
  const double turn = right ? 22 : -22;  // the room of a bend
  const double x1 = right ? from.x + from.width : from.x, x2 = right ? to.x : to.x + to.width;
  const double aside = right ? -2 : 2;  // who goes one way does not lie on who goes the other
  const double y1 = from.y + from.height / 2 + 4 * aside, y2 = to.y + to.height / 2 + 4 * aside;
  const double gap = (up ? from.y - kGap / 2 : from.y + from.height + kGap / 2) + aside;
  return WaitLine(absl::StrFormat(
      "M%.1f %.1f C%.1f %.1f %.1f %.1f %.1f %.1f L%.1f %.1f C%.1f %.1f %.1f %.1f %.1f %.1f", x1, y1,
      x1 + turn, y1, x1 + turn, gap, x1 + 2 * turn, gap, x2 - 2 * turn, gap, x2 - turn, gap,
      x2 - turn, y2, x2, y2));
}

// From side to side that face each other; within a column a bow on the right.
std::string Arrow(const Box& from, const Box& to) {
  const double y1 = from.y + from.height / 2, y2 = to.y + to.height / 2;
  const bool right = to.x > from.x, same = to.x == from.x;
  const double x1 = right || same ? from.x + from.width : from.x;
  const double x2 = right ? to.x : to.x + to.width;
  const double bend = same ? 40 : (x2 - x1) / 2;
  return WaitLine(absl::StrFormat("M%.1f %.1f C%.1f %.1f %.1f %.1f %.1f %.1f", x1, y1, x1 + bend,
                                  y1, same ? x2 + bend : x2 - bend, y2, x2, y2));
}

Boxes PlaceTall(const Json& status, const RunReport& report, double column) {
  auto nodes = NodesById(status);
  Boxes boxes;
  for (size_t s = 0; s < report.stages.size(); ++s) {
    double y = kTop;
    for (const std::string& id : report.stages[s].replicas) {
      boxes[id] = {static_cast<double>(s) * column, y, column * kAside, kTall, nodes[id]};
      y += kTall + kGap;
    }
  }
  return boxes;
}

// In a grid below the name of each stage.
Boxes PlaceFlat(const Json& status, const RunReport& report, double column) {
  auto nodes = NodesById(status);
  Boxes boxes;
  for (size_t s = 0; s < report.stages.size(); ++s) {
    const std::vector<std::string>& replicas = report.stages[s].replicas;
    const size_t abreast = std::max<size_t>(1, (replicas.size() + kFlatRows - 1) / kFlatRows);
    const double width = column * kAside / static_cast<double>(abreast);
    for (size_t i = 0; i < replicas.size(); ++i) {
      const auto row = static_cast<double>(i / abreast), place = static_cast<double>(i % abreast);
      boxes[replicas[i]] = {static_cast<double>(s) * column + place * width,
                            kTop + row * (kFlat + kFlatGap), std::max(1.5, width - 2), kFlat,
                            nodes[replicas[i]]};
    }
  }
  return boxes;
}

// Of narrow columns every so many.
std::string StageNames(const RunReport& report, double column) {
  constexpr double kNumberWidth = 22, kNameWidth = 132;
  const bool wide = column >= kNameWidth;
  const auto every =
      wide ? size_t{1} : static_cast<size_t>(std::max(1.0, std::ceil(kNumberWidth / column)));
  std::string names;
  for (size_t s = 0; s < report.stages.size(); s += every) {
    const ReportStage& stage = report.stages[s];
    const std::string name =
        wide ? absl::StrFormat("stage %d: layers %d–%d", s, stage.first_layer,
                               std::max(stage.first_layer, stage.last_layer - 1))
             : absl::StrFormat("%d", s);
    names += absl::StrFormat("<text class=\"tick\" x=\"%.1f\" y=\"16\">%s</text>",
                             static_cast<double>(s) * column, name);
  }
  return names;
}

std::string Key() {
  return "<p class=\"legend\"><span class=\"key works\">computes or receives</span><span "
         "class=\"key "
         "waits\">waits</span><span class=\"key gone\">gone</span></p>";
}

}  // namespace

std::string PipelineSvg(const Json& status, const RunReport& report) {
  if (report.stages.empty()) return "";
  size_t replicas_max = 1;
  for (const ReportStage& stage : report.stages)
    replicas_max = std::max(replicas_max, stage.replicas.size());
  const double column = kChartWidth / static_cast<double>(report.stages.size());
  const bool tall = replicas_max <= kTallMax && column * kAside >= kLabelWidth;
  const Boxes boxes = tall ? PlaceTall(status, report, column) : PlaceFlat(status, report, column);
  std::string drawn = tall ? "" : CrowdSvg(boxes), arrows;
  double bottom = kTop;
  size_t arrows_left = kArrowsMax;
  for (const auto& [id, box] : boxes) {
    if (tall) drawn += BoxSvg(id, box);
    bottom = std::max(bottom, box.y + box.height);
    const auto target = boxes.find(WaitsFor(box.node));
    if (target == boxes.end() || arrows_left == 0) continue;
    const bool passes_others = tall && std::abs(target->second.x - box.x) > 1.5 * column;
    arrows += passes_others ? LongArrow(box, target->second) : Arrow(box, target->second);
    --arrows_left;
  }
  const std::string names = StageNames(report, column);
  const std::string svg =
      absl::StrFormat(
          "<svg class=\"pipeline\" viewBox=\"0 0 %.0f %.0f\" role=\"img\" "
          "aria-label=\"stages and their replicas; the table of nodes says the "
          "same\"><defs><marker id=\"head\" "
          "viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" "
          "orient=\"auto\"><path class=\"arrowhead\" d=\"M0 0 8 4 0 8z\"/></marker></defs>",
          kChartWidth, bottom + 8) +
      // Behind boxes that one passes; of a crowd, above.
      names + (tall ? arrows + drawn : drawn + arrows) + "</svg>";
  return Key() + Scrolled("pipeline", svg);
}

}  // namespace skerry
