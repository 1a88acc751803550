#include "common/status.h"
#include "coordinator/dashboard_admission.h"
#include "coordinator/dashboard_view.h"
#include "coordinator/page.h"
#include "coordinator/report_page.h"

namespace skerry {
namespace {

constexpr char kStyle[] = R"(
main { max-width: 1240px; }
.tiles { grid-template-columns: repeat(auto-fit, minmax(120px, 1fr)); gap: 10px; }
.tile { padding: 12px 14px; } .tile:first-child { grid-column: span 2; }
.tile b { white-space: normal; }
.now { font-size: 17px; }
#waiting { margin-top: 8px; }
#nodes table { font-size: 13px; }
#nodes th, #nodes td { padding: 6px; } #nodes tbody th { white-space: nowrap; }
#nodes td:nth-child(4) { min-width: 9em; } #nodes td:nth-child(12) { min-width: 13em; }
#rounds th, #rounds td { white-space: nowrap; }
.back { fill: var(--card); }
.box { stroke: var(--edge); fill: var(--card); }
.box.works { fill: var(--train); fill-opacity: .28; stroke: var(--train); }
.box.waits { fill: var(--valid); fill-opacity: .22; stroke: var(--valid); }
.box.gone { fill: var(--bad); fill-opacity: .2; stroke: var(--bad); stroke-dasharray: 4 3; }
.key.works::before { background: var(--train); opacity: .6; }
.key.waits::before { background: var(--valid); opacity: .6; }
.key.gone::before { background: var(--bad); opacity: .6; }
.box.unknown { stroke-dasharray: 2 2; }
.map { background: var(--page); border-radius: 8px; }
.land { fill: var(--edge); stroke: var(--ref); stroke-width: .7; stroke-linejoin: round; }
.way { fill: none; stroke: var(--train); stroke-width: 1.6; opacity: var(--strength); }
.way.relayed { stroke-dasharray: 6 4; }
.way.waiting { stroke: var(--valid); stroke-width: 2.4; opacity: 1; }
.place { paint-order: stroke; stroke: var(--page); stroke-width: 3px; }
.foroperator { display: none; }
.operates .foroperator { display: inline; }
#finding { margin-top: 14px; }
.id { fill: var(--text); font: 13px ui-monospace, "DejaVu Sans Mono", monospace; }
.waitline { fill: none; stroke: var(--valid); stroke-width: 1.6; }
.arrowhead { fill: var(--valid); }
#time { display: flex; flex-wrap: wrap; gap: 6px 14px; align-items: center; margin-top: 14px; }
#time input { flex: 1 1 240px; min-width: 0; accent-color: var(--train); }
:focus-visible { outline: 3px solid var(--train); outline-offset: 2px; }
h3 { font-size: 15px; margin: 0; flex: 1 0 100%; }
form { display: flex; flex-wrap: wrap; gap: 8px 12px; align-items: center; margin-top: 16px; }
form input:not([type]), form input[type="password"] { flex: 1 1 220px; min-width: 0; }
form input, button { font: inherit; color: var(--text); background: var(--card); max-width: 100%;
  border: 1px solid var(--muted); border-radius: 8px; padding: 4px 12px; }
button { cursor: pointer; }
button[aria-pressed="true"] { border-color: var(--train);
  box-shadow: inset 0 0 0 1px var(--train); }
[hidden] { display: none !important; }
caption { text-align: left; font-weight: 600; padding: 14px 0 4px; }
#done { min-height: 1.5em; margin-top: 10px; }
#answer { border-left: 3px solid var(--train); padding-left: 12px; overflow-wrap: anywhere; }
@media (max-width: 600px) { main { padding: 18px 10px 32px; } section { padding: 12px; }
  .tiles { grid-template-columns: repeat(auto-fit, minmax(140px, 1fr)); gap: 8px; }
  .tile { padding: 8px 12px; } .tile b { font-size: 18px; }
  .pipeline, .map, .network { min-width: 560px; }
  #loss svg, #pace svg, #rounds svg { min-width: 620px; } }
)";

// Live: the server says which pieces are new. A moment that is past is asked for, and stays.
constexpr char kScript[] = R"(
const slider = document.getElementById('at');
const label = document.getElementById('attext');
const liveButton = document.getElementById('live');
const find = document.getElementById('find');
let live = true, source = null, asked = 0, nodesFirst = 0, nodesAsked = 0;
let seen = document.getElementById('time').dataset.seen;

function clock(s) {
  const whole = Math.round(s), two = (n) => String(n).padStart(2, '0');
  const days = Math.floor(whole / 86400), hours = Math.floor(whole / 3600) % 24;
  const time = `${hours}:${two(Math.floor(whole / 60) % 60)}:${two(whole % 60)}`;
  return days > 0 ? `day ${days + 1}, ${time}` : time;
}
// A piece is replaced without losing where its reader was: what has the focus, how far it is
// scrolled; and not while its text is selected.
function put(id, html) {
  const place = document.getElementById(id);
  if (!place) return;
  const selection = getSelection();
  if (selection && !selection.isCollapsed && place.contains(selection.anchorNode)) return;
  const named = (e) =>
    e.dataset.key || (e.classList.contains('scroll') && e.getAttribute('aria-label'));
  const active = place.contains(document.activeElement) ? named(document.activeElement) : '';
  const scrolled = [...place.querySelectorAll('.scroll')].map((e) => [named(e), e.scrollLeft]);
  place.innerHTML = html;
  for (const e of place.querySelectorAll('.scroll,[data-key]')) {
    if (active && named(e) === active) e.focus({ preventScroll: true });
    for (const [name, left] of scrolled) if (left > 0 && named(e) === name) e.scrollLeft = left;
  }
}
function show(pieces) {
  for (const [id, html] of Object.entries(pieces)) {
    if (id === 'nodes' && live && nodesAreOwn()) askForNodes();
    else put(id, html);
  }
  showFinding();
}
// Of many nodes some are shown: a page of them, or those that were looked for.
function nodesAreOwn() { return nodesFirst > 0 || find.value.trim() !== ''; }
function showFinding() {
  document.getElementById('finding').hidden =
    !live || (!document.getElementById('nodesnote') && !nodesAreOwn());
}
async function askForNodes() {
  const mine = ++nodesAsked;
  const wanted = encodeURIComponent(find.value.trim());
  const answer = await fetch(`nodes?first=${nodesFirst}&find=${wanted}`);
  if (answer.ok && mine === nodesAsked && live) put('nodes', await answer.text());
  showFinding();
}
function turn(by) {
  const rows = document.querySelectorAll('#nodes tbody tr').length;
  if (by > 0 && rows < by) return;
  nodesFirst = Math.max(0, nodesFirst + by);
  askForNodes();
}
find.addEventListener('input', () => { nodesFirst = 0; askForNodes(); });
document.getElementById('finding').addEventListener('submit', (event) => {
  event.preventDefault();
  const by = event.submitter ? Number(event.submitter.value) : 0;
  if (by) turn(by); else askForNodes();
});
function setLive(on) {
  live = on;
  liveButton.setAttribute('aria-pressed', String(on));
  if (on && source === null) listen();
  if (!on && source !== null) { source.close(); source = null; seen = ''; }
}
function listen() {
  source = new EventSource(`live?seen=${seen}`);
  source.onmessage = (event) => {
    const news = JSON.parse(event.data);
    lookAtAdmission(news.admission);
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
showFinding();
)";

// What only the operator sees and does. The token is kept for this window and this address, and
// sent in a header, so that no other page can make the browser send it.
constexpr char kOperatorScript[] = R"('use strict';
const byId = (id) => document.getElementById(id);
let token = sessionStorage.getItem('skerry-token') || '', seenAdmission = null;

function say(text, answer) {
  byId('done').textContent = text;
  byId('answer').textContent = (answer || '').trim();
  byId('answer').hidden = !answer;
}
async function ask(path, options) {
  const headers = { Authorization: `Bearer ${token}` };
  const answer = await fetch(path, { ...options, headers });
  if (answer.status === 401) {
    token = '';
    sessionStorage.removeItem('skerry-token');
    byId('operating').hidden = true;
    byId('enter').hidden = false;
    document.body.classList.remove('operates');
  }
  return answer;
}
async function showAdmission() {
  const answer = await ask('admission');
  const text = await answer.text();
  if (!answer.ok) return say(text);
  const key = document.activeElement && document.activeElement.dataset.key;
  byId('admission').innerHTML = text;
  for (const button of byId('admission').querySelectorAll('button')) {
    if (key && button.dataset.key === key) button.focus();
  }
  byId('operating').hidden = false;
  byId('enter').hidden = true;
  document.body.classList.add('operates');
}
function lookAtAdmission(version) {
  if (!token || version === seenAdmission) return;
  seenAdmission = version;
  showAdmission();
}
async function order(what) {
  say('…');
  const answer = await ask('api/do', { method: 'POST', body: JSON.stringify(what) });
  if (!answer.ok) return say(await answer.text());
  const { ok, text } = await answer.json();
  const long = text.trim().includes('\n');
  if (!ok) say('It was not done.', text);
  else if (what.do === 'ticket') say('The ticket, for a volunteer:', text);
  else if (long) say('The journal says:', text);
  else say(text);
}
const weighty = {
  pause: 'Pause the run? Its nodes stay, and nothing is lost.',
  deny: 'Keep this node out, and put it out if it is here?',
  revoke: 'Make this ticket void?',
};
function decide(what) {
  if (!weighty[what.do] || window.confirm(weighty[what.do])) order(what);
}
byId('operator').hidden = false;
byId('enter').addEventListener('submit', (event) => {
  event.preventDefault();
  token = byId('token').value.trim();
  byId('token').value = '';
  sessionStorage.setItem('skerry-token', token);
  say('');
  showAdmission();
});
byId('admission').addEventListener('click', (event) => {
  const button = event.target.closest('button[data-do]');
  if (button) {
    const { node, ticket, policy } = button.dataset;
    decide({ do: button.dataset.do, node, ticket, policy });
  }
});
byId('nodes').addEventListener('click', (event) => {
  const button = event.target.closest('button[data-do]');
  if (!button) return;
  if (token) return decide({ do: button.dataset.do, node: button.dataset.node });
  say('Give the token first.');
  byId('token').focus();
});
byId('decide').addEventListener('submit', (event) => {
  event.preventDefault();
  const does = event.submitter ? event.submitter.value : 'evidence';
  decide({ do: does, node: byId('who').value, why: byId('why').value });
});
byId('command').addEventListener('submit', (event) => {
  event.preventDefault();
  const does = event.submitter ? event.submitter.value : 'resume';
  decide({ do: does, why: does === 'pause' ? byId('pausewhy').value : '' });
});
byId('issue').addEventListener('submit', (event) => {
  event.preventDefault();
  order({ do: 'ticket', uses: Number(byId('uses').value), expires: byId('expires').value,
          endpoint: byId('endpoint').value, asks: byId('asks').checked });
});
)";

}  // namespace

std::string DashboardScript() {
  return std::string(kOperatorScript) + kScript;
}

std::string DashboardPage(const DashboardPieces& pieces, const RunReport& report,
                          const std::string& seen) {
  std::string body;
  for (const auto& [id, html] : pieces) {
    if (id == "nodes") {
      body += absl::StrFormat(
          "<form id=\"finding\" hidden><label for=\"find\">Nodes with <span class=\"muted\">(part "
          "of a name, region, stage 0, waits, gone …)</span></label><input id=\"find\" "
          "autocomplete=\"off\" spellcheck=\"false\" maxlength=\"60\"><button "
          "value=\"-%d\">before</button><button value=\"%d\">next</button></form>",
          kNodesShown, kNodesShown);
    }
    body += "<div id=\"" + id + "\">" + html + "</div>";
    if (id != "heading") continue;
    body += "<div id=\"time\" data-seen=\"" + EscapeHtml(seen) +
            "\"><button type=\"button\" id=\"live\" aria-pressed=\"true\">live</button><input "
            "type=\"range\" id=\"at\" min=\"0\" max=\"1\" value=\"1\" aria-label=\"moment of the "
            "run, in seconds\"><span id=\"attext\" class=\"muted\">now</span></div>";
  }
  return HtmlPage(report.name.empty() ? "Skerry" : report.name + " · Skerry",
                  body + AdmissionForms() + "<script src=\"dashboard.js\"></script>",
                  kStyle + GanttStyle());
}

}  // namespace skerry
