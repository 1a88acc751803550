// The dashboard as people meet it: in a browser, of a run that trains. What is shown is held to
// what the programs' JSON says.

#include <signal.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bench/siege/program_run.h"
#include "tests/coordinator/dashboard_browser.h"

using namespace skerry;
using nlohmann::json;
using skerry::siege::ProgramRun;
using skerry::siege::TextOf;
using skerry::siege::WaitFor;
using skerry::testing::AccessibilityFaults;
using skerry::testing::Browser;

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
  const json paused = training.Said("status");
  CHECK(paused["phase"] == "paused");
  CHECK(paused["step"] == paused["orders"]["at_step"]);
  WaitFor(training.run.Log("one"), "the run is paused by its operator", training.nodes[0]);
  CHECK(Has(browser.Text("#nodes"), "waits for the run's operator, who paused it"));

  CHECK(training.run.Say({"resume", training.run.Dir()}) == "the run goes on");
  browser.Await("document.querySelector('#heading .now').textContent === 'training'");
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

// Of a run that stands still every figure can be compared.
void CompareWithTheJson(Browser& browser, const std::string& url) {
  const auto get = [&](const std::string& path) {
    return browser.Run("const request = new XMLHttpRequest(); request.open('GET', '" + url + path +
                       "', false); request.send(); return JSON.parse(request.responseText);");
  };
  const json status = get("api/status"), report = get("api/report");
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
  CHECK(browser.Run("return document.querySelectorAll('#rounds tbody tr').length;") == 2);
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
    for (const int width : {360, 1280}) {
      browser.Look(width, 800, dark);
      INFO(width << (dark ? " dark" : " light"));
      CHECK(browser.Run("return document.documentElement.scrollWidth;") <= width);
      CHECK(AccessibilityFaults(browser) == std::vector<std::string>{});
    }
  }
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
  CHECK(browser->Complaints() == std::vector<std::string>{});
  SeeFaults(*browser);
}
