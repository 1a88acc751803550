// What the dashboard says of a run in a sentence, of a node, of the operator's orders, and of who
// was missing in a round.

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "coordinator/dashboard_view.h"
#include "coordinator/page.h"
#include "coordinator/report_page.h"

namespace skerry {
namespace {

using Json = nlohmann::json;

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Of a run with one node.
Json Status() {
  const Json node = {{"id", "11111111"},    {"stage", 0},         {"alive", true},
                     {"phase", "training"}, {"step", 2},          {"replica", 0},
                     {"base_version", 0},   {"region", ""},       {"waiting_for", ""},
                     {"bytes_sent", 10},    {"bytes_received", 5}};
  return {{"phase", "training"}, {"version", 1}, {"step", 2}, {"steps", 8}, {"nodes", {node}}};
}

std::string Piece(const DashboardPieces& pieces, const std::string& id) {
  for (const auto& [name, html] : pieces) {
    if (name == id) return html;
  }
  FAIL("no piece " << id);
  return "";
}

}  // namespace

TEST_CASE("Dashboard: a node's row says what it is, what it holds, and that it was put out") {
  Json status = Status();
  Json& node = status["nodes"][0];
  node["device"] = "<GPU>";
  node["software"] = "0.9";
  node["reach"] = "yes, v6";
  node["memory_offered_bytes"] = 8e9;
  node["memory_bytes"] = 2e9;
  node["rounds_counted"] = 7;
  node["rounds_screened"] = 2;
  node["sizes"] = "odd";
  const RunReport report;
  const std::string before = Piece(DashboardView(status, 0, report), "nodes");
  for (const char* part :
       {"&lt;GPU&gt;", "0.9", "yes, v6", "7 rounds counted, 2 screened<br>sizes odd"}) {
    CHECK(Has(before, part));
  }
  CHECK(Has(before, HumanBytes(2e9) + " of " + HumanBytes(8e9)));
  const std::string evidence = "data-do=\"evidence\" data-node=\"11111111\"";
  const std::string put_out = "data-do=\"deny\" data-node=\"11111111\"";
  CHECK_FALSE(Has(before, evidence));
  CHECK(Has(before, put_out));
  node["out"] = true;
  const std::string after = Piece(DashboardView(status, 0, report), "nodes");
  CHECK(Has(after, evidence));
  CHECK_FALSE(Has(after, put_out));
}

TEST_CASE("Dashboard: a pause is said with its step and why") {
  Json status = Status();
  status["orders"] = {{"at_step", 40}, {"why", "no <power>"}};
  status["phase"] = "pausing";
  CHECK(Has(Piece(DashboardView(status, 0, RunReport()), "heading"), "pauses at step 40"));
  status["phase"] = "paused";
  CHECK(Has(Piece(DashboardView(status, 0, RunReport()), "heading"),
            "paused by the operator at step 40: no &lt;power&gt;"));
}

TEST_CASE(
    "Dashboard: a round says who took part, who did not and why, bytes, and whose base differs") {
  const std::string before =
      R"({"t":0,"utc":"2026-11-22T10:00:00Z","kind":"run","run":"aa","name":"sea","seed":1}
{"t":1,"kind":"plan","version":1,"stages":[{"first_layer":0,"last_layer":2,)"
      R"("replicas":["aaaaaaaa","bbbbbbbb","cccccccc","dddddddd"]}]}
{"t":2,"kind":"dead","node":"bbbbbbbb","silent_s":10,"why":"it is silent"}
{"t":3,"kind":"left","node":"cccccccc","why":"it left: <b>bed</b>time"}
{"t":4,"kind":"absent","node":"dddddddd","stage":0,"round":3}
{"t":5,"kind":"round","stage":0,"round":3,"participants":["aaaaaaaa"]}
{"t":6,"kind":"applied","stage":0,"round":3,"node":"aaaaaaaa","digest":"d1","transfer_s":4,)"
      R"("wait_s":1,"bytes_sent":2000,"bytes_received":1}
)";
  const RunReport report = ReportOfLines(before);
  const std::string table = NewestRoundsTable(report);
  CHECK(Has(table, "<code>aaaaaaaa</code>"));
  CHECK(Has(table, "<code>bbbbbbbb</code> silent"));
  CHECK(Has(table, "<code>cccccccc</code> left"));
  CHECK(Has(table, "<code>dddddddd</code> late"));
  CHECK(Has(table, "2.0 kB"));
  CHECK(Has(table, "75 % of 4.0 s"));
  CHECK_FALSE(Has(table, "class=\"bad\""));
  const Json told = Json::parse(ReportJson(report))["newest_rounds"];
  REQUIRE(told.size() == 1);
  CHECK(told[0]["round"] == 3);
  CHECK(told[0]["took_part"] == Json::array({"aaaaaaaa"}));
  CHECK(told[0]["missing"] == Json::parse(R"([{"node":"bbbbbbbb","why":"silent"},
      {"node":"cccccccc","why":"left"},{"node":"dddddddd","why":"late"}])"));
  CHECK(told[0]["missing_count"] == 3);
  CHECK(told[0]["bytes_sent"] == 2000);
  CHECK(told[0]["hidden"] == 0.75);
  CHECK(told[0]["digests"] == Json::parse(R"({"d1":1})"));
  CHECK(Has(EventTable(report), "cccccccc left: &lt;b&gt;bed&lt;/b&gt;time."));

  const std::string after =
      R"({"t":7,"kind":"applied","stage":0,"round":3,"node":"dddddddd","digest":"d2","transfer_s":4}
{"t":8,"kind":"returned","node":"bbbbbbbb"}
{"t":9,"kind":"round","stage":0,"round":4,"participants":["aaaaaaaa","dddddddd"]}
)";
  const std::string later = NewestRoundsTable(ReportOfLines(before + after));
  CHECK(Has(later, "class=\"bad\""));  // two digests of one base
  CHECK(Has(later, "<code>bbbbbbbb</code> not in it yet"));
  CHECK(later.find(">4</th>") < later.find(">3</th>"));  // the newest first
  // Told together it names nobody; then nobody is said to have been there.
  const RunReport summed = ReportOfLines(
      R"({"t":1,"kind":"round_sum","stage":0,"round":3,"participants":2,"digests":{"d1":2}})");
  CHECK(Has(NewestRoundsTable(summed), "<td>2</td><td>–</td>"));
  CHECK(Json::parse(ReportJson(summed))["newest_rounds"][0]["missing"].is_null());
}

TEST_CASE("Dashboard: who is missing in a round is said of rounds that are told together, too") {
  const RunReport report = ReportOfLines(
      R"({"t":1,"kind":"left","node":"bbbbbbbb","why":"it left"}
{"t":2,"kind":"round_sum","stage":0,"round":3,"participants":2,"missing_count":9,)"
      R"("missing":[["aaaaaaaa","late"],["bbbbbbbb","gone"],["cccccccc","put out"],7,["d"]]}
{"t":3,"kind":"round_sum","stage":0,"round":4,"participants":3,"missing":[]})");
  const std::string table = NewestRoundsTable(report);
  CHECK(Has(table, "<code>aaaaaaaa</code> late"));
  CHECK(Has(table, "<code>bbbbbbbb</code> left"));  // how it is gone, the log knows
  CHECK(Has(table, "<code>cccccccc</code> put out"));
  CHECK(Has(table, "and 6 more"));
  CHECK(Has(table, "<td>nobody</td>"));
}

TEST_CASE("Dashboard: a sentence says what trains where, and what the end waits for") {
  RunReport report;
  report.parameters = 3'345'600;
  report.stages.resize(2);
  Json status = Status();
  const auto heading = [&](double age_s = 0.5) {
    return Piece(DashboardView(status, age_s, report), "heading");
  };
  CHECK(Has(heading(), "training a model of 3.35 million parameters in 2 stages, on 1 node<"));
  for (const char* place : {"tokyo", "<oslo>", "rome"}) {
    status["nodes"].push_back(status["nodes"][0]);
    status["nodes"].back()["region"] = place;
  }
  CHECK(Has(heading(), "on 4 nodes in &lt;oslo&gt;, rome and tokyo<"));
  status["phase"] = "collecting the model";
  CHECK(Has(heading(), "all steps are done; the model is being collected"));
  status["phase"] = "finished";
  CHECK(Has(heading(), ">finished<"));
  status["held_out_left_s"] = 40;
  CHECK(Has(heading(), "finished; the loss of its model on held-out text is being read"));
  CHECK(Has(heading(60), ">finished<"));  // it was ended before it had
}

TEST_CASE("Dashboard: an arrow past a column runs between the boxes") {
  RunReport report;
  Json status = Status();
  for (const char* id : {"11111111", "22222222", "33333333"}) {
    report.stages.emplace_back();
    report.stages.back().replicas = {id};
    status["nodes"].push_back(status["nodes"][0]);
    status["nodes"].back()["id"] = id;
  }
  status["nodes"][1]["waiting_for"] = "gradient of microbatch 3 from 22222222";
  CHECK(Has(PipelineSvg(status, report), "class=\"waitline\""));
  CHECK_FALSE(Has(PipelineSvg(status, report), " L"));
  status["nodes"][1]["waiting_for"] = "gradient of microbatch 3 from 33333333";
  CHECK(Has(PipelineSvg(status, report), " L"));
}

TEST_CASE("Dashboard: who waits, and for whom most, is said in a sentence") {
  Json status = Status();
  const auto said = [&](double age_s) {
    return Piece(DashboardView(status, age_s, RunReport()), "waiting");
  };
  CHECK(said(0) == "1 of 1 nodes compute or receive, nobody waits.");
  for (const char* id : {"22222222", "33333333", "44444444"}) {
    Json node = status["nodes"][0];
    node["id"] = id;
    node["region"] = "<oslo>";
    node["waiting_for"] = "gradient of microbatch 3 from 22222222";
    status["nodes"].push_back(node);
  }
  status["nodes"][1]["waiting_for"] = "commit of round 3";
  CHECK(said(0) ==
        "1 of 4 nodes compute or receive, 3 wait: 2 of them for node 22222222 (stage 0, "
        "&lt;oslo&gt;).");
  CHECK(said(60).empty());  // nobody knows
  status["nodes"].erase(2);
  status["nodes"].erase(2);
  CHECK(said(0) == "1 of 2 nodes compute or receive, 1 waits for the commit of round 3.");
  status["phase"] = "paused";
  CHECK(said(0).empty());
}

TEST_CASE("Dashboard: what is to go is not said while nothing goes") {
  Json status = Status();
  status["tokens_per_s"] = 100.0;
  RunReport report;
  for (int64_t step = 0; step < 3; ++step) {
    report.step_ended_s.emplace_back(step, 2.0 * static_cast<double>(step));
  }
  const auto tiles = [&](double age_s) {
    return Piece(DashboardView(status, age_s, report), "tiles");
  };
  CHECK(Has(tiles(0), "to go"));
  CHECK(Has(tiles(0), "tokens/s"));
  // Of a coordinator that is silent nobody knows how far it is.
  CHECK_FALSE(Has(tiles(60), "to go"));
  CHECK_FALSE(Has(tiles(60), "tokens/s"));
  for (const char* phase : {"paused", "pausing"}) {
    status["phase"] = phase;
    CHECK_FALSE(Has(tiles(0), "to go"));
  }
}

}  // namespace skerry
