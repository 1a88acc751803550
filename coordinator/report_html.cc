#include <cmath>

#include "common/status.h"
#include "coordinator/report_page.h"

namespace skerry {
namespace {

constexpr char kStyle[] = R"(
:root { color-scheme: light dark; --page: #f7f8f8; --card: #ffffff; --text: #16202a;
  --muted: #5d6b78; --edge: #dde3e7; --train: #1b6ca8; --valid: #b4540a; --ref: #6b7280;
  --bad: #b3261e; --heat: 27 108 168; }
@media (prefers-color-scheme: dark) { :root { --page: #10161b; --card: #182027; --text: #e6ecf0;
  --muted: #93a1ad; --edge: #2b3640; --train: #5aaeea; --valid: #f0a35e; --ref: #9aa5b1;
  --bad: #ff8a80; --heat: 70 150 215; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--text);
  font: 15px/1.5 system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
main { max-width: 1040px; margin: 0 auto; padding: 28px 20px 48px; }
h1 { font-size: 26px; line-height: 1.2; margin: 0; }
h2 { font-size: 17px; margin: 0 0 10px; }
p { margin: 4px 0; }
section { background: var(--card); border: 1px solid var(--edge); border-radius: 10px;
  padding: 16px 20px 18px; margin-top: 18px; }
.muted { color: var(--muted); font-weight: 400; font-size: 13px; }
.bad, .bad td { color: var(--bad); }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(220px, 1fr)); gap: 12px;
  margin-top: 18px; }
.tile { background: var(--card); border: 1px solid var(--edge); border-radius: 10px;
  padding: 12px 16px; }
.tile b { display: block; font-size: 20px; line-height: 1.35; white-space: nowrap;
  font-variant-numeric: tabular-nums; }
svg { display: block; width: 100%; height: auto; }
.tick { fill: var(--muted); font-size: 12px; }
.grid { stroke: var(--edge); }
polyline { fill: none; stroke-linejoin: round; }
.raw { stroke: var(--train); stroke-width: 1; opacity: .4; }
.training { stroke: var(--train); stroke-width: 2.4; }
.reference { stroke: var(--ref); stroke-width: 2; stroke-dasharray: 6 4; }
.validation { fill: var(--valid); stroke: var(--card); stroke-width: 1.5; }
.transfer { fill: var(--train); opacity: .55; }
.wait { fill: var(--valid); }
.mark { stroke: var(--ref); stroke-width: 1.5; stroke-dasharray: 3 3; }
.mark.bad { stroke: var(--bad); }
.legend { display: flex; flex-wrap: wrap; gap: 4px 18px; margin-bottom: 6px; font-size: 13px;
  color: var(--muted); }
.key::before { content: ""; display: inline-block; width: 12px; height: 12px; margin-right: 6px;
  border-radius: 3px; vertical-align: -1px; background: var(--train); opacity: 1; }
.key { opacity: 1; }
.key.validation::before { border-radius: 50%; background: var(--valid); }
.key.reference::before { height: 0; border-radius: 0; border-top: 2px dashed var(--ref);
  width: 18px; background: none; vertical-align: 4px; }
.key.transfer::before { opacity: .55; }
.key.wait::before { background: var(--valid); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: 6px 12px; border-bottom: 1px solid var(--edge);
  vertical-align: top; }
tr:last-child > * { border-bottom: 0; }
thead th { color: var(--muted); font-weight: 500; font-size: 13px; }
.links { font-size: 12.5px; }
.links th, .links td { padding: 5px 8px; white-space: nowrap; line-height: 1.35; }
.link { background: rgb(var(--heat) / var(--strength)); border: 2px solid var(--card); }
.events td { padding: 4px 14px 4px 0; }
.time { color: var(--muted); white-space: nowrap; }
code, pre { font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; }
pre { margin: 0; white-space: pre-wrap; overflow-wrap: anywhere; font-size: 13.5px; }
footer { margin-top: 22px; }
)";

std::string Loss(const std::optional<double>& loss) {
  return loss ? absl::StrFormat("%.3f", *loss) : "–";
}

std::string Tile(const std::string& label, const std::string& value, const std::string& note) {
  return "<div class=\"tile\"><span class=\"muted\">" + label + "</span><b>" + value +
         "</b><span class=\"muted\">" + note + "</span></div>";
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

std::string Section(const std::string& title, const std::string& note, const std::string& body) {
  if (body.empty()) return "";
  return "<section><h2>" + title + " <span class=\"muted\">" + note + "</span></h2>" + body +
         "</section>";
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

std::string EscapeHtml(std::string_view text) {
  std::string html;
  for (const char c : text) {
    switch (c) {
      case '&':
        html += "&amp;";
        break;
      case '<':
        html += "&lt;";
        break;
      case '>':
        html += "&gt;";
        break;
      case '"':
        html += "&quot;";
        break;
      case '\'':
        html += "&#39;";
        break;
      default:
        html += c;
    }
  }
  return html;
}

std::string HumanCount(int64_t count) {
  const double value = static_cast<double>(count);
  if (value >= 999.5e6) return absl::StrFormat("%.2f billion", value * 1e-9);
  if (value >= 999.5e3) return absl::StrFormat("%.2f million", value * 1e-6);
  if (value >= 1e4) return absl::StrFormat("%.1f thousand", value * 1e-3);
  return absl::StrFormat("%d", count);
}

std::string HumanBytes(double bytes) {
  if (bytes >= 999.5e6) return absl::StrFormat("%.2f GB", bytes * 1e-9);
  if (bytes >= 999.5e3) return absl::StrFormat("%.1f MB", bytes * 1e-6);
  if (bytes >= 999.5) return absl::StrFormat("%.1f kB", bytes * 1e-3);
  return absl::StrFormat("%.0f B", bytes);
}

std::string HumanSeconds(double seconds) {
  if (seconds < 60) return absl::StrFormat("%.1f s", seconds);
  const int64_t whole = std::llround(seconds);
  if (whole < 3600) return absl::StrFormat("%d min %02d s", whole / 60, whole % 60);
  return absl::StrFormat("%d h %02d min", whole / 3600, whole % 3600 / 60);
}

std::string ReportHtml(const RunReport& report) {
  const std::string title = EscapeHtml(report.name.empty() ? "Skerry run" : report.name);
  return "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>" +
         title + "</title><style>" + kStyle + "</style></head>\n<body><main>" + Heading(report) +
         Tiles(report) + Section("Loss", "nat per token", LossChartSvg(report)) +
         Section("Who held what", "the plan in force at the end", PlacementTable(report)) +
         Section("Why this plan", "in the planner's words", PlanReason(report)) +
         Section("Links", "as measured; stronger colour, faster link", LinkTable(report)) +
         Section("Outer rounds", "per stage, slowest replica", RoundsChartSvg(report)) +
         Section("What happened", "", EventTable(report)) +
         Section("A sample", "written by the exported model", Preformatted(report.sample)) +
         Section("Again", "the same seed gives the same losses", Preformatted(report.command)) +
         "</main></body></html>\n";
}

}  // namespace skerry
