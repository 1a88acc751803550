#include "common/status.h"
#include "coordinator/report_page.h"

namespace skerry {
namespace {

std::string Loss(const std::optional<double>& loss) {
  return loss ? absl::StrFormat("%.3f", *loss) : "–";
}

std::string LossTile(const RunReport& report) {
  std::string note = "nat per token, first → last";
  if (report.loss_reference && report.loss_final && *report.loss_reference > 0) {
    note = absl::StrFormat("one process: %.3f (%+.1f %%)", *report.loss_reference,
                           100 * (*report.loss_final / *report.loss_reference - 1));
  }
  return Tile("loss", Loss(report.loss_initial) + " → " + Loss(report.loss_final), note);
}

std::string TrafficTile(const RunReport& report) {
  if (!report.bytes_up) return "";
  const double up = static_cast<double>(*report.bytes_up);
  const double per_token = up / static_cast<double>(std::max<int64_t>(report.tokens, 1));
  return Tile("sent by all nodes", HumanBytes(up),
              absl::StrFormat("%s received, %s a token",
                              HumanBytes(static_cast<double>(report.bytes_down.value_or(0))),
                              HumanBytes(per_token)));
}

std::string Tiles(const RunReport& report) {
  const double rate = static_cast<double>(report.tokens) / std::max(report.wall_s, 1e-9);
  std::string html = "<div class=\"tiles\">" + LossTile(report);
  html += Tile("tokens trained on", HumanCount(report.tokens),
               absl::StrFormat("%d steps · %.0f tokens/s", report.steps, rate));
  html += Tile("model", HumanCount(report.parameters), "parameters");
  html += Tile("machines", absl::StrFormat("%d nodes", report.nodes.size()),
               absl::StrFormat("in %d regions", report.RegionCount()));
  html +=
      Tile("pipeline", absl::StrFormat("%d × %d", report.stages.size(), report.ReplicaCountMin()),
           absl::StrFormat("stages × replicas, skip %.0f %%", 100 * report.skip_ratio));
  html += TrafficTile(report);
  html += Tile("outer rounds", absl::StrFormat("%d", report.outer_rounds),
               report.hidden_fraction ? absl::StrFormat("%.1f %% of their transfer hidden",
                                                        100 * *report.hidden_fraction)
                                      : "no transfer measured");
  html += Tile("wall time", HumanSeconds(report.wall_s), absl::StrFormat("seed %d", report.seed));
  return html + "</div>";
}

std::string Preformatted(const std::string& text) {
  return text.empty() ? "" : "<pre>" + EscapeHtml(text) + "</pre>";
}

std::string PlanReason(const RunReport& report) {
  return report.IsPlanReasonPhrase() ? "" : Preformatted(report.plan_reason);
}

std::string Heading(const RunReport& report) {
  std::string html = "<h1>" + EscapeHtml(report.name.empty() ? "A training run" : report.name) +
                     "</h1><p class=\"muted\">run <code>" + EscapeHtml(report.run) +
                     "</code> · began " + EscapeHtml(report.started_utc) + " · Skerry " +
                     EscapeHtml(report.software) + "</p>";
  if (!report.finished) html += "<p class=\"bad\">This run has not finished.</p>";
  if (report.unreadable_lines > 0) {
    html += absl::StrFormat("<p class=\"muted\">%d lines of the event log could not be read.</p>",
                            report.unreadable_lines);
  }
  return html;
}

}  // namespace

std::string ReportHtml(const RunReport& report) {
  const std::string body =
      Heading(report) + Tiles(report) + Section("Loss", "nat per token", LossChartSvg(report)) +
      Section("Who held what", "the plan in force at the end", PlacementTable(report)) +
      Section("Why this plan", "in the planner's words", PlanReason(report)) +
      Section("Links", "as measured; stronger colour, faster link", LinkTable(report)) +
      Section("Outer rounds", "per stage, slowest replica",
              RoundsChartSvg(report) + StageRoundsTable(report)) +
      Section("Who did what when", "one step, as it was and as predicted", GanttChart(report)) +
      Section("What happened", "", EventTable(report)) +
      Section("A sample", "written by the exported model", Preformatted(report.sample)) +
      Section("Again", "the same seed gives the same losses", Preformatted(report.command));
  return HtmlPage(report.name.empty() ? "Skerry run" : report.name, body, GanttStyle());
}

}  // namespace skerry
