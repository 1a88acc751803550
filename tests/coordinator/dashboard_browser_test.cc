// The dashboard in a browser, of a run that trains, held to what the programs' JSON says.

#include <signal.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "bench/dashboard_browser.h"
#include "bench/siege/program_run.h"

using namespace skerry;
using bench::AccessibilityFaults;
using bench::AxeFaults;
using bench::Browser;
using nlohmann::json;
using skerry::siege::ProgramRun;
using skerry::siege::TextOf;
using skerry::siege::WaitFor;

namespace {

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string Trimmed(const std::string& text) {
  return text.substr(0, text.find_last_not_of("\n ") + 1);
}

// Two stages of two nodes, 20 ms apart, at work until they are told to end; a fifth that asks.
class Training {
 public:
  Training() : run(4, 1'000'000, 20, 2) {
    run.Serve("127.0.0.1:0");
    const std::string ticket =
        run.Say({"ticket", run.Dir(), "--uses", "4", "--endpoint", run.Endpoint()});
    const std::string asking =
        run.Say({"ticket", run.Dir(), "--approve", "--endpoint", run.Endpoint()});
    for (const char* name : {"one", "two", "three", "four"})
      nodes.push_back(run.Join(ticket, name));
    nodes.push_back(run.Join(asking, "guest"));
    WaitFor(run.Log("guest"), "waiting for the operator's approval", nodes.back());
    url = Trimmed(TextOf(run.at / "run" / "dashboard"));
  }
  std::string Token() const { return Trimmed(TextOf(run.at / "run" / "dashboard.token")); }
  json Said(const std::string& command) const {
    return json::parse(run.Say({command, run.Dir(), "--json"}));
  }
  // As after a power cut: same directory, same addresses.
  void RestartCoordinator() {
    const std::string endpoint = run.Endpoint();
    const std::string address = url.substr(7, url.size() - 8);
    kill(run.coordinator->pid(), SIGKILL);
    run.coordinator->Wait();
    std::filesystem::remove(run.Log("coordinator"));
    run.Serve(address, endpoint);
  }

  ProgramRun run;
  std::vector<ChildProcess> nodes;
  std::string url;
};

void SeeItMove(Browser& browser, Training& training) {
  browser.Open(training.url);
  browser.Await("document.querySelector('#tiles b').textContent.startsWith('1')");
  browser.Run("window.sameWindow = true;");
  browser.Await(
      "document.querySelectorAll('#pipeline .box.works, #pipeline .box.waits').length === 4");
  browser.Await("document.querySelector('#gantt svg') && document.querySelector('#rounds svg')");
  const json status = training.Said("status");
  for (const json& node : status["nodes"]) {
    CHECK(Has(browser.Text("#nodes"), node["id"].get<std::string>()));
  }
  CHECK(Has(browser.Text("#heading"), status["run"].get<std::string>()));
}

void AdmitAGuest(Browser& browser, Training& training) {
  const std::string guest = training.Said("admission")["waiting"][0]["node"];
  browser.Type("#token", "0123");
  browser.Click("#enter button");
  browser.Await("document.querySelector('#done').textContent.includes('not the token')");
  browser.Complaints();  // the browser notes the refusal
  browser.Type("#token", training.Token());
  browser.Click("#enter button");
  browser.Await("document.querySelectorAll('#admission table').length > 0");
  CHECK(Has(browser.Text("#admission"), guest.substr(0, 8)));
  browser.Click("#admission button[data-do='admit'][data-node='" + guest + "']");
  browser.Await("document.querySelector('#done').textContent.includes('is admitted')");
  browser.Await("document.querySelector('#admission').textContent.includes('has joined')");
  CHECK(training.Said("admission")["allowed"][0]["joined"] == true);

  browser.Type("#who", guest.substr(0, 12));
  browser.Type("#why", "it is <b>slow</b>");
  browser.Click("#decide button[value='deny']");  // the question is answered with yes
  browser.Await("document.querySelector('#admission').textContent.includes('it is <b>slow</b>')");
  CHECK(training.nodes.back().Wait() == "exit code 2");
  browser.Click("#admission button[data-do='evidence'][data-node='" + guest + "']");
  browser.Await("document.querySelector('#answer').textContent.includes('the operator said deny')");
  CHECK(browser.Text("#answer") ==
        Trimmed(training.run.Say({"evidence", training.run.Dir(), guest})));
}

void MakeATicket(Browser& browser, Training& training) {
  browser.Type("#uses", "3");
  browser.Click("#issue button");
  browser.Await("document.querySelector('#answer').textContent.startsWith('skerry1-')");
  const std::string ticket = browser.Text("#answer");
  browser.Await("document.querySelector('#admission').textContent.includes('0 of 3')");
  CHECK(training.Said("admission")["tickets"].size() == 3);
  CHECK(training.run.Say({"revoke", training.run.Dir(), ticket}).find("admits nobody") !=
        std::string::npos);
  browser.Await("document.querySelector('#admission').textContent.includes('revoked')");
  browser.Click("#admission button[data-policy='listed']");
  browser.Await("document.querySelector(\"[data-policy='listed']\").ariaPressed === 'true'");
  CHECK(training.Said("admission")["policy"] == "listed");
}

void PauseAndGoOn(Browser& browser, Training& training) {
  browser.Type("#pausewhy", "the <i>power</i> is cut");
  browser.Click("#command button[value='pause']");  // the question is answered with yes
  browser.Await("document.querySelector('#done').textContent.includes('the run pauses at step')");
  browser.Await(
      "document.querySelector('#heading').textContent.includes('paused by the operator')");
  CHECK(Has(browser.Text("#heading"), "the <i>power</i> is cut"));
  CHECK_FALSE(Has(browser.Text("#tiles"), "to go"));
  const json paused = training.Said("status");
  CHECK(paused["phase"] == "paused");
  CHECK(paused["step"] == paused["orders"]["at_step"]);
  WaitFor(training.run.Log("one"), "the run is paused by its operator", training.nodes[0]);
  CHECK(Has(browser.Text("#nodes"), "waits for the run's operator, who paused it"));

  CHECK(training.run.Say({"resume", training.run.Dir()}) == "the run goes on");
  browser.Await("document.querySelector('#heading .now').textContent.startsWith('training a ')");
  const json before = training.Said("status")["step"];
  CHECK(before >= paused["step"]);
}

// The window of before comes back to life by itself.
void SurviveARestart(Browser& browser, Training& training) {
  training.RestartCoordinator();
  const std::string step = "Number(document.querySelector('#tiles b').textContent.split(' ')[0])";
  const json before = browser.Run("return " + step + ";");
  browser.Await(step + " > " + std::to_string(before.get<int64_t>() + 20));
  CHECK(browser.Run("return window.sameWindow === true;") == true);
  browser.Complaints();  // of the connection that was cut
}

json Got(Browser& browser, const std::string& url) {
  const json text = browser.Run("const request = new XMLHttpRequest(); request.open('GET', '" +
                                url + "', false); request.send(); return request.responseText;");
  json lines = json::array();  // of one object, or of several lines of them
  std::istringstream in(text.get<std::string>());
  if (const json whole = json::parse(text.get<std::string>(), nullptr, false);
      !whole.is_discarded())
    return whole;
  for (std::string line; std::getline(in, line);) lines.push_back(json::parse(line));
  return lines;
}

json CellsOf(Browser& browser, const std::string& table) {
  return browser.Run("return [...document.querySelectorAll('" + table +
                     " tbody tr')].map(r => [...r.children].map(c => c.innerText));");
}

// Of a run that stands still every figure can be compared.
void CompareWithTheJson(Browser& browser, const std::string& url) {
  const json status = Got(browser, url + "api/status"), report = Got(browser, url + "api/report");
  const auto rows = browser.Run(
      "return [...document.querySelectorAll('#nodes tbody tr')].map("
      "r => [...r.children].map(c => c.innerText));");
  REQUIRE(rows.size() == status["nodes"].size());
  for (size_t i = 0; i < rows.size(); ++i) {
    const json& node = status["nodes"][i];
    CHECK(rows[i][0] == node["id"]);
    CHECK(rows[i][1] == node["region"]);
    CHECK(rows[i][4] == std::to_string(node["step"].get<int64_t>()));
    CHECK(rows[i][5] == std::to_string(node["base_version"].get<int64_t>()));
    CHECK(Has(rows[i][9], std::to_string(node["rounds_counted"].get<int64_t>()) + " rounds"));
    CHECK(Has(rows[i][9], "put out") == node["out"].get<bool>());
    CHECK(rows[i][11] == node["device"]);
    CHECK(rows[i][12] == node["reach"]);
    CHECK(rows[i][13] == node["software"]);
  }
  const std::string tiles = browser.Text("#tiles");
  CHECK(Has(tiles, std::to_string(status["step"].get<int64_t>()) + " of 1000000"));
  CHECK(Has(tiles, absl::StrFormat("%.3f", report["loss_final"].get<double>())));
  CHECK(Has(tiles, "\n" + std::to_string(report["outer_rounds"].get<int64_t>()) + "\n"));
  CHECK(browser.Run("return document.querySelectorAll('#links td.link').length;") ==
        status["links"]);
  CHECK(browser.Run("return document.querySelectorAll('#pipeline .box').length;") == 4);
  CHECK(browser.Run("return document.querySelectorAll('#gantt rect').length;") > 8);
  CHECK(Has(browser.Text("#plan"), "stage"));
  // The past: before the plan there was no pipeline.
  browser.Run(
      "const at = document.getElementById('at'); at.value = 0;"
      "at.dispatchEvent(new Event('input'));");
  browser.Await("document.querySelector('#heading').textContent.includes('as it was then')");
  CHECK(browser.Text("#pipeline").empty());
  browser.Click("#live");
  browser.Await("document.querySelectorAll('#pipeline .box').length === 4");
}

// Each cell has its newest reading.
void CompareLinks(Browser& browser, const std::vector<json>& readings) {
  std::map<std::pair<std::string, std::string>, json> links;
  for (const json& link : readings) links[{link["from"], link["to"]}] = link;
  const json heads = browser.Run(
      "return [...document.querySelectorAll('#links thead th')].map(c => c.innerText);");
  int compared = 0;
  for (const json& row : CellsOf(browser, "#links")) {
    const std::string from = row[0].get<std::string>().substr(0, 8);
    for (size_t i = 1; i < row.size(); ++i) {
      const auto link = links.find({from, heads[i].get<std::string>()});
      if (link == links.end()) continue;
      ++compared;
      const auto rtt_ms = link->second["rtt_ms"].get<double>();
      CHECK(
          Has(row[i].get<std::string>(), absl::StrFormat("%.*f ms", rtt_ms < 10 ? 1 : 0, rtt_ms)));
    }
  }
  CHECK(compared == static_cast<int>(links.size()));
}

// Each row is the round that the report tells, and the log's newest is among the first.
void CompareRounds(Browser& browser, const json& report, const std::vector<json>& events) {
  const json& rounds = report["newest_rounds"];
  const json rows = CellsOf(browser, "#rounds .scroll[aria-label=\"newest rounds\"]");
  REQUIRE(rounds.size() >= 2);
  REQUIRE(rows.size() == rounds.size());
  const json& last = events.back();  // two may be of one moment
  CHECK(std::any_of(rounds.begin(), rounds.begin() + 2, [&](const json& round) {
    return round["round"] == last["round"] && round["stage"] == last["stage"] &&
           round["took_part"] == last["participants"];
  }));
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto cell = [&](size_t column) { return rows[i][column].get<std::string>(); };
    const json& round = rounds[i];
    CHECK(cell(0) == std::to_string(round["round"].get<int64_t>()));
    CHECK(cell(1) == std::to_string(round["stage"].get<int64_t>()));
    for (const json& node : round["took_part"]) CHECK(Has(cell(2), node.get<std::string>()));
    for (const json& one : round["missing"])
      CHECK(Has(cell(3), one["node"].get<std::string>() + " " + one["why"].get<std::string>()));
    if (round["missing_count"] == 0) CHECK(cell(3) == "nobody");
    if (!round["hidden"].is_null())
      CHECK(Has(cell(5), absl::StrFormat("%.0f %% of", 100 * round["hidden"].get<double>())));
    for (const auto& [digest, count] : round["digests"].items())
      CHECK(Has(cell(6), digest + " × " + std::to_string(count.get<int64_t>())));
  }
  const json stages = CellsOf(browser, "#rounds .scroll[aria-label=\"outer rounds\"]");
  REQUIRE(stages.size() == report["stage_rounds"].size());
  for (size_t i = 0; i < stages.size(); ++i) {
    const json& stage = report["stage_rounds"][i];
    CHECK(stages[i][2] == std::to_string(stage["rounds"].get<int64_t>()));
    CHECK(stages[i][6] == absl::StrFormat("%.1f %%", 100 * stage["hidden"].get<double>()));
    CHECK(Has(stages[i][7].get<std::string>(), stage["digest"].get<std::string>()));
  }
}

// The views of what went on, held to the events that they are made of.
void CompareViews(Browser& browser, const std::string& url) {
  const json report = Got(browser, url + "api/report");
  std::map<std::string, std::vector<json>> events;
  for (int first = 0;; first += 1000) {
    const json lines = Got(browser, url + "api/events?first=" + std::to_string(first));
    for (const json& line : lines) events[line["kind"]].push_back(line);
    if (lines.size() < 1000) break;
  }
  CompareRounds(browser, report, events["round"]);
  CompareLinks(browser, events["link"]);
  // The Gantt is of the newest trace, task by task.
  const json& trace = events["trace"].back();
  CHECK(Has(browser.Text("#gantt"), absl::StrFormat("Step %d took", trace["step"].get<int64_t>())));
  CHECK(browser.Run("return document.querySelectorAll('#gantt rect:not(.gp)').length;") ==
        trace["tasks"].size());
  CHECK(browser.Run("return document.querySelectorAll('#gantt rect.gp').length;") ==
        trace["predicted"].size());
  // What happened: the newest first, every node that came back and every order.
  const std::string told = browser.Text("#events");
  CHECK(Has(told, "The operator pauses the run at step " +
                      std::to_string(events["paused"].back()["step"].get<int64_t>())));
  for (const json& event : events["returned"])
    CHECK(Has(told, event["node"].get<std::string>() + " came back"));
  // The map has the place that all of them named, and how many are there.
  CHECK(Has(browser.Run("return document.getElementById('map').textContent;").get<std::string>(),
            "frankfurt × "));
  std::set<std::set<std::string>> pairs;
  for (const json& link : events["link"])
    pairs.insert(std::set<std::string>{link["from"], link["to"]});
  CHECK(browser.Run("return document.querySelectorAll('#network path.way').length;") ==
        pairs.size());
  CHECK(browser.Run("return document.querySelectorAll('#loss polyline').length;") >= 1);
  CHECK(browser.Run("return document.querySelectorAll('#pace svg').length;") == 1);
}

// The checks find what they are there for.
void SeeFaults(Browser& browser) {
  browser.Run(
      "document.querySelector('main').insertAdjacentHTML('beforeend', '<div id=\"live\"><button>"
      "</button><p style=\"color: #999; background: #aaa\">pale</p><h6>deep</h6></div>');");
  std::string faults;
  for (const std::string& fault : AccessibilityFaults(browser)) faults += fault + "\n";
  for (const char* rule : {"control-name", "color-contrast", "heading-order", "duplicate-id"}) {
    INFO(faults);
    CHECK(Has(faults, rule));
  }
}

void FitEveryScreen(Browser& browser) {
  for (const bool dark : {false, true}) {
    for (const int width : {360, 768, 1280, 1920}) {
      browser.Look(width, 800, dark);
      INFO(width << (dark ? " dark" : " light"));
      CHECK(browser.Run("return document.documentElement.scrollWidth;") <= width);
      CHECK(AccessibilityFaults(browser) == std::vector<std::string>{});
      CHECK(AxeFaults(browser) == std::vector<std::string>{});
      // No view by itself is wider than the screen: what is, scrolls in its own frame.
      CHECK(browser.Run("return [...document.querySelectorAll('main > *')].filter((e) => "
                        "e.getBoundingClientRect().right > innerWidth + 1).map((e) => e.id);") ==
            json::array());
    }
  }
}

// Tab leads through all that can be used, in the order of the page, and what has the focus shows
// it.
void ReachEverythingByKeys(Browser& browser) {
  browser.Run(
      "document.activeElement.blur(); scrollTo(0, 0); window.reached = [];"
      "document.addEventListener('focusin', (event) => { const e = event.target;"
      "window.reached.push([e, getComputedStyle(e).outlineStyle, [...document.querySelectorAll("
      "'*')].indexOf(e)]); });");
  const json controls = browser.Run(
      "window.wanted = [...document.querySelectorAll('button, input, [tabindex=\"0\"]')].filter("
      "(e) => e.getClientRects().length > 0 && !e.disabled); return window.wanted.length;");
  for (int i = 0; i < 3 * controls.get<int>(); ++i) browser.Press("Tab");
  const json missed = browser.Run(
      "return window.wanted.filter((e) => e.isConnected && !window.reached.some(([r]) => r === e))"
      ".map((e) => e.outerHTML.slice(0, 120));");
  CHECK(missed == json::array());
  CHECK(browser.Run("return window.reached.filter(([e, outline]) => outline === 'none')"
                    ".map(([e]) => e.outerHTML.slice(0, 120));") == json::array());
  CHECK(controls.get<int>() > 10);
}

// What has the focus keeps it while the page goes on under it.
void KeepTheFocus(Browser& browser) {
  browser.Run(
      "const button = document.querySelector('#nodes button'); button.focus();"
      "window.focused = button.dataset.key; window.renewed = 0;"
      "new MutationObserver(() => { ++window.renewed; }).observe(document.getElementById('nodes'),"
      "{ childList: true });");
  browser.Await("window.renewed > 2");
  CHECK(browser.Run("return document.activeElement.dataset.key === window.focused;") == true);
}

}  // namespace

TEST_CASE(
    "A browser shows a live run truly, its operator admits and puts out, a restart is survived",
    "[dashboard][browser]") {
  const auto browser = Browser::Start();
  if (!browser) {
    WARN("skipped: chromium or chromium-driver is not installed");
    return;
  }
  Training training;
  SeeItMove(*browser, training);
  CHECK(browser->Complaints() == std::vector<std::string>{});
  AdmitAGuest(*browser, training);
  MakeATicket(*browser, training);
  PauseAndGoOn(*browser, training);
  KeepTheFocus(*browser);
  FitEveryScreen(*browser);
  CHECK(browser->Complaints() == std::vector<std::string>{});
  SurviveARestart(*browser, training);
  CHECK(browser->Complaints() == std::vector<std::string>{});

  training.run.coordinator.reset();
  training.nodes.clear();
  training.run.ServeDashboardOnly();
  const std::string url = Trimmed(TextOf(training.run.at / "run" / "dashboard"));
  browser->Look(1280, 800, false);
  browser->Open(url);
  browser->Complaints();  // of the window that lost its coordinator
  browser->Await("document.querySelectorAll('#pipeline .box').length === 4");
  CompareWithTheJson(*browser, url);
  CompareViews(*browser, url);
  FitEveryScreen(*browser);
  browser->Look(1280, 800, false);
  ReachEverythingByKeys(*browser);
  CHECK(browser->Complaints() == std::vector<std::string>{});
  SeeFaults(*browser);
}
