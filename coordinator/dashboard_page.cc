#include "coordinator/dashboard_view.h"
#include "coordinator/page.h"
#include "coordinator/report_page.h"

namespace skerry {
namespace {

constexpr char kStyle[] = R"(
main { max-width: 1240px; }
.tiles { grid-template-columns: repeat(auto-fit, minmax(172px, 1fr)); }
.now { font-size: 17px; }
#nodes td { white-space: nowrap; }
.box { stroke: var(--edge); fill: var(--card); }
.box.works { fill: var(--train); fill-opacity: .28; stroke: var(--train); }
.box.waits { fill: var(--valid); fill-opacity: .22; stroke: var(--valid); }
.box.gone { fill: var(--bad); fill-opacity: .2; stroke: var(--bad); stroke-dasharray: 4 3; }
.key.works::before { background: var(--train); opacity: .6; }
.key.waits::before { background: var(--valid); opacity: .6; }
.key.gone::before { background: var(--bad); opacity: .6; }
.id { fill: var(--text); font: 13px ui-monospace, "DejaVu Sans Mono", monospace; }
.waitline { fill: none; stroke: var(--valid); stroke-width: 1.6; }
.arrowhead { fill: var(--valid); }
#time { display: flex; flex-wrap: wrap; gap: 6px 14px; align-items: center; margin-top: 14px; }
#time input { flex: 1 1 240px; min-width: 0; accent-color: var(--train); }
#time button { font: inherit; color: var(--text); background: var(--card);
  border: 1px solid var(--edge); border-radius: 8px; padding: 4px 14px; cursor: pointer; }
#time button[aria-pressed="true"] { border-color: var(--train); }
:focus-visible { outline: 3px solid var(--train); outline-offset: 2px; }
@media (max-width: 600px) { main { padding: 18px 10px 32px; } section { padding: 12px; }
  .pipeline { min-width: 560px; } }
)";

// Live: the server says which pieces are new. A moment that is past is asked for, and stays.
constexpr char kScript[] = R"('use strict';
const slider = document.getElementById('at');
const label = document.getElementById('attext');
const liveButton = document.getElementById('live');
let live = true, source = null, asked = 0;

function clock(s) {
  const whole = Math.round(s), two = (n) => String(n).padStart(2, '0');
  return `${Math.floor(whole / 3600)}:${two(Math.floor(whole / 60) % 60)}:${two(whole % 60)}`;
}
function show(pieces) {
  for (const [id, html] of Object.entries(pieces)) {
    const place = document.getElementById(id);
    if (place) place.innerHTML = html;
  }
}
function setLive(on) {
  live = on;
  liveButton.setAttribute('aria-pressed', String(on));
  if (on && source === null) listen();
  if (!on && source !== null) { source.close(); source = null; }
}
function listen() {
  source = new EventSource('live');
  source.onmessage = (event) => {
    const news = JSON.parse(event.data);
    if (!live) return;
    slider.max = Math.ceil(news.now_s);
    slider.value = slider.max;
    label.textContent = clock(news.now_s);
    show(news.pieces);
  };
}
slider.addEventListener('input', async () => {
  setLive(false);
  label.textContent = clock(Number(slider.value));
  const mine = ++asked;
  const answer = await fetch(`at?s=${slider.value}`);
  if (answer.ok && mine === asked && !live) show((await answer.json()).pieces);
});
liveButton.addEventListener('click', () => setLive(true));
setLive(true);
)";

}  // namespace

std::string DashboardScript() {
  return kScript;
}

std::string DashboardPage(const DashboardPieces& pieces, const RunReport& report) {
  std::string body;
  for (const auto& [id, html] : pieces) {
    body += "<div id=\"" + id + "\">" + html + "</div>";
    if (id != "heading") continue;
    body +=
        "<div id=\"time\"><button type=\"button\" id=\"live\" "
        "aria-pressed=\"true\">live</button><input "
        "type=\"range\" id=\"at\" min=\"0\" max=\"1\" value=\"1\" aria-label=\"moment of the run, "
        "in "
        "seconds\"><span id=\"attext\" class=\"muted\">now</span></div>";
  }
  return HtmlPage(report.name.empty() ? "Skerry" : report.name + " · Skerry",
                  body + "<script src=\"dashboard.js\"></script>", kStyle + GanttStyle());
}

}  // namespace skerry
