// What people and programs see of a run.

#include <set>

#include "absl/strings/str_split.h"
#include "coordinator/listings.h"
#include "coordinator/nodes_table.h"
#include "coordinator/screen.h"
#include "tests/coordinator/served_run.h"

using namespace skerry;
using skerry::testing::Node;
using skerry::testing::ServedRun;

TEST_CASE("The status names the phase, every node, what it does and what it waits for",
          "[coordinator]") {
  ServedRun run;
  auto status = [&] {
    run.Pass(1);
    return nlohmann::json::parse(run.status);
  };
  CHECK(status()["phase"] == "waiting for nodes");
  for (int i = 0; i < 4; ++i) run.From(i, ServedRun::HelloOf(i));
  CHECK(status()["phase"] == "measuring links");
  run.context.sends.clear();
  run.Pass(11);  // the first probes are lost
  for (int i = 0; i < 4; ++i) run.From(i, ServedRun::HelloOf(i));
  run.AnswerProbes();
  for (int second = 0; second < 40 && !run.state().plan; ++second) {
    run.Pass(1);
    for (int i = 0; i < 4; ++i) run.From(i, DeltaHeld{});
    run.AnswerProbes();
    run.RunJobs();
  }
  REQUIRE(run.state().plan);

  const NodeId node = run.Live(1)[0];
  Heartbeat beat;
  beat.phase = Phase::kWaitingForPeers;
  beat.step = 3;
  beat.base_version = 1;
  beat.waiting_for = "gradient of microbatch 5 from 3fa9";
  beat.bytes_sent = 11;
  beat.bytes_received = 12;
  run.From(node, beat);
  run.From(run.Live(0)[0], StepReport{0, {{0, 10, 6.0f}, {1, 10, 2.0f}}});

  const auto now = status();
  CHECK(now["phase"] == "training");
  CHECK(now["step"] == 1);
  CHECK(now["steps"] == 4);
  CHECK(now["loss"] == 4.0);
  CHECK(now["tokens"] == 20);
  CHECK(now["version"] == 1);
  CHECK(now["bytes_sent"] == 11);
  REQUIRE(now["nodes"].size() == 4);
  const auto found = std::find_if(now["nodes"].begin(), now["nodes"].end(),
                                  [&](const auto& n) { return n["id"] == node.Short(); });
  REQUIRE(found != now["nodes"].end());
  CHECK((*found)["stage"] == 1);
  CHECK((*found)["phase"] == "waiting for peers");
  CHECK((*found)["waiting_for"] == beat.waiting_for);
  CHECK((*found)["step"] == 3);
  CHECK((*found)["base_version"] == 1);
  CHECK((*found)["alive"] == true);
  CHECK((*found)["bytes_received"] == 12);

  run.From(node, Leave{"interrupted"});
  const auto left = status();
  for (const auto& other : left["nodes"]) {
    if (other["id"] == node.Short()) CHECK(other["phase"] == "gone");
    if (other["id"] == node.Short()) CHECK(other["waiting_for"] == "");
  }
}

TEST_CASE("After a restart the status goes on where the journal stands", "[coordinator]") {
  ServedRun run;
  run.Gather();
  run.From(run.Live(0)[0], StepReport{0, {{0, 10, 6.0f}, {1, 10, 2.0f}}});
  run.Restart();
  const auto now = nlohmann::json::parse(run.status);
  CHECK(now["step"] == 1);
  CHECK(now["loss"] == 4.0);
  CHECK(now["tokens"] == 20);
}

TEST_CASE("Nodes and plan are listed from the journal alone, the dead and standbys told apart",
          "[coordinator]") {
  ServedRun run;
  CHECK(PlanJson(run.Fold(), run.config).is_null());
  CHECK(PlanText(run.Fold(), run.config).find("no plan yet") == 0);
  run.Gather();
  const NodeId dead = run.Live(1)[0];
  run.From(dead, skerry::Leave{""});

  const auto nodes = NodesJson(run.Fold(), run.config, nullptr);
  REQUIRE(nodes.size() == 4);
  for (const auto& node : nodes) {
    CHECK(node["takes_part"] == (node["id"] != dead.Hex()));
    CHECK(node["alive"] == (node["id"] != dead.Hex()));
    CHECK(node["stage"].get<int>() >= 0);
  }
  const auto plan = PlanJson(run.Fold(), run.config);
  CHECK(plan["version"] == 2);
  CHECK(plan["stages"].size() == 2);
  CHECK(plan["paths"].size() == run.state().plan->paths.size());
  CHECK(plan["chosen"]["overlap_steps"].is_null());  // the operator did
  CHECK(PlanText(run.Fold(), run.config).find(", dead)") != std::string::npos);
  CHECK(NodesTable(NodesJson(run.Fold(), run.config, nullptr), 0).find("gone") !=
        std::string::npos);

  run.From(dead, ServedRun::HelloOf(0));
  CHECK(NodesTable(NodesJson(run.Fold(), run.config, nullptr), 0).find("standby") !=
        std::string::npos);
}

TEST_CASE("What the first plan waits for is said: links, and then that it is chosen",
          "[coordinator]") {
  ServedRun run;
  std::set<std::string> phases;
  const auto look = [&] {
    run.Pass(1);
    const auto status = nlohmann::json::parse(run.status);
    phases.insert(status["phase"]);
    CHECK(StatusLine(status).starts_with(status["phase"].get<std::string>()));
  };
  for (int second = 0; second < 60 && !run.state().plan; ++second) {
    for (int i = 0; i < 4; ++i) run.From(i, ServedRun::HelloOf(i));
    look();
    run.AnswerProbes();
    look();
    run.RunJobs();
  }
  REQUIRE(run.state().plan);
  CHECK(phases == std::set<std::string>{"measuring links", "choosing a plan"});
}

TEST_CASE("The table of nodes fits the terminal, and names what there was no room for",
          "[coordinator]") {
  ServedRun run;
  run.Gather();
  auto nodes = NodesJson(run.Fold(), run.config, nullptr);
  nodes[0]["device"] =
      "a processor, whose maker gave it quite a long name, with ten 日本語 instructions";
  const std::string whole = NodesTable(nodes, 0);
  CHECK(whole.find("ten 日本語 instructions\n") != std::string::npos);
  for (const int columns : {160, 100, 60}) {
    const std::string table = NodesTable(nodes, columns);
    for (const auto line : absl::StrSplit(table, '\n')) {
      CHECK(ColumnsOf(std::string(line)) <= columns);
    }
    CHECK((table.find("no room for screened") != std::string::npos) == (columns < 160));
  }
}

TEST_CASE("A screen that is drawn again and again neither wraps nor scrolls", "[coordinator]") {
  std::string screen = "a line of words that go on and on\n";
  for (int i = 0; i < 20; ++i) screen += "node\n";
  const auto lines = FrameOf(screen, {.columns = 20, .rows = 10});
  REQUIRE(lines.size() == 9);
  CHECK(lines[0] == "a line of words that");
  CHECK(lines[1] == "    go on and on");
  CHECK(lines[8].find("and 14 more lines") != std::string::npos);
  CHECK(FrameOf(screen, {.columns = 80, .rows = 50}).size() == 21);
}

TEST_CASE("What the planner chose is listed, and still stands after a restart", "[coordinator]") {
  RunConfig open = skerry::testing::SmallRun();
  open.steps = 16;
  open.outer.inner_steps = 0;
  open.outer.overlap_steps = -1;
  open.outer.tier = OuterTier::kAuto;
  ServedRun run(open);
  run.Gather();
  const auto listed = PlanJson(run.Fold(), run.config);
  CHECK(listed["chosen"]["inner_steps"] == 8);
  CHECK(listed["chosen"]["overlap_steps"] >= 1);
  CHECK(listed["chosen"]["codec"].is_string());
  CHECK(listed["slow_links"].empty());
  CHECK(PlanText(run.Fold(), run.config).find("  chosen: δ ") != std::string::npos);

  run.Pass(1);
  const auto outer = nlohmann::json::parse(run.status)["outer"];
  for (const char* key : {"inner_steps", "overlap_steps", "codec"}) {
    CHECK(outer[key] == listed["chosen"][key]);
  }
  run.Restart();
  run.Pass(1);
  CHECK(nlohmann::json::parse(run.status)["outer"] == outer);
}
