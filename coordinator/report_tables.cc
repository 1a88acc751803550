#include <algorithm>
#include <cmath>

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
  return groups;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

std::optional<ReportLink> MedianLink(const RunReport& report, const std::vector<std::string>& from,
                                     const std::vector<std::string>& to) {
  std::vector<double> rtts, rates, times;
  bool relayed = false;
  for (const std::string& a : from) {
    for (const std::string& b : to) {
      const auto found = report.links.find({a, b});
      if (found == report.links.end()) continue;
      rtts.push_back(found->second.rtt_ms);
      rates.push_back(found->second.mbps);
      times.push_back(found->second.at_s);
      relayed |= found->second.relayed;
    }
  }
  if (rtts.empty()) return std::nullopt;
  return ReportLink{Median(rtts), Median(rates), relayed, Median(times)};
}

// 0 for the slowest link of the run … 1 for the fastest, on a logarithmic scale.
double Strength(const RunReport& report, double mbps) {
  double low = INFINITY, high = 0;
  for (const auto& [ends, link] : report.links) {
    low = std::min(low, std::max(link.mbps, 1e-3));
    high = std::max(high, link.mbps);
  }
  if (high <= low * 1.0001) return 0.5;
  return std::clamp(std::log(std::max(mbps, 1e-3) / low) / std::log(high / low), 0.0, 1.0);
}

// Coarse, so that a page that is looked at does not change for it all the time.
std::string Age(double seconds) {
  if (seconds < 60) return "less than a minute ago";
  if (seconds < 3600) return absl::StrFormat("%d min ago", static_cast<int>(seconds / 60));
  return absl::StrFormat("%d h ago", static_cast<int>(seconds / 3600));
}

bool IsOff(double measured, double configured) {
  return configured > 0 && std::abs(measured / configured - 1) > kLinkTolerance;
}

std::string LinkCell(const RunReport& report, const std::optional<ReportLink>& link,
                     const std::optional<ReportLink>& back, const ConfiguredLink* configured) {
  if (!link) return "<td class=\"muted\">–</td>";
  constexpr double kLopsided = 1.5;
  std::string title = "measured " + Age(report.wall_s - link->at_s);
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
      8 + 52 * Strength(report, link->mbps), title, link->rtt_ms < 10 ? 1 : 0, link->rtt_ms,
      link->mbps < 10 ? 1 : 0, link->mbps, link->relayed ? "<br>relayed" : "", mark);
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
  const bool by_region = report.nodes.size() > kLinkTableNodesMax;
  std::string head = "<tr><th scope=\"col\">from \\ to</th>", body;
  for (const auto& [to, to_ids] : groups) head += "<th scope=\"col\">" + OrDash(to) + "</th>";
  for (const auto& [from, from_ids] : groups) {
    const ReportNode* node = by_region ? nullptr : FindNode(report, from);
    body += "<tr><th scope=\"row\">" + OrDash(from);
    if (node) body += "<br><span class=\"muted\">" + OrDash(node->region) + "</span>";
    body += "</th>";
    for (const auto& [to, to_ids] : groups) {
      body += LinkCell(report, MedianLink(report, from_ids, to_ids),
                       MedianLink(report, to_ids, from_ids),
                       report.ConfiguredBetween(from_ids.front(), to_ids.front()));
    }
    body += "</tr>";
  }
  std::string note = LinkAccuracyText(AccuracyOf(report));
  if (!note.empty()) note = "<p class=\"muted\">" + EscapeHtml(note) + ".</p>";
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
