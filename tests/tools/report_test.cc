// The report of a run, from event logs written here line by line.
#include "coordinator/report.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"
#include "coordinator/report_page.h"

namespace skerry {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// A directory of its own, gone with the test.
class Scratch {
 public:
  Scratch() {
    std::string name = (fs::temp_directory_path() / "skerry-report-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~Scratch() { fs::remove_all(path_); }
  fs::path Write(const std::string& file, const std::string& text) const {
    std::ofstream(path_ / file, std::ios::binary) << text;
    return path_ / file;
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

std::string ReadAll(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Two nodes, one stage of two replicas, two steps, one round, all well.
const char kSmallRun[] =
    R"({"t":0,"utc":"2026-08-16T09:00:00Z","kind":"run","run":"ab12","name":"small","seed":7,)"
    R"("parameters":1000,"steps":2,"skip_ratio":0.25,"nodes_min":2}
{"t":1,"kind":"admitted","node":"aaaa","region":"eu","device":"cpu","gflops":50}
{"t":1,"kind":"admitted","node":"bbbb","region":"us","device":"cpu","gflops":40}
{"t":2,"kind":"link","from":"aaaa","to":"bbbb","rtt_ms":80,"mbps":100}
{"t":3,"kind":"plan","stages":[{"first_layer":0,"last_layer":4,"replicas":["aaaa","bbbb"]}]}
{"t":4,"kind":"step","step":0,"loss":5.5,"tokens":64,"microbatches":2}
{"t":5,"kind":"step","step":1,"loss":4.5,"tokens":64,"microbatches":2}
{"t":6,"kind":"round","stage":0,"round":0,"participants":["aaaa","bbbb"]}
{"t":7,"kind":"applied","stage":0,"round":0,"node":"aaaa","digest":"d","transfer_s":2,"wait_s":0.5}
{"t":7,"kind":"applied","stage":0,"round":0,"node":"bbbb","digest":"d","transfer_s":3,"wait_s":0.1}
)";
const char kFinish[] =
    R"({"t":8,"kind":"finished","steps":2,"tokens":128,"bytes_sent":5000,"bytes_received":4900,)"
    R"("outer_rounds":1,"hidden_fraction":0.9,"wall_s":8}
)";

RunReport Build(const fs::path& log, const std::optional<fs::path>& extra = std::nullopt) {
  auto report = BuildReport({log}, extra);
  REQUIRE(report.ok());
  return *std::move(report);
}

}  // namespace

TEST_CASE("Report: what a stage's rounds sent, hid and agreed upon", "[report]") {
  const Scratch scratch;
  std::string log = kSmallRun;
  const auto applied = [](int round, const char* node, const char* digest, double transfer_s,
                          double wait_s, int sent) {
    return absl::StrFormat(
        R"({"t":9,"kind":"applied","stage":0,"round":%d,"node":"%s","digest":"%s",)"
        R"("transfer_s":%g,"wait_s":%g,"bytes_sent":%d,"bytes_received":%d})"
        "\n",
        round, node, digest, transfer_s, wait_s, sent, 2 * sent);
  };
  log += R"({"t":8,"kind":"plan","stages":[{"first_layer":0,"last_layer":4,"parameters":1000,)"
         R"("replicas":["aaaa","bbbb","cccc"]}]})"
         "\n"
         R"({"t":8,"kind":"round","stage":0,"round":1,"participants":["aaaa","bbbb","cccc"]})"
         "\n" +
         applied(1, "aaaa", "e", 4, 1, 500) + applied(1, "bbbb", "f", 5, 0, 1500) +
         applied(1, "cccc", "f", 0, 0, 0);  // cccc joins
  const RunReport report = Build(scratch.Write("events.jsonl", log));
  const std::vector<StageRounds> stages = RoundsByStage(report);
  REQUIRE(stages.size() == 1);
  CHECK(stages[0].rounds == 2);
  CHECK(stages[0].bits_up == Approx(8 * 2000 / 4.0 / 1000));  // of four messages in two rounds
  CHECK(stages[0].bits_down == Approx(2 * stages[0].bits_up));
  CHECK(stages[0].hidden == Approx(1 - 1.5 / 6));
  CHECK(stages[0].digest == "f");
  CHECK(stages[0].agreed == 2);
  CHECK(stages[0].replicas == 3);
  CHECK(StageRoundsTable(report).find("2 of 3 agree") != std::string::npos);
}

TEST_CASE("Report: a finished run's figures are those of its log", "[report]") {
  const Scratch scratch;
  const RunReport report = Build(scratch.Write("events.jsonl", std::string(kSmallRun) + kFinish));

  const json figures = json::parse(ReportJson(report));

  CHECK(figures["loss_initial"] == 5.5);
  CHECK(figures["loss_final"] == 5.0);
  CHECK(figures["loss_reference"].is_null());
  CHECK(figures["tokens"] == 128);
  CHECK(figures["parameters"] == 1000);
  CHECK(figures["nodes"] == 2);
  CHECK(figures["regions"] == 2);
  CHECK(figures["stages"] == 1);
  CHECK(figures["replicas"] == 2);
  CHECK(figures["skip_ratio"] == 0.25);
  CHECK(figures["outer_rounds"] == 1);
  CHECK(figures["bytes_up"] == 5000);
  CHECK(figures["bytes_down"] == 4900);
  CHECK(figures["hidden_fraction"] == 0.9);
  CHECK(figures["wall_s"] == 8);
  CHECK(figures["seed"] == 7);
  CHECK(figures["version"].is_string());
  CHECK(figures["curves"]["training"] == json::parse("[[0,5.5],[1,4.5]]"));
}

TEST_CASE("Report: of a round's replicas the last to come counts", "[report]") {
  const Scratch scratch;
  const RunReport report = Build(scratch.Write("events.jsonl", kSmallRun));

  REQUIRE(report.rounds.size() == 1);
  CHECK(report.rounds[0].transfer_s == 2);
  CHECK(report.rounds[0].wait_s == 0.5);
  CHECK(report.rounds[0].committed_s == 6);
}

TEST_CASE("Report: an unfinished run says so and leaves the unknown unknown", "[report]") {
  const Scratch scratch;
  const RunReport report = Build(scratch.Write("events.jsonl", kSmallRun));

  CHECK_FALSE(report.finished);
  CHECK_FALSE(report.bytes_up.has_value());
  CHECK(report.tokens == 128);
  CHECK(report.outer_rounds == 1);
  CHECK(report.hidden_fraction == Approx(1 - 0.5 / 2));
  CHECK(ReportHtml(report).find("has not finished") != std::string::npos);
}

TEST_CASE("Report: measured losses replace the training losses", "[report]") {
  const Scratch scratch;
  const fs::path extra = scratch.Write(
      "extra.json", R"({"loss_initial":5.6,"loss_final":3.1,"loss_reference":3.0,"sample":"Once.",)"
                    R"("validation":[[2,3.1],[0,5.6]],"reference_curve":[[0,5.6],[1,"x"],[2,3.0]],)"
                    R"("command":"./dev demo"})");

  const RunReport report = Build(scratch.Write("events.jsonl", kSmallRun), extra);

  CHECK(report.loss_initial == 5.6);
  CHECK(report.loss_final == 3.1);
  CHECK(report.loss_reference == 3.0);
  CHECK(report.validation == LossCurve{{0, 5.6}, {2, 3.1}});
  CHECK(report.reference == LossCurve{{0, 5.6}, {2, 3.0}});
  CHECK(report.sample == "Once.");
}

TEST_CASE("Report: losses on held-out text are those of the run as it is now", "[report]") {
  const Scratch scratch;
  const fs::path log = scratch.Write("events.jsonl", R"({"t":0,"kind":"run","seed":1}
{"t":1,"kind":"held_out","generation":1,"step":8,"loss":5,"tokens":64}
{"t":2,"kind":"held_out","generation":2,"step":16,"loss":4,"tokens":64}
{"t":3,"kind":"held_out","generation":3,"step":24,"loss":3,"tokens":64}
{"t":4,"kind":"rewind","generation":2,"step":16,"rewound_tokens":8}
{"t":5,"kind":"held_out","generation":2,"step":16,"loss":4.5,"tokens":64}
{"t":6,"kind":"held_out","generation":4,"step":32,"loss":null,"tokens":64}
)");

  const LossCurve now = {{8, 5}, {16, 4.5}};
  CHECK(Build(log, std::nullopt).validation == now);
  CHECK(Build(log, scratch.Write("extra.json", "{}")).validation == now);
}

TEST_CASE("Report: of many losses on held-out text a page shows some, the newest among them",
          "[report]") {
  RunReport report;
  for (int64_t step = 1; step <= 1000; ++step) report.validation.emplace_back(step, 2);
  const std::string page = ReportHtml(report);
  CHECK(page.find("<title>step 1000: 2.0000</title>") != std::string::npos);
  size_t points = 0;
  for (size_t at = 0; (at = page.find("class=\"validation\"", at)) != std::string::npos; ++at) {
    ++points;
  }
  CHECK(points > 50);
  CHECK(points <= 100);
}

TEST_CASE("Report: time goes on over a coordinator's restart", "[report]") {
  const Scratch scratch;
  const RunReport report = Build(
      scratch.Write("events.jsonl", R"({"t":0.5,"utc":"2026-08-16T23:59:50Z","kind":"run","seed":1}
{"t":9.5,"utc":"2026-08-16T23:59:59Z","kind":"step","step":0,"loss":5,"tokens":1}
{"t":9.6,"utc":"2026-08-16T23:59:59Z","kind":"st
{"t":0.1,"utc":"2026-08-17T00:00:10Z","kind":"returned","node":"aaaa"}
{"t":5.1,"utc":"2026-08-17T00:00:15Z","kind":"step","step":1,"loss":4,"tokens":1}
)"));

  CHECK(report.unreadable_lines == 1);
  REQUIRE(report.events.size() == 2);
  CHECK(report.events[0].kind == "restarted");
  CHECK(report.events[1].at_s == Approx(20));
  CHECK(report.wall_s == Approx(25));
  CHECK(report.training.size() == 2);
}

TEST_CASE("Report: what is said twice counts once", "[report]") {
  const Scratch scratch;
  const RunReport report = Build(scratch.Write("events.jsonl", std::string(kSmallRun) + kSmallRun));

  CHECK(report.training.size() == 2);
  CHECK(report.rounds.size() == 1);
  CHECK(report.nodes.size() == 2);
  CHECK(report.tokens == 128);
}

TEST_CASE("Report: whose deltas were screened stands among the events once, and is counted",
          "[report]") {
  const Scratch scratch;
  std::string log = kSmallRun;
  for (const int round : {0, 1, 1}) {
    log += absl::StrFormat(
        R"({"t":9,"kind":"screened","stage":0,"round":%d,"node":"bbbb","by":"aaaa"})"
        "\n",
        round);
  }
  const RunReport report = Build(scratch.Write("events.jsonl", log));
  CHECK(report.nodes[0].rounds_screened == 0);
  CHECK(report.nodes[1].rounds_screened == 2);
  CHECK(std::count_if(report.events.begin(), report.events.end(), [](const ReportEvent& event) {
          return event.kind == "screened" && event.bad;
        }) == 1);
  CHECK(PlacementTable(report).find("deltas of 2 rounds screened") != std::string::npos);
}

TEST_CASE("Report: a planner's long account has a section, a phrase stands among the events",
          "[report]") {
  const Scratch scratch;
  const auto page_with = [&](const std::string& reason) {
    return ReportHtml(Build(scratch.Write(
        "events.jsonl", R"({"t":1,"kind":"plan","stages":[],"reason":")" + reason + "\"}\n")));
  };

  CHECK(page_with("a node died").find("; a node died.") != std::string::npos);
  CHECK(page_with("a node died").find("Why this plan") == std::string::npos);
  CHECK(page_with("first\\nsecond").find("Why this plan") != std::string::npos);
  CHECK(page_with(std::string(200, 'x')).find("Why this plan") != std::string::npos);
}

TEST_CASE("Report: a plan's outer rounds and compressed links stand among the events", "[report]") {
  const Scratch scratch;
  const RunReport report = Build(scratch.Write(
      "events.jsonl", R"({"t":1,"kind":"plan","version":1,"stages":[],"slow_links":3,)"
                      R"("outer":{"inner_steps":16,"overlap_steps":2,"codec":"int4"}})"
                      "\n"));
  CHECK(report.outer.inner_steps == 16);
  CHECK(report.outer.codec == "int4");
  REQUIRE(report.events.size() == 1);
  CHECK(
      report.events[0].text ==
      "Plan 1: 0 stages, outer rounds with δ 2 of τ 16, int4, activations compressed on 3 links.");
}

TEST_CASE("Report: values of the wrong type are passed over", "[report][error]") {
  const Scratch scratch;
  const RunReport report = Build(
      scratch.Write("events.jsonl", R"({"t":"now","kind":"run","run":5,"seed":"x","parameters":null}
{"t":1,"kind":"plan","stages":[1,{"replicas":["a",2]}]}
{"t":1,"kind":"step","step":0,"loss":null,"tokens":3}
{"t":1,"kind":"finished","steps":1e300}
[1]
)"));

  CHECK(report.stages.size() == 1);
  CHECK(report.ReplicaCountMin() == 1);
  CHECK(report.training.empty());
  CHECK(report.unreadable_lines == 1);
  CHECK(json::accept(ReportJson(report)));
}

TEST_CASE("Report: text from outside cannot become markup", "[report][error]") {
  const Scratch scratch;
  const std::string evil = R"(<script>alert('x')</script>&\")";
  const RunReport report = Build(
      scratch.Write(
          "events.jsonl",
          R"({"t":0,"utc":")" + evil + R"(","kind":"run","run":")" + evil + R"(","name":")" + evil +
              "\"}\n" + R"({"t":1,"kind":"admitted","node":")" + evil + R"(","region":")" + evil +
              "\"}\n" + R"({"t":1,"kind":"link","from":")" + evil + R"(","to":")" + evil +
              "\",\"rtt_ms\":1,\"mbps\":1}\n" + R"({"t":2,"kind":"plan","stages":[{"replicas":[")" +
              evil + R"("]}],"reason":")" + evil + "\"}\n" + R"({"t":3,"kind":"dead","node":")" +
              evil + "\"}\n"),
      scratch.Write("extra.json", R"({"sample":")" + evil + R"(","command":")" + evil + "\"}"));

  const std::string page = ReportHtml(report);

  CHECK(report.events.size() == 2);
  CHECK(page.find("<script") == std::string::npos);
  CHECK(page.find("&lt;script&gt;alert(&#39;x&#39;)") != std::string::npos);
}

TEST_CASE("Report: the page needs no other file", "[report]") {
  const Scratch scratch;
  const RunReport report = Build(scratch.Write("events.jsonl", std::string(kSmallRun) + kFinish));

  REQUIRE(WriteReport(report, scratch.path() / "new" / "folder").ok());

  const std::string page = ReadAll(scratch.path() / "new" / "folder" / "report.html");
  CHECK(page == ReportHtml(report));
  CHECK(page.find("Outer rounds") != std::string::npos);
  CHECK(page.find("http") == std::string::npos);
  CHECK(page.find("src=") == std::string::npos);
  CHECK(page.find("url(") == std::string::npos);
  CHECK(json::accept(ReadAll(scratch.path() / "new" / "folder" / "report.json")));
}

TEST_CASE("Report: many nodes are shown by region", "[report]") {
  RunReport report;
  for (int i = 0; i < 20; ++i) {
    report.nodes.push_back({"n" + std::to_string(i), i < 10 ? "east" : "west", "", 0});
  }
  report.links[{"n0", "n15"}] = {80, 20};
  report.links[{"n1", "n16"}] = {90, 30};
  report.links[{"n2", "n17"}] = {100, 40};

  const std::string table = LinkTable(report);

  CHECK(table.find("n15") == std::string::npos);
  CHECK(table.find("90 ms<br>30 Mbit/s") != std::string::npos);
}

TEST_CASE("Report: links of an emulated run stand against what they were made to be", "[report]") {
  const Scratch scratch;
  const std::string more =
      R"({"t":2,"kind":"link","from":"bbbb","to":"aaaa","rtt_ms":100,"mbps":70}
)";
  const fs::path log = scratch.Write("events.jsonl", kSmallRun + more + kFinish);
  const fs::path extra =
      scratch.Write("extra.json", R"({"links_configured":[)"
                                  R"({"from":"eu","to":"us","rtt_ms":80,"mbps":104},)"
                                  R"({"from":"us","to":"eu","rtt_ms":80,"mbps":100},)"
                                  R"({"from":"eu","to":"eu","rtt_ms":2,"mbps":1000}, 7]})");

  const auto report = BuildReport({log}, extra);

  REQUIRE(report.ok());
  const LinkAccuracy accuracy = AccuracyOf(*report);
  CHECK(accuracy.links == 2);
  CHECK(accuracy.within == 1);  // 4 % off; the way back is 25 and 30 % off
  CHECK(accuracy.rtt.worst == Approx(0.25));
  CHECK(accuracy.rate.worst == Approx(0.30));
  const json figures = json::parse(ReportJson(*report)).at("links_measured");
  CHECK(figures.at("within_tolerance") == 1);
  const std::string table = LinkTable(*report);
  CHECK(table.find("1 of 2 within 10 %") != std::string::npos);
  CHECK(table.find("configured 80 ms, 100 Mbit/s") != std::string::npos);  // the one that is off
  CHECK(table.find("<span class=\"muted\">configured 80 ms, 104") == std::string::npos);
}

TEST_CASE("Report: a run whose network nobody configured says nothing of how far it is off",
          "[report]") {
  const Scratch scratch;
  const RunReport report = Build(scratch.Write("events.jsonl", std::string(kSmallRun) + kFinish));

  CHECK(AccuracyOf(report).links == 0);
  CHECK(json::parse(ReportJson(report)).at("links_measured").is_null());
  CHECK(LinkTable(report).find("configured") == std::string::npos);
}

TEST_CASE("Report: a file that is no event log is refused by name", "[report][error]") {
  const Scratch scratch;
  const fs::path missing = scratch.path() / "missing.jsonl";
  const fs::path prose = scratch.Write("prose.jsonl", "hello\n");
  const fs::path log = scratch.Write("events.jsonl", kSmallRun);

  CHECK(absl::IsNotFound(BuildReport({missing}, std::nullopt).status()));
  CHECK(absl::IsInvalidArgument(BuildReport({prose}, std::nullopt).status()));
  CHECK(absl::IsNotFound(BuildReport({log}, missing).status()));
  CHECK(absl::IsInvalidArgument(BuildReport({log}, prose).status()));
}

TEST_CASE("Report: a place that cannot be written is an error with its name", "[report][error]") {
  const Scratch scratch;
  const fs::path file = scratch.Write("taken", "");

  const absl::Status status = WriteReport(RunReport{}, file / "below");

  CHECK(absl::IsUnavailable(status));
  CHECK(std::string(status.message()).find("taken") != std::string::npos);
}

}  // namespace skerry
