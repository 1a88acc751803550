#include "coordinator/page.h"

#include <cmath>

#include "common/status.h"

namespace skerry {
namespace {

constexpr char kStyle[] = R"(
:root { color-scheme: light dark; --page: #f7f8f8; --card: #ffffff; --text: #16202a;
  --muted: #5d6b78; --edge: #dde3e7; --train: #1b6ca8; --valid: #b4540a; --ref: #6b7280;
  --bad: #b3261e; --heat: 27 108 168; --shade: rgb(20 40 60 / .22); }
@media (prefers-color-scheme: dark) { :root { --page: #10161b; --card: #182027; --text: #e6ecf0;
  --muted: #93a1ad; --edge: #2b3640; --train: #5aaeea; --valid: #f0a35e; --ref: #9aa5b1;
  --bad: #ff8a80; --heat: 70 150 215; --shade: rgb(0 0 0 / .7); } }
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
.landing { stroke: var(--text); stroke-width: 1.3; fill: none; }
.key.landing::before { background: var(--text); width: 3px; }
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
/* A shade at the side where there is more; covers that scroll along hide it where there is not. */
.scroll { overflow-x: auto; background:
  linear-gradient(to right, var(--card) 50%, transparent) 0 0 / 40px 100% no-repeat local,
  linear-gradient(to left, var(--card) 50%, transparent) 100% 0 / 40px 100% no-repeat local,
  linear-gradient(to right, var(--shade), transparent) 0 0 / 16px 100% no-repeat,
  linear-gradient(to left, var(--shade), transparent) 100% 0 / 16px 100% no-repeat; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: 6px 12px; border-bottom: 1px solid var(--edge);
  vertical-align: top; }
tr:last-child > * { border-bottom: 0; }
thead th { color: var(--muted); font-weight: 500; font-size: 13px; }
.links { font-size: 12.5px; }
.links th, .links td { padding: 5px 8px; white-space: nowrap; line-height: 1.35; }
.link { background: rgb(var(--heat) / var(--strength)); border: 2px solid var(--card); }
.link .muted { color: var(--text); }
.events td { padding: 4px 14px 4px 0; }
.time { color: var(--muted); white-space: nowrap; }
code, pre { font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; }
pre { margin: 0; white-space: pre-wrap; overflow-wrap: anywhere; font-size: 13.5px; }
footer { margin-top: 22px; }
)";

}  // namespace

std::string HtmlPage(const std::string& title, const std::string& body, const std::string& style) {
  return "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>" +
         EscapeHtml(title) + "</title><style>" + kStyle + style + "</style></head>\n<body><main>" +
         body + "</main></body></html>\n";
}

std::string Section(const std::string& title, const std::string& note, const std::string& body) {
  if (body.empty()) return "";
  return "<section><h2>" + title + " <span class=\"muted\">" + note + "</span></h2>" + body +
         "</section>";
}

std::string Scrolled(const std::string& label, const std::string& body) {
  return "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"" + EscapeHtml(label) +
         "\">" + body + "</div>";
}

std::string Tile(const std::string& label, const std::string& value, const std::string& note) {
  return "<div class=\"tile\"><span class=\"muted\">" + label + "</span><b>" + value +
         "</b><span class=\"muted\">" + note + "</span></div>";
}

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

}  // namespace skerry
