// Where the nodes are: a map of the part of the world they take up, each place with its stages, and
// the links between places.
#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "common/status.h"
#include "coordinator/chart.h"
#include "coordinator/dashboard_places.h"
#include "coordinator/dashboard_view.h"
#include "coordinator/page.h"

namespace skerry {
namespace {

using Json = nlohmann::json;

constexpr double kHeight = 400;
constexpr double kLeast = 40;       // degrees of longitude that are shown at least
constexpr double kAir = 0.14;       // around the places, as a share
constexpr size_t kLinesMax = 120;   // between places
constexpr size_t kStagesNamed = 6;  // of a place
constexpr double kLabelHeight = 15;
constexpr double kLabelRoom = 90;  // on either side of a place

struct Spot {
  std::string region;
  Place at;
  double x = 0, y = 0;
  int64_t here = 0, waits = 0, gone = 0;
  std::set<int64_t> stages;
};

struct Window {
  double west, east, south, north;
  double X(double longitude) const { return kChartWidth * (longitude - west) / (east - west); }
  double Y(double latitude) const { return kHeight * (north - latitude) / (north - south); }
};

// All of the places with some air, in the picture's own proportions; no smaller than a country.
Window WindowOf(const std::vector<Spot>& spots) {
  Window w{180, -180, 90, -90};
  for (const Spot& spot : spots) {
    w.west = std::min(w.west, spot.at.longitude);
    w.east = std::max(w.east, spot.at.longitude);
    w.south = std::min(w.south, spot.at.latitude);
    w.north = std::max(w.north, spot.at.latitude);
  }
  const double ratio = kHeight / kChartWidth;
  double width = std::max(
      {kLeast, (w.east - w.west) * (1 + 2 * kAir), (w.north - w.south) * (1 + 2 * kAir) / ratio});
  width = std::min(width, 360.0);
  const double x = (w.west + w.east) / 2, y = (w.south + w.north) / 2;
  const double height = width * ratio;
  Window shown{x - width / 2, x + width / 2, y - height / 2, y + height / 2};
  // Not beyond the poles: there is nothing.
  const double over = std::max(0.0, shown.north - 85) - std::max(0.0, -60 - shown.south);
  shown.north -= over;
  shown.south -= over;
  return shown;
}

std::vector<Spot> SpotsOf(const Json& status, const RunReport& report,
                          std::set<std::string>* unknown) {
  std::map<std::string, Spot> by_region;
  std::map<std::string, int64_t> stage_of;
  for (size_t s = 0; s < report.stages.size(); ++s) {
    for (const std::string& id : report.stages[s].replicas) stage_of[id] = static_cast<int64_t>(s);
  }
  const auto add = [&](const std::string& region, const std::string& id, bool alive, bool waits) {
    const auto place = PlaceOf(region);
    if (!place && alive) unknown->insert(region);
    if (!place) return;  // nobody looks for who is gone
    Spot& spot = by_region[region];
    spot.region = region;
    spot.at = *place;
    ++(alive ? spot.here : spot.gone);
    spot.waits += alive && waits ? 1 : 0;
    if (const auto stage = stage_of.find(id); alive && stage != stage_of.end()) {
      spot.stages.insert(stage->second);
    }
  };
  const auto nodes = status.find("nodes");
  if (nodes != status.end() && nodes->is_array()) {
    for (const Json& node : *nodes) {
      add(node.value("region", ""), node.value("id", ""), node.value("alive", false),
          !node.value("waiting_for", "").empty());
    }
  } else {
    for (const ReportNode& node : report.nodes) add(node.region, node.id, true, false);
  }
  std::vector<Spot> spots;
  for (auto& [region, spot] : by_region) spots.push_back(std::move(spot));
  return spots;
}

struct Way {
  std::vector<double> mbps, rtt_ms;
  bool relayed = false, waits = false;
};

using Ways = std::map<std::pair<std::string, std::string>, Way>;  // of regions, the lesser first

std::pair<std::string, std::string> Between(const std::string& a, const std::string& b) {
  return a < b ? std::pair(a, b) : std::pair(b, a);
}

Ways WaysOf(const Json& status, const RunReport& report) {
  std::map<std::string, std::string> region_of;
  for (const ReportNode& node : report.nodes) region_of[node.id] = node.region;
  Ways ways;
  for (const auto& [ends, link] : report.links) {
    const auto from = region_of.find(ends.first), to = region_of.find(ends.second);
    if (from == region_of.end() || to == region_of.end() || from->second == to->second) continue;
    Way& way = ways[Between(from->second, to->second)];
    way.mbps.push_back(link.mbps);
    way.rtt_ms.push_back(link.rtt_ms);
    way.relayed |= link.relayed;
  }
  const auto nodes = status.find("nodes");
  if (nodes == status.end() || !nodes->is_array()) return ways;
  for (const Json& node : *nodes) {
    const std::string what = node.value("waiting_for", "");
    const auto to = region_of.find(what.substr(what.find_last_of(' ') + 1));
    const std::string here = node.value("region", "");
    if (what.empty() || to == region_of.end() || to->second == here) continue;
    ways[Between(here, to->second)].waits = true;
  }
  return ways;
}

double Middle(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

std::string LineSvg(const Spot& a, const Spot& b, const Way& way, double strength) {
  const double rtt = Middle(way.rtt_ms), mbps = Middle(way.mbps);
  std::string title = EscapeHtml(a.region) + " – " + EscapeHtml(b.region);
  if (mbps > 0) title += absl::StrFormat(": %.0f ms, %.0f Mbit/s", rtt, mbps);
  if (way.relayed) title += ", in part through relays";
  if (way.waits) title += "; somebody waits for somebody there now";
  const double bend = 0.12 * std::hypot(b.x - a.x, b.y - a.y);
  return absl::StrFormat(
      "<path class=\"way%s%s\" style=\"--strength:%.2f\" d=\"M%.1f %.1fQ%.1f %.1f %.1f "
      "%.1f\"><title>%s</title></path>",
      way.waits ? " waiting" : "", way.relayed ? " relayed" : "", strength, a.x, a.y,
      (a.x + b.x) / 2, (a.y + b.y) / 2 - bend, b.x, b.y, title);
}

std::string LinesSvg(const std::vector<Spot>& spots, const Ways& ways) {
  std::map<std::string, const Spot*> by_region;
  for (const Spot& spot : spots) by_region[spot.region] = &spot;
  std::vector<std::pair<double, const Ways::value_type*>> drawn;
  double most = 1;
  for (const auto& way : ways) {
    if (!by_region.contains(way.first.first) || !by_region.contains(way.first.second)) continue;
    const double mbps = Middle(way.second.mbps);
    most = std::max(most, mbps);
    drawn.emplace_back(way.second.waits ? 1e300 : mbps, &way);
  }
  std::stable_sort(drawn.begin(), drawn.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  if (drawn.size() > kLinesMax) drawn.resize(kLinesMax);
  std::string svg;
  for (const auto& [order, way] : drawn) {
    const double share = std::log1p(Middle(way->second.mbps)) / std::log1p(most);
    svg += LineSvg(*by_region.at(way->first.first), *by_region.at(way->first.second), way->second,
                   0.25 + 0.6 * share);
  }
  return svg;
}

std::string StagesText(const std::set<int64_t>& stages) {
  if (stages.empty()) return "";
  std::string text = stages.size() == 1 ? "stage " : "stages ";
  size_t named = 0;
  for (const int64_t stage : stages) {
    if (named == kStagesNamed) return text + "…";
    text += (named++ > 0 ? ", " : "") + std::to_string(stage);
  }
  return text;
}

// Labels that would lie over others are left out: titles and the list below say the same.
std::string SpotsSvg(const std::vector<Spot>& spots) {
  std::vector<std::pair<double, double>> labels;
  std::string svg;
  for (const Spot& spot : spots) {
    const char* state = spot.here == 0 ? "gone" : 2 * spot.waits > spot.here ? "waits" : "works";
    const double radius = std::min(16.0, 4 + 1.8 * std::sqrt(static_cast<double>(spot.here)));
    const std::string stages = StagesText(spot.stages);
    const std::string who = absl::StrFormat("%s: %d here%s%s", EscapeHtml(spot.region), spot.here,
                                            stages.empty() ? "" : ", ", stages);
    svg += absl::StrFormat(
        "<g><title>%s</title><circle class=\"box %s\" cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\"/>", who,
        state, spot.x, spot.y, radius);
    const bool is_free = std::none_of(labels.begin(), labels.end(), [&](const auto& label) {
      return std::abs(label.first - spot.x) < 120 && std::abs(label.second - spot.y) < 34;
    });
    if (is_free) {
      // Below its place: lines bow upwards.
      const double y = spot.y + radius + kLabelHeight;
      const char* anchor = spot.x < kLabelRoom                 ? "start"
                           : spot.x > kChartWidth - kLabelRoom ? "end"
                                                               : "middle";
      svg += absl::StrFormat(
          "<text class=\"id place\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s × %d</text><text "
          "class=\"tick place\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>",
          spot.x, y, anchor, EscapeHtml(spot.region.substr(0, 20)), spot.here, spot.x,
          y + kLabelHeight, anchor, stages);
      labels.emplace_back(spot.x, spot.y);
    }
    svg += "</g>";
  }
  return svg;
}

std::string CoastSvg(const Window& window) {
  std::string path;
  for (const std::vector<Place>& coast : Coasts()) {
    char command = 'M';
    for (const Place& place : coast) {
      path += absl::StrFormat("%c%.0f %.0f", command, window.X(place.longitude),
                              window.Y(place.latitude));
      command = 'L';
    }
    path += "z";
  }
  return "<path class=\"land\" d=\"" + path + "\"/>";
}

std::string Unplaced(const std::set<std::string>& unknown) {
  if (unknown.empty()) return "";
  constexpr size_t kNamed = 8;
  std::string names;
  size_t named = 0;
  const bool some_are_silent = unknown.contains("");
  const size_t count = unknown.size() - (some_are_silent ? 1 : 0);
  for (const std::string& region : unknown) {
    if (region.empty()) continue;
    if (named == kNamed) {
      names += absl::StrFormat(" and %d more", count - kNamed);
      break;
    }
    names += (named++ > 0 ? ", " : "") + EscapeHtml(region);
  }
  std::string why;
  if (!names.empty()) why = ", since no place of that name is known here: " + names + ".";
  if (some_are_silent) {
    why += why.empty() ? ": nodes that did not say where they are."
                       : " Others did not say where they are.";
  }
  return "<p class=\"muted\">Not on the map" + why +
         " A node says where it is with join --region, by a city, a country, a cloud's region or "
         "47.4,8.5.</p>";
}

}  // namespace

std::string WorldMapSvg(const Json& status, const RunReport& report) {
  std::set<std::string> unknown;
  std::vector<Spot> spots = SpotsOf(status, report, &unknown);
  if (spots.empty()) return Unplaced(unknown);
  const Window window = WindowOf(spots);
  for (Spot& spot : spots) {
    spot.x = window.X(spot.at.longitude);
    spot.y = window.Y(spot.at.latitude);
  }
  return "<p class=\"legend\"><span class=\"key works\">works</span><span class=\"key waits\">most "
         "wait</span><span class=\"key gone\">gone</span><span>a line: a measured link, stronger "
         "is faster; orange: waited for now; dashed: relayed</span></p>" +
         Scrolled("map", absl::StrFormat("<svg class=\"map\" viewBox=\"0 0 %g %g\" role=\"img\" "
                                         "aria-label=\"map of the nodes' regions; the tables of "
                                         "nodes and links say the same\">",
                                         kChartWidth, kHeight) +
                             CoastSvg(window) + LinesSvg(spots, WaysOf(status, report)) +
                             SpotsSvg(spots) + "</svg>") +
         Unplaced(unknown);
}

}  // namespace skerry
