// The network as a graph, and what the map says of places that it does not know.

#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "coordinator/dashboard_view.h"

namespace skerry {
namespace {

using Json = nlohmann::json;

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

int Count(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

Json Node(const std::string& id, const std::string& region, const std::string& waits = "") {
  return {{"id", id},     {"region", region},     {"alive", true},      {"stage", 1},
          {"replica", 0}, {"waiting_for", waits}, {"phase", "training"}};
}

}  // namespace

TEST_CASE("Dashboard: the network shows every node, who waits, and each link both ways") {
  RunReport report;
  report.links[{"11111111", "22222222"}] = {94, 150, false, 0};
  report.links[{"22222222", "11111111"}] = {96, 50, false, 0};
  report.links[{"22222222", "33333333"}] = {10, 20, true, 0};
  Json status;
  status["nodes"] = {Node("11111111", "<oslo>", "gradient of microbatch 3 from 22222222"),
                     Node("22222222", ""), Node("33333333", "rome")};
  status["nodes"][2]["alive"] = false;
  const std::string svg = NetworkSvg(status, report);
  CHECK(Count(svg, "<circle class=\"box ") == 3);
  CHECK(Has(svg, "11111111: waits"));
  CHECK(Has(svg, "22222222: works"));
  CHECK(Has(svg, "33333333: gone"));
  CHECK(Has(svg, "stage 1, &lt;oslo&gt;"));
  CHECK(Count(svg, "<path class=\"way") == 2);  // one for both directions
  CHECK(Has(svg, "11111111 – 22222222: 95 ms, 150 Mbit/s there, 50 back; one waits"));
  CHECK(Has(svg, "22222222 – 33333333: 10 ms, 20 Mbit/s there, 0 back, through a relay"));
  CHECK(Count(svg, "class=\"way waiting\"") == 1);
  CHECK(Count(svg, "class=\"way relayed\"") == 1);
  status["nodes"] = {Node("11111111", "oslo")};
  CHECK(NetworkSvg(status, report).empty());  // no network yet
}

TEST_CASE(
    "Dashboard: of many nodes the network shows regions, of a moment that is past the log's") {
  RunReport report;
  Json status;
  status["nodes"] = Json::array();
  for (int i = 0; i < 30; ++i) {
    const std::string id = std::to_string(10'000'000 + i);
    status["nodes"].push_back(Node(id, i % 3 == 0 ? "" : "oslo"));
    report.nodes.emplace_back();
    report.nodes.back().id = id;
    report.nodes.back().region = i % 3 == 0 ? "" : "oslo";
    report.links[{id, std::to_string(10'000'000 + (i + 1) % 30)}] = {20, 100, false, 0};
  }
  for (const Json& given : {status, Json::object()}) {
    const std::string svg = NetworkSvg(given, report);
    CHECK(Count(svg, "<circle class=\"box ") == 2);
    CHECK(Has(svg, ">20 nodes<"));
    CHECK(Has(svg, "(no name)"));
    CHECK(Count(svg, "<path class=\"way") == 1);
  }
}

TEST_CASE("Dashboard: a run whose places nobody knows is told how they would be known") {
  Json status;
  status["nodes"] = {Node("11111111", ""), Node("22222222", "the <moon>")};
  const std::string map = WorldMapSvg(status, RunReport());
  CHECK_FALSE(Has(map, "<svg"));
  CHECK(Has(map, "the &lt;moon&gt;"));
  CHECK(Has(map, "join --region"));
  CHECK(WorldMapSvg(Json::object(), RunReport()).empty());
}

TEST_CASE("Dashboard: a planner that looks again and again is one line") {
  RunReport report;
  report.events = {{1, "plan", "A plan.", false},
                   {2, "replan", "Looked: one.", false},
                   {3, "replan", "Looked: two.", false},
                   {4, "left", "Somebody left.", false},
                   {5, "replan", "Looked: three.", false}};
  const DashboardPieces pieces = DashboardView(Json::object(), 0, report);
  const auto piece = std::find_if(pieces.begin(), pieces.end(),
                                  [](const auto& one) { return one.first == "events"; });
  REQUIRE(piece != pieces.end());
  const std::string& events = piece->second;
  CHECK(Has(events, "Looked: two. The last of 2 looks."));
  CHECK_FALSE(Has(events, "Looked: one"));
  CHECK(Has(events, "Looked: three.<"));
}

TEST_CASE("Dashboard: the map names who is here and said no place, and nobody who is gone") {
  Json status;
  status["nodes"] = {Node("11111111", ""), Node("22222222", "")};
  for (Json& node : status["nodes"]) node["alive"] = false;
  CHECK_FALSE(Has(WorldMapSvg(status, RunReport()), "Not on the map"));
  status["nodes"][0]["alive"] = true;
  CHECK(Has(WorldMapSvg(status, RunReport()), "Not on the map: nodes that did not say where"));
  status["nodes"][0]["region"] = "no such place";
  CHECK(Has(WorldMapSvg(status, RunReport()), "no place of that name is known here: no such"));
}

}  // namespace skerry
