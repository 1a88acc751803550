#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "common/median.h"
#include "common/status.h"
#include "coordinator/report_page.h"

namespace skerry {
namespace {

using Groups = std::vector<std::pair<std::string, std::vector<std::string>>>;  // label → node ids

std::string OrDash(const std::string& text) {
  return text.empty() ? "–" : EscapeHtml(text);
}

const ReportNode* FindNode(const RunReport& report, const std::string& id) {
  const auto found = std::find_if(report.nodes.begin(), report.nodes.end(),
                                  [&](const ReportNode& node) { return node.id == id; });
  return found == report.nodes.end() ? nullptr : &*found;
}

std::string ReplicaCell(const RunReport& report, const std::string& id) {
  std::string html = "<td><code>" + EscapeHtml(id) + "</code>";
  if (const ReportNode* node = FindNode(report, id)) {
    html += "<br><span class=\"muted\">" + OrDash(node->region);
    if (node->gflops > 0) html += absl::StrFormat(" · %.0f GFLOP/s", node->gflops);
    if (node->held_bytes > 0) {
      html += absl::StrFormat("<br>%s held, %s planned",
                              HumanBytes(static_cast<double>(node->held_bytes)),
                              HumanBytes(static_cast<double>(node->model_bytes)));
    }
    if (node->rounds_screened > 0) {
      html += absl::StrFormat(" · deltas of %d rounds screened", node->rounds_screened);
    }
    html += "</span>";
  }
  return html + "</td>";
}

// Nodes, or, when they are many, regions: those with the most nodes.
Groups GroupNodes(const RunReport& report) {
  Groups groups;
  const bool by_region = report.nodes.size() > kLinkTableNodesMax;
  for (const ReportNode& node : report.nodes) {
    if (!by_region) {
      groups.push_back({node.id, {node.id}});
    } else if (!groups.empty() && groups.back().first == node.region) {
      groups.back().second.push_back(node.id);
    } else {
      groups.push_back({node.region, {node.id}});
    }
  }
  if (groups.size() <= kLinkTableRegionsMax) return groups;
  std::stable_sort(groups.begin(), groups.end(),
                   [](const auto& a, const auto& b) { return a.second.size() > b.second.size(); });
  groups.resize(kLinkTableRegionsMax);
  std::sort(groups.begin(), groups.end());
  return groups;
}

// Links between groups, by their places in Groups.
class GroupedLinks {
 public:
  GroupedLinks(const RunReport& report, const Groups& groups) {
    std::map<std::string, size_t> group_of;
    for (size_t i = 0; i < groups.size(); ++i) {
      for (const std::string& id : groups[i].second) group_of[id] = i;
    }
    for (const auto& [ends, link] : report.links) {
      low_ = std::min(low_, std::max(link.mbps, 1e-3));
      high_ = std::max(high_, link.mbps);
      const auto from = group_of.find(ends.first), to = group_of.find(ends.second);
      if (from == group_of.end() || to == group_of.end()) continue;
      Readings& readings = readings_[{from->second, to->second}];
      readings.rtts.push_back(link.rtt_ms);
      readings.rates.push_back(link.mbps);
      readings.times.push_back(link.at_s);
      readings.relayed |= link.relayed;
    }
  }

  std::optional<ReportLink> Between(size_t from, size_t to) const {
    const auto found = readings_.find({from, to});
    if (found == readings_.end()) return std::nullopt;
    const Readings& of = found->second;
    return ReportLink{UpperMedian(of.rtts), UpperMedian(of.rates), of.relayed,
                      UpperMedian(of.times)};
  }
  // 0 for the slowest link of the run … 1 for the fastest, on a logarithmic scale.
  double Strength(double mbps) const {
    if (high_ <= low_ * 1.0001) return 0.5;
    return std::clamp(std::log(std::max(mbps, 1e-3) / low_) / std::log(high_ / low_), 0.0, 1.0);
  }

 private:
  struct Readings {
    std::vector<double> rtts, rates, times;
    bool relayed = false;
  };
  std::map<std::pair<size_t, size_t>, Readings> readings_;
  double low_ = INFINITY, high_ = 0;
};

// Coarse, so that a page that is looked at does not change for it all the time.
std::string Age(double seconds) {
  if (seconds < 60) return "less than a minute ago";
  if (seconds < 3600) return absl::StrFormat("%d min ago", static_cast<int>(seconds / 60));
  return absl::StrFormat("%d h ago", static_cast<int>(seconds / 3600));
}

bool IsOff(double measured, double configured) {
  return configured > 0 && std::abs(measured / configured - 1) > kLinkTolerance;
}

// `now_s`: of the report. `strength`: of the colour, 0 … 1.
std::string LinkCell(double now_s, double strength, const std::optional<ReportLink>& link,
                     const std::optional<ReportLink>& back, const ConfiguredLink* configured) {
  if (!link) return "<td class=\"muted\">–</td>";
  constexpr double kLopsided = 1.5;
  std::string title = "measured " + Age(now_s - link->at_s);
  std::string mark;
  if (back) {
    title += absl::StrFormat("; the other way %.1f ms, %.1f Mbit/s", back->rtt_ms, back->mbps);
    if (link->mbps > 0 && back->mbps > kLopsided * link->mbps)
      mark = absl::StrFormat("<br><span class=\"muted\">back %.1f × as fast</span>",
                             back->mbps / link->mbps);
  }
  if (configured != nullptr) {
    title +=
        absl::StrFormat("; configured %.1f ms, %.1f Mbit/s", configured->rtt_ms, configured->mbps);
    if (IsOff(link->rtt_ms, configured->rtt_ms) || IsOff(link->mbps, configured->mbps)) {
      mark += absl::StrFormat("<br><span class=\"muted\">configured %.0f ms, %.0f Mbit/s</span>",
                              configured->rtt_ms, configured->mbps);
    }
  }
  return absl::StrFormat(
      "<td class=\"link\" style=\"--strength:%.0f%%\" title=\"%s\">%.*f ms<br>%.*f "
      "Mbit/s%s%s</td>",
      8 + 52 * strength, title, link->rtt_ms < 10 ? 1 : 0, link->rtt_ms, link->mbps < 10 ? 1 : 0,
      link->mbps, link->relayed ? "<br>relayed" : "", mark);
}

// How old the readings are.
std::string ReadingsText(const RunReport& report) {
  double oldest = INFINITY, newest = 0;
  for (const auto& [ends, link] : report.links) {
    oldest = std::min(oldest, link.at_s);
    newest = std::max(newest, link.at_s);
  }
  return "The oldest of these readings was taken " + Age(report.wall_s - oldest) + ", the newest " +
         Age(report.wall_s - newest) + ".";
}

}  // namespace

std::string PlacementTable(const RunReport& report) {
  if (report.stages.empty()) return "";
  size_t columns = 0;
  for (const ReportStage& stage : report.stages) columns = std::max(columns, stage.replicas.size());
  std::string html = "<table><thead><tr><th scope=\"col\">stage</th><th scope=\"col\">layers</th>";
  for (size_t i = 0; i < columns; ++i)
    html += absl::StrFormat("<th scope=\"col\">replica %d</th>", i);
  html += "</tr></thead><tbody>";
  for (size_t s = 0; s < report.stages.size(); ++s) {
    const ReportStage& stage = report.stages[s];
    html += absl::StrFormat("<tr><th scope=\"row\">%d</th><td>", s);
    html += stage.last_layer > stage.first_layer
                ? absl::StrFormat("%d–%d", stage.first_layer, stage.last_layer - 1)
                : "none";
    if (s == 0) html += "<br><span class=\"muted\">embedding, head</span>";
    html += "</td>";
    for (const std::string& id : stage.replicas) html += ReplicaCell(report, id);
    for (size_t i = stage.replicas.size(); i < columns; ++i) html += "<td></td>";
    html += "</tr>";
  }
  return Scrolled("placement", html + "</tbody></table>");
}

std::string LinkTable(const RunReport& report) {
  if (report.links.empty() || report.nodes.empty()) return "";
  const Groups groups = GroupNodes(report);
  const GroupedLinks links(report, groups);
  const bool by_region = report.nodes.size() > kLinkTableNodesMax;
  std::string head = "<tr><th scope=\"col\">from \\ to</th>", body;
  for (const auto& [to, to_ids] : groups) head += "<th scope=\"col\">" + OrDash(to) + "</th>";
  for (size_t from = 0; from < groups.size(); ++from) {
    const ReportNode* node = by_region ? nullptr : FindNode(report, groups[from].first);
    body += "<tr><th scope=\"row\">" + OrDash(groups[from].first);
    if (node) body += "<br><span class=\"muted\">" + OrDash(node->region) + "</span>";
    body += "</th>";
    for (size_t to = 0; to < groups.size(); ++to) {
      const auto link = links.Between(from, to);
      body += LinkCell(
          report.wall_s, link ? links.Strength(link->mbps) : 0, link, links.Between(to, from),
          report.configured.empty()
              ? nullptr
              : report.ConfiguredBetween(groups[from].second.front(), groups[to].second.front()));
    }
    body += "</tr>";
  }
  std::string note = report.configured.empty() ? "" : LinkAccuracyText(AccuracyOf(report)) + ". ";
  if (note == ". ") note.clear();
  for (const ReportHouse& house : report.houses) note += house.Text() + ". ";
  note = "<p class=\"muted\">" + EscapeHtml(note + ReadingsText(report)) + "</p>";
  return Scrolled("links", "<table class=\"links\"><thead>" + head + "</tr></thead><tbody>" + body +
                               "</tbody></table>") +
         note;
}

std::string EventTable(const RunReport& report) {
  if (report.events.empty()) return "";
  std::string html =
      "<table class=\"events\"><thead><tr><th scope=\"col\">when</th><th "
      "scope=\"col\">what</th></tr>"
      "</thead><tbody>";
  for (const ReportEvent& event : report.events) {
    html += absl::StrFormat("<tr%s><td class=\"time\">%s</td><td>%s</td></tr>",
                            event.bad ? " class=\"bad\"" : "", HumanSeconds(event.at_s),
                            EscapeHtml(event.text));
  }
  return html + "</tbody></table>";
}

}  // namespace skerry
