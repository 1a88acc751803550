// What cohorts were worth, by hand and beside the messages of a whole run.
#include "sim/cohort_summary.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <variant>

#include "absl/strings/str_format.h"
#include "coordinator/listings.h"
#include "node/say.h"
#include "tests/sim/two_sites.h"

using namespace skerry;
using skerry::testing::EndOf;
using skerry::testing::TwoSites;

namespace {

using Json = nlohmann::json;

Json Replica(const std::string& id, bool dead = false) {
  return {{"node", id}, {"dead", dead}};
}

// Stage 0: a cohort of three, and one alone; stage 1: two alone, and one that is dead.
Json Plan() {
  return {{"stages",
           {{{"replicas",
              {Replica("aa00000001"), Replica("aa00000002"), Replica("aa00000003"),
               Replica("bb00000001")}}},
            {{"replicas",
              {Replica("cc00000001"), Replica("cc00000002"), Replica("cc00000003", true)}}}}},
          {"cohorts",
           {{"cohorts",
             {{{"stage", 0},
               {"cohort", 0},
               {"members", {"aa00000001", "aa00000002", "aa00000003"}}}}}}}};
}

std::string Applied(int stage, int64_t bytes) {
  return absl::StrFormat(R"({"t":1.5,"kind":"applied","stage":%d,"bytes_sent":%d})"
                         "\n",
                         stage, bytes);
}

}  // namespace

TEST_CASE("Cohort summary: messages between cohorts, against one of each replica to all outside",
          "[sim][cohorts]") {
  const std::string events = Applied(0, 700) + Applied(0, 300) + "not JSON\n" +
                             R"({"kind":"step","stage":0,"bytes_sent":5})" + "\n" + Applied(1, 400);
  const CohortTraffic traffic = TrafficOfCohorts(Plan(), events);
  CHECK(traffic.sent == 1400);
  // Two messages a round took 1000 bytes; alone they would be 3 · 1 + 1 · 3. In stage 1 the same.
  CHECK(traffic.alone == 3000 + 400);
}

TEST_CASE("Cohort summary: who was together, and the figures", "[sim][cohorts]") {
  CHECK(CohortSummary(Plan(), Applied(0, 2'000'000)) ==
        "cohort 0 of stage 0: aa000000 (speaks) aa000000 aa000000\n"
        "deltas between cohorts: 2.0 MB; if each node spoke for itself the same messages would "
        "take 6.0 MB, 3.0 times as much");
  CHECK(CohortSummary(Plan(), "").find("deltas between cohorts: 0.0 MB") != std::string::npos);
  CHECK(CohortSummary(Plan(), "").find("times as much") == std::string::npos);
  Json none = Plan();
  none["cohorts"]["cohorts"] = Json::array();
  CHECK(CohortSummary(none, "").find("no cohorts") == 0);
}

TEST_CASE("Cohort summary: of a run it counts the deltas that were sent between cohorts",
          "[sim][cohorts]") {
  VirtualRun run(TwoSites(VirtualMath::kModelled, 1));
  int64_t deltas = 0;
  run.WatchSends([&](const NodeId&, const Message& message) {
    const auto* delta = std::get_if<Delta>(&message);
    if (delta != nullptr && delta->sender.IsZero()) deltas += WireSize(message);
  });
  const VirtualOutcome outcome = run.Run();
  REQUIRE(EndOf(run, outcome).empty());
  std::string events;
  for (const VirtualEvent& event : run.events())
    events += absl::StrFormat("{\"kind\":\"%s\",%s}\n", event.kind, event.fields);
  const Json plan = PlanJson(run.checkers().state(), run.options().config);
  const CohortTraffic traffic = TrafficOfCohorts(plan, events);
  CHECK(deltas > 0);
  CHECK(traffic.sent == deltas);
  // Two cohorts of two in each stage: of four replicas each would send to the two of the other.
  CHECK(traffic.alone == 4 * traffic.sent);
}

TEST_CASE("Cohort summary: what sums of gradients took, from events and from logs",
          "[sim][cohorts]") {
  SumTimes times;
  CHECK(SumTimesText(times).empty());
  CHECK(times.HiddenFraction() == 1);
  CHECK_FALSE(times.AddFields(R"("step":24)"));
  CHECK_FALSE(times.AddFields("not JSON"));
  const std::string fields = R"("step":24,"sums":20,"summing_s":4.000,"waiting_for_sums_s":1.000)";
  CHECK(times.AddFields(fields));
  CHECK_FALSE(times.AddLine("14:01:15 step 24"));
  CHECK_FALSE(times.AddLine(EventText("finished", R"("step":24)")));
  CHECK(times.AddLine("14:01:15 " + EventText("finished", fields)));
  CHECK(SumTimesText(times) == "40 sums of gradients, 0.200 s each, 75.0 % of that behind compute");
}
