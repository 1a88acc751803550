// What the dashboard says of a node and of the operator's orders.

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "coordinator/dashboard_view.h"
#include "coordinator/page.h"

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
  const RunReport report;
  const std::string before = Piece(DashboardView(status, 0, report), "nodes");
  for (const char* part : {"&lt;GPU&gt;", "0.9", "yes, v6", "7 rounds counted, 2 screened"}) {
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
  CHECK(said(0) == "1 of 2 nodes compute or receive, 1 wait for the commit of round 3.");
  status["phase"] = "paused";
  CHECK(said(0).empty());
}

TEST_CASE("Dashboard: what is to go is not said while nothing goes") {
  Json status = Status();
  RunReport report;
  for (int64_t step = 0; step < 3; ++step) {
    report.step_ended_s.emplace_back(step, 2.0 * static_cast<double>(step));
  }
  CHECK(Has(Piece(DashboardView(status, 0, report), "tiles"), "to go"));
  for (const char* phase : {"paused", "pausing"}) {
    status["phase"] = phase;
    CHECK_FALSE(Has(Piece(DashboardView(status, 0, report), "tiles"), "to go"));
  }
}

}  // namespace skerry
