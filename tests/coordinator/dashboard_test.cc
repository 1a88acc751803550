#include <httplib.h>
#include <signal.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "coordinator/dashboard_admission.h"
#include "coordinator/dashboard_view.h"
#include "coordinator/event_tail.h"
#include "sim/child_process.h"

namespace skerry {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr char kEvents[] =
    R"({"t":0.0,"utc":"2026-11-22T10:00:00Z","kind":"run","run":"aa","name":"<b>sea</b>","seed":1}
{"t":1.0,"kind":"admitted","node":"11111111","region":"oslo","gflops":10}
{"t":1.5,"kind":"admitted","node":"22222222","region":"rome","gflops":10}
)"
    R"({"t":2.0,"kind":"plan","version":1,"stages":[)"
    R"({"first_layer":0,"last_layer":2,"replicas":["11111111"]},)"
    R"({"first_layer":2,"last_layer":4,"replicas":["22222222"]}]}
{"t":3.0,"kind":"step","step":0,"loss":5.5,"tokens":64}
{"t":4.0,"kind":"step","step":1,"loss":4.5,"tokens":64}
)";

Json Status() {
  const auto node = [](const char* id, int stage, bool alive, const char* waits) {
    return Json{{"id", id},          {"region", "oslo"},    {"stage", stage},
                {"replica", 0},      {"alive", alive},      {"step", 2},
                {"base_version", 0}, {"phase", "training"}, {"waiting_for", waits},
                {"bytes_sent", 10},  {"bytes_received", 5}, {"reachable", true}};
  };
  return {{"phase", "training"},
          {"version", 1},
          {"step", 2},
          {"steps", 8},
          {"loss", 4.5},
          {"tokens_per_s", 100.0},
          {"nodes",
           {node("11111111", 0, true, "gradient of microbatch 3 from 22222222"),
            node("22222222", 1, true, ""), node("33333333", -1, false, "")}}};
}

std::string Piece(const DashboardPieces& pieces, const std::string& id) {
  for (const auto& [name, html] : pieces) {
    if (name == id) return html;
  }
  FAIL("no piece " << id);
  return "";
}

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

struct TempDirectory {
  TempDirectory() {
    std::string name = (fs::temp_directory_path() / "skerry-dashboard-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~TempDirectory() { fs::remove_all(path); }
  fs::path path;
};

std::string Program() {
  return fs::canonical("/proc/self/exe").parent_path().string() + "/skerry-coordinator";
}

struct RunFiles {
  RunFiles() {
    std::ofstream(home.path / "run.toml") << "# a run";
    std::ofstream(home.path / "events.jsonl") << kEvents;
    std::ofstream(home.path / "status.json") << Status().dump();
  }
  void Append(const std::string& text) {
    std::ofstream(home.path / "events.jsonl", std::ios::app) << text;
  }
  TempDirectory home;
};

TEST_CASE("Event tail: new whole lines are read, a half one waits for its end") {
  RunFiles run;
  EventTail tail(run.home.path / "events.jsonl");
  REQUIRE(*tail.Read());
  CHECK(tail.Report().training.size() == 2);
  CHECK_FALSE(*tail.Read());
  run.Append(R"({"t":5.0,"kind":"step","step":2,)");
  CHECK_FALSE(*tail.Read());
  run.Append("\"loss\":4.0,\"tokens\":64}\n");
  REQUIRE(*tail.Read());
  CHECK(tail.Report().training.back() == std::pair<int64_t, double>{2, 4.0});
  CHECK(tail.lines() == 7);
}

TEST_CASE("Event tail: the report of a moment that is past ends there") {
  RunFiles run;
  EventTail tail(run.home.path / "events.jsonl");
  REQUIRE(*tail.Read());
  CHECK(tail.ReportUntil(3.0)->training.size() == 1);
  CHECK(tail.ReportUntil(1.0)->stages.empty());
  CHECK(tail.ReportUntil(1e9)->training.size() == 2);
  const auto lines = tail.Lines(4, 1);
  REQUIRE(lines.ok());
  REQUIRE(lines->size() == 1);
  CHECK(Has(lines->front(), "\"loss\":5.5"));
}

TEST_CASE("Event tail: a shorter file is another one, a missing one is said to be missing") {
  RunFiles run;
  const fs::path file = run.home.path / "events.jsonl";
  EventTail tail(file);
  REQUIRE(*tail.Read());
  std::ofstream(file) << R"({"t":0.0,"kind":"run","name":"other"})"
                      << "\n";
  REQUIRE(*tail.Read());
  CHECK(tail.Report().name == "other");
  CHECK(tail.Report().training.empty());
  CHECK(absl::IsNotFound(EventTail(run.home.path / "none").Read().status()));
}

TEST_CASE("Dashboard: who waits for whom is drawn and said, text from outside is escaped") {
  RunFiles run;
  EventTail tail(run.home.path / "events.jsonl");
  REQUIRE(*tail.Read());
  const DashboardPieces pieces = DashboardView(Status(), 0.5, tail.Report());
  CHECK(Has(Piece(pieces, "heading"), "&lt;b&gt;sea"));
  CHECK(Has(Piece(pieces, "heading"), "training"));
  CHECK(Has(Piece(pieces, "nodes"), "waits for the gradient of microbatch 3 from 22222222"));
  CHECK(Has(Piece(pieces, "nodes"), "class=\"bad\""));  // who is gone
  const std::string picture = Piece(pieces, "pipeline");
  CHECK(Has(picture, "box waits"));
  CHECK(Has(picture, "box works"));
  CHECK(Has(picture, "class=\"waitline\""));
  Json idle = Status();
  idle["nodes"][0]["waiting_for"] = "commit of round 3";
  CHECK_FALSE(Has(PipelineSvg(idle, tail.Report()), "class=\"waitline\""));
}

TEST_CASE("Dashboard: a coordinator that is silent is said to be") {
  RunFiles run;
  EventTail tail(run.home.path / "events.jsonl");
  REQUIRE(*tail.Read());
  CHECK(Has(Piece(DashboardView(Status(), 60, tail.Report()), "heading"), "said nothing for"));
  Json finished = Status();
  finished["phase"] = "finished";
  CHECK(Has(Piece(DashboardView(finished, 60, tail.Report()), "heading"), "finished"));
  CHECK(Has(Piece(DashboardView(nullptr, 0, tail.Report()), "heading"), "as it was then"));
}

TEST_CASE("Dashboard: hundreds of replicas of a stage become a picture without text") {
  RunReport report;
  report.stages.resize(12);
  for (int i = 0; i < 300; ++i) report.stages[3].replicas.push_back(std::to_string(i));
  const std::string picture = PipelineSvg(Json::object(), report);
  CHECK(Has(picture, "box unknown"));
  CHECK_FALSE(Has(picture, "class=\"id\""));
}

TEST_CASE("Dashboard: the loss on held-out text is shown as the run goes") {
  RunReport report;
  report.training = {{0, 5.5}, {1, 5}};
  const auto view = [&] { return DashboardView(Status(), 0, report); };
  CHECK_FALSE(Has(Piece(view(), "tiles"), "held-out"));

  report.validation = {{0, 5.6}, {1, 5.25}};

  CHECK(Has(Piece(view(), "tiles"), "5.250"));
  CHECK(Has(Piece(view(), "tiles"), "after step 1"));
  CHECK(Has(Piece(view(), "loss"), "step 1: 5.2500"));
}

TEST_CASE("Metrics: figures of the status, and nothing that it does not say") {
  const std::string text = MetricsText(Status(), 0.25);
  CHECK(Has(text, "\nskerry_step 2\n"));
  CHECK(Has(text, "\nskerry_nodes_alive 2\n"));
  CHECK(Has(text, "\nskerry_nodes_waiting 1\n"));
  CHECK_FALSE(Has(text, "skerry_relayed_pairs"));
  CHECK(MetricsText(nullptr, 0).empty());
}

// Names in a text that begin with "skerry_".
std::set<std::string> MetricNames(const std::string& text) {
  std::set<std::string> names;
  const std::regex name("skerry_[a-z_]+");
  for (std::sregex_iterator it(text.begin(), text.end(), name), end; it != end; ++it) {
    names.insert(it->str());
  }
  return names;
}

TEST_CASE("Grafana's dashboard asks for what is exported, all of it and nothing else") {
  Json status = Status();
  for (const char* figure : {"rounds", "bytes_sent", "bytes_received", "relayed_pairs"}) {
    status[figure] = 1;
  }
  status["held_out"] = {{"loss", 1.5}, {"step", 8}};
  std::stringstream file;
  file << std::ifstream(SKERRY_PACKAGING "/grafana/skerry.json").rdbuf();
  std::string asked;
  const Json grafana = Json::parse(file.str());
  for (const Json& panel : grafana["panels"]) {
    for (const Json& target : panel["targets"]) {
      const auto expression = target["expr"].get<std::string>();  // of nodes: volunteer_test.cc
      if (!Has(expression, "skerry_node_")) asked += expression + "\n";
    }
  }
  CHECK(MetricNames(asked) == MetricNames(MetricsText(status, 0)));
}

// Of the address that the program wrote; waits for it.
int PortIn(const fs::path& file, ChildProcess& process) {
  std::string url;
  while (!std::getline(std::ifstream(file), url)) {
    if (!process.Ended().empty()) FAIL("the program ended: " << process.Ended());
  }
  const std::string port = url.substr(url.rfind(':') + 1);
  return std::stoi(port);
}

// The program itself, at an address of its own.
struct Served {
  explicit Served(const std::string& host = "127.0.0.1") {
    auto started =
        ChildProcess::Start({Program(), "dashboard", run.home.path.string(), "--bind", host + ":0"},
                            (run.home.path / "log").string());
    REQUIRE(started.ok());
    process.push_back(*std::move(started));
    port = PortIn(run.home.path / "dashboard", process.front());
  }
  httplib::Client Client() const { return httplib::Client("127.0.0.1", port); }

  RunFiles run;
  std::vector<ChildProcess> process;
  int port = 0;
};

TEST_CASE("Dashboard program: the page, what it is made of, and what moved since") {
  Served served;
  auto client = served.Client();
  const auto page = client.Get("/");
  REQUIRE(page);
  CHECK(page->status == 200);
  CHECK(Has(page->get_header_value("Content-Security-Policy"), "default-src 'none'"));
  CHECK(Has(page->body, "id=\"pipeline\""));
  CHECK(Json::parse(client.Get("/api/status")->body)["step"] == 2);
  CHECK(Json::parse(client.Get("/api/report")->body)["seed"] == 1);
  CHECK(Has(Json::parse(client.Get("/at?s=3")->body)["pieces"]["heading"], "as it was then"));
  CHECK(client.Get("/at?s=soon")->status == 400);
  // As browsers ask: brotli would take longer than all the rest.
  const auto packed = client.Get("/", {{"Accept-Encoding", "gzip, deflate, br"}});
  CHECK(packed->get_header_value("Content-Encoding") == "gzip");
  CHECK(Has(packed->body, "id=\"pipeline\""));
  CHECK_FALSE(client.Get("/", {{"Accept-Encoding", "br"}})->has_header("Content-Encoding"));
  CHECK(client.Get("/../run.toml")->status == 404);
  std::string heard;
  bool told = false;
  int messages = 0;
  client.Get("/live", [&](const char* data, size_t size) {
    heard.append(data, size);
    if (Has(heard, "\n\n") && !told) {
      served.run.Append("{\"t\":6.0,\"kind\":\"step\",\"step\":2,\"loss\":3.25,\"tokens\":64}\n");
      told = true;
    }
    return !Has(heard, "4.417") && ++messages < 30;
  });
  CHECK(Has(heard, "4.417"));  // the mean of the last steps
}

TEST_CASE(
    "Dashboard program: names that are made to lead here are refused, strangers want a token") {
  Served served;
  CHECK(served.Client().Get("/", {{"Host", "evil.example"}})->status == 403);
  CHECK(served.Client().Get("/", {{"Host", "localhost:1"}})->status == 200);
  Served open("0.0.0.0");
  CHECK(open.Client().Get("/")->status == 401);
  std::string token;
  std::getline(std::ifstream(open.run.home.path / "dashboard.token"), token);
  REQUIRE(token.size() == 32);
  CHECK(fs::status(open.run.home.path / "dashboard.token").permissions() ==
        (fs::perms::owner_read | fs::perms::owner_write));
  const auto entered = open.Client().Get("/?token=" + token);
  CHECK(entered->status == 200);
  CHECK(Has(entered->get_header_value("Set-Cookie"), "HttpOnly"));
  CHECK(open.Client().Get("/metrics", {{"Authorization", "Bearer " + token}})->status == 200);
  CHECK(open.Client().Get("/", {{"Cookie", "skerry=" + std::string(32, '0')}})->status == 401);
}

TEST_CASE(
    "Operator's commands: what a page asks for becomes arguments, none of them an option of its "
    "own") {
  using Words = std::vector<std::string>;
  const auto of = [](const char* text) { return OperatorCommand(Json::parse(text), "/run"); };
  CHECK(*of(R"({"do":"admit","node":"ab12"})") == Words{"admit", "/run", "ab12"});
  CHECK(*of(R"({"do":"deny","node":"ab12","why":"--policy=open x"})") ==
        Words{"deny", "/run", "ab12", "--why=--policy=open x"});
  CHECK(*of(R"({"do":"revoke","ticket":"00ff"})") == Words{"revoke", "/run", "00ff"});
  CHECK(*of(R"({"do":"ticket","uses":3,"expires":"24h","endpoint":"","asks":true})") ==
        Words{"ticket", "/run", "--uses=3", "--expires=24h", "--approve"});
  CHECK(*of(R"({"do":"policy","policy":"listed"})") ==
        Words{"admission", "/run", "--policy=listed"});
  CHECK(*of(R"({"do":"pause","why":"--now"})") == Words{"pause", "/run", "--why=--now"});
  CHECK(*of(R"({"do":"resume","why":"x"})") == Words{"resume", "/run"});
  CHECK(*of(R"({"do":"checkpoint"})") == Words{"checkpoint", "/run"});
  const char* refused = GENERATE(R"({"do":"serve"})", R"({"do":"admit","node":"--why"})", R"([1])",
                                 R"({"do":"admit"})", R"({"do":"ticket","uses":0})",
                                 R"({"do":"deny","node":"ab","why":"two\nlines"})", R"("admit")");
  CHECK(absl::IsInvalidArgument(of(refused).status()));
}

TEST_CASE("Admission panel: what strangers say of themselves is escaped, buttons name their node") {
  const Json admission = {{"policy", "approve"},
                          {"admitted", 2},
                          {"waiting", {{{"node", "ab12cd34ef"}, {"device", "<script>"}}}},
                          {"banned", {{{"node", "77"}, {"why", "its digest differs"}}}}};
  const std::string html = AdmissionPanel(admission);
  CHECK(Has(html, "&lt;script&gt;"));
  CHECK(Has(html, "aria-label=\"admit node ab12cd34\""));
  CHECK(Has(html, "data-do=\"evidence\" data-node=\"77\""));
  CHECK(Has(AdmissionPanel(Json()), "said nothing"));
}

TEST_CASE("Dashboard program: nothing is done, and admission not shown, without the token") {
  Served served;
  const std::string order = R"({"do":"deny","node":"ab12"})";
  auto client = served.Client();
  CHECK(client.Get("/api/admission")->status == 401);
  CHECK(client.Post("/api/do", order, "application/json")->status == 401);
  std::string token;
  std::getline(std::ifstream(served.run.home.path / "dashboard.token"), token);
  REQUIRE(token.size() == 32);
  // Not where a page from elsewhere could have a browser put it.
  CHECK(client
            .Post(("/api/do?token=" + token).c_str(), {{"Cookie", "skerry=" + token}}, order,
                  "application/json")
            ->status == 401);
  const httplib::Headers operators = {{"Authorization", "Bearer " + token}};
  CHECK(client.Post("/api/do", operators, "{}", "application/json")->status == 400);
  CHECK(client.Get("/api/do", operators)->status == 404);
  const auto answer = client.Post("/api/do", operators, order, "application/json");
  REQUIRE(answer->status == 200);
  CHECK(Json::parse(answer->body)["ok"] == false);  // this run has no key: the command says so
  CHECK_FALSE(fs::exists(served.run.home.path / "orders.jsonl"));
  CHECK(client.Post("/api/do", operators, std::string(3000, ' '), "application/json")->status ==
        413);
}

// What the program says when it ends at once.
std::string Refusal(const fs::path& place, CommandLine arguments) {
  arguments.insert(arguments.begin(), Program());
  auto process = ChildProcess::Start(arguments, (place / "log").string());
  REQUIRE(process.ok());
  CHECK(process->Wait() == "exit code 1");
  std::stringstream said;
  said << std::ifstream(place / "log").rdbuf();
  return said.str();
}

TEST_CASE("Dashboard program: a directory without a run and an address that is none are refused") {
  TempDirectory empty;
  CHECK(Has(Refusal(empty.path, {"dashboard", empty.path.string()}), "no run is there"));
  RunFiles run;
  CHECK(Has(Refusal(run.home.path, {"dashboard", run.home.path.string(), "--bind", "7780"}),
            "want host:port"));
}

TEST_CASE("Dashboard program: a run that is served has one, which ends with it") {
  TempDirectory home;
  std::ofstream text(home.path / "text.txt");
  for (int i = 0; i < 20'000; ++i) text << "line " << i * 7919 % 1000 << " of it.\n";
  text.close();
  const std::string run = (home.path / "run").string();
  REQUIRE(
      RunAndCapture({Program(), "init", run, "--data", (home.path / "text.txt").string()}).ok());
  auto coordinator = ChildProcess::Start(
      {Program(), "serve", run, "--bind", "tcp://127.0.0.1:*", "--dashboard", "127.0.0.1:0"},
      (home.path / "log").string());
  REQUIRE(coordinator.ok());
  const int port = PortIn(home.path / "run" / "dashboard", *coordinator);
  const auto page = httplib::Client("127.0.0.1", port).Get("/");
  REQUIRE(page);
  CHECK(Has(page->body, "run <code>"));
  kill(coordinator->pid(), SIGKILL);
  coordinator->Wait();
  while (httplib::Client("127.0.0.1", port).Get("/")) {
  }
}

}  // namespace
}  // namespace skerry
