// The event log of a long run: what is written of it, and what the fold keeps of that.
#include "coordinator/event_budget.h"
#include "coordinator/report_page.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"
#include "common/json_log.h"
#include "coordinator/event_tail.h"
#include "coordinator/report_events.h"

namespace skerry {
namespace {

using Json = nlohmann::json;
constexpr int64_t kWeekS = 7 * 86400;

std::string StepFields(int64_t step) {
  return absl::StrFormat(R"("step":%d,"loss":%.4f,"tokens":65536,"microbatches":32)", step,
                         4.0 + 1.0 / (1.0 + static_cast<double>(step)));
}

std::string AppliedFields(int64_t round, int node) {
  return absl::StrFormat(R"("node":"%08x","stage":%d,"round":%d,"digest":"%016x",)"
                         R"("transfer_s":%d.5,"wait_s":0.25,"bytes_sent":1000,)"
                         R"("bytes_received":2000)",
                         node, node % 4, round, round, 3 + node);
}

// Counts what is told, and what it weighs.
struct Reader {
  void Take(const EventBudget::Lines& lines) {
    for (const auto& [kind, fields] : lines) {
      bytes += EventBudget::kLineBytes + static_cast<int64_t>(kind.size() + fields.size());
      const Json json = Json::parse("{" + fields + "}");
      if (kind == "step" || kind == "steps") {
        steps += json.value("steps", 1);
        tokens += json["tokens"].get<int64_t>();
      } else if (kind == "round" || kind == "round_sum") {
        rounds += 1 + json.value("left_out", 0);
      } else if (kind == "detour") {
        ++detours;
      } else if (kind == "left_out") {
        (json["of"] == "round" ? rounds : detours) += json["count"].get<int64_t>();
      } else if (kind == "dead") {
        ++deaths;
      }
    }
  }
  int64_t bytes = 0, steps = 0, tokens = 0, rounds = 0, detours = 0, deaths = 0;
};

// `on(t, kind, fields)` for all that happens in a second of a busy run.
template <typename On>
void BusySecond(int64_t t, const On& on) {
  on(t, "step", StepFields(t));
  if (t % 2 == 0) {
    on(t, "link",
       absl::StrFormat(R"("from":"%08x","to":"%08x","rtt_ms":20.5,"mbit":93.25)", t / 2 % 31,
                       t / 2 % 37));
    on(t, "detour", absl::StrFormat(R"("step":%d,"microbatch":3,"stage":2,"to":"%08x")", t, t));
  }
  if (t % 3600 == 0) on(t, "dead", absl::StrFormat(R"("node":"%08x","silent_s":6.1)", t));
  if (t % 60 != 0) return;
  for (int stage = 0; stage < 4; ++stage) {
    on(t, "round",
       absl::StrFormat(R"("stage":%d,"round":%d,"participants":["a","b","c","d","e","f","g","h"])",
                       stage, t / 60));
  }
  for (int node = 0; node < 32; ++node) on(t, "applied", AppliedFields(t / 60, node));
}

TEST_CASE("Event budget: a week of a busy run stays within it, and nothing is left uncounted") {
  EventBudget budget;
  Reader told, all;
  for (int64_t t = 0; t < kWeekS; ++t) {
    BusySecond(t, [&](int64_t at, const std::string& kind, const std::string& fields) {
      all.bytes += EventBudget::kLineBytes + static_cast<int64_t>(kind.size() + fields.size());
      told.Take(budget.On(static_cast<double>(at), kind, fields));
    });
  }
  told.Take(budget.Flush(kWeekS));
  // The traces have 4 MB and 100 bytes a second of it.
  const double room = EventBudget::kWeekBytes - 4e6 - 100.0 * kWeekS;
  REQUIRE(static_cast<double>(all.bytes) > room);
  CHECK(static_cast<double>(told.bytes) <= room);
  CHECK(told.steps == kWeekS);
  CHECK(told.tokens == 65536 * kWeekS);
  CHECK(told.rounds == 4 * kWeekS / 60);
  CHECK(told.detours == kWeekS / 2);
  CHECK(told.deaths == kWeekS / 3600);
}

TEST_CASE("Event budget: a short run's log has every event as it was") {
  EventBudget budget;
  for (int64_t t = 0; t < 600; ++t) {
    BusySecond(t, [&](int64_t at, const std::string& kind, const std::string& fields) {
      const auto lines = budget.On(static_cast<double>(at), kind, fields);
      REQUIRE(lines == EventBudget::Lines{{kind, fields}});
    });
  }
  CHECK(budget.Flush(600).empty());
}

TEST_CASE("Event budget: replicas that disagree are told of, however little may be written") {
  EventBudget budget(/*already=*/int64_t{1} << 40);
  const double now_s = 0;
  CHECK(budget
            .On(now_s, "round",
                R"("stage":1,"round":7,"participants":["a","b"],"missing":[["c","gone"]])")
            .empty());
  CHECK(budget.On(now_s, "applied", R"("node":"a","stage":1,"round":7,"digest":"x")").empty());
  const auto lines = budget.On(now_s, "applied", R"("node":"b","stage":1,"round":7,"digest":"y")");
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].first == "round_sum");
  const Json told = Json::parse("{" + lines[0].second + "}");
  CHECK(told["digests"] == Json({{"x", 1}, {"y", 1}}));
  CHECK(told["missing"] == Json::parse(R"([["c","gone"]])"));
}

TEST_CASE("Event budget: what waits is told before the run is rewound or ends") {
  for (const char* kind : {"rewind", "finished"}) {
    EventBudget budget(/*already=*/int64_t{1} << 40);
    CHECK(budget.On(0, "step", StepFields(3)).empty());
    CHECK(budget.On(0, "step", StepFields(4)).empty());
    const auto lines = budget.On(0, kind, R"("step":2)");
    REQUIRE(lines.size() == 2);
    CHECK(lines[0].first == "steps");
    CHECK(Json::parse("{" + lines[0].second + "}")["first"] == 3);
    CHECK(lines[1].first == kind);
  }
}

TEST_CASE("Step series: of many steps few entries are kept, and every step and token counts") {
  constexpr int64_t kSteps = 100'000;
  StepSeries series(/*bounded=*/true);
  for (int64_t i = 0; i < kSteps; ++i) {
    series.Add({.first = i, .step = i, .tokens = 64, .finite = 1, .loss = 2});
  }
  CHECK(series.entries().size() <= StepSeries::kMost);
  CHECK(series.entries().back().step == kSteps - 1);
  CHECK(series.steps() == kSteps);
  CHECK(series.tokens() == 64 * kSteps);
  series.Rewind(30'001);
  CHECK(series.steps() == 30'001);
  CHECK(series.tokens() == 64 * 30'001);
  series.Add({.first = 30'001, .step = 30'001, .tokens = 64, .finite = 1, .loss = 2});
  CHECK(series.tokens() == 64 * 30'002);
}

TEST_CASE("Event fold: who shares a line is told below the links, by the last word of it") {
  EventFold fold;
  fold.OnLine(R"({"t":1,"kind":"admitted","node":"aaaa","region":"eu"})");
  fold.OnLine(R"({"t":1,"kind":"admitted","node":"bbbb","region":"eu"})");
  fold.OnLine(R"({"t":2,"kind":"link","from":"aaaa","to":"bbbb","rtt_ms":1,"mbps":900})");
  fold.OnLine(
      R"({"t":3,"kind":"line","nodes":["aaaa","bbbb"],"sharing":["aaaa","bbbb"],"mbps":61.8})");
  fold.OnLine(R"({"t":4,"kind":"line","nodes":["cccc","dddd"],"sharing":[],"mbps":0})");
  fold.OnLine(R"({"t":5,"kind":"line","nodes":["aaaa","bbbb","eeee"],)"
              R"("sharing":["aaaa","eeee"],"mbps":40})");
  const RunReport report = ReportOf(std::move(fold));
  REQUIRE(report.houses.size() == 2);
  const std::string table = LinkTable(report);
  const auto says = [&](const char* text) { return table.find(text) != std::string::npos; };
  CHECK(says("aaaa, eeee share one line to the others, of 40.0 Mbit/s"));
  CHECK(says("cccc, dddd are near each other, and each has a line of its own"));
  CHECK_FALSE(says("61.8"));
  CHECK(report.events.size() == 3);
}

TEST_CASE("Event fold: old rounds become sums, none is lost") {
  EventFold fold(EventFold::Keeps::kRecent);
  const auto tell = [&](const char* kind, int64_t t, const std::string& fields) {
    fold.OnLine(absl::StrFormat(R"({"t":%d,"kind":"%s",%s})", t, kind, fields));
  };
  constexpr int64_t kRounds = 12'000;
  for (int64_t round = 0; round < kRounds; ++round) {
    tell("round", round, absl::StrFormat(R"("stage":0,"round":%d,"participants":["a"])", round));
    tell("applied", round, AppliedFields(round, 0));
  }
  const RunReport report = ReportOf(std::move(fold));
  REQUIRE(report.older_rounds.contains(0));
  const OlderRounds& older = report.older_rounds.at(0);
  CHECK(report.rounds.size() <= 2 * EventFold::kRoundsRecent);
  CHECK(report.rounds.back().round == kRounds - 1);
  CHECK(older.rounds + static_cast<int64_t>(report.rounds.size()) == kRounds);
  CHECK(older.bytes_sent == 1000.0 * static_cast<double>(older.rounds));
}

TEST_CASE("Event tail: looking back from a stop shows what reading from the beginning shows") {
  std::string name = (std::filesystem::temp_directory_path() / "skerry-events-XXXXXX").string();
  REQUIRE(mkdtemp(name.data()) != nullptr);
  const std::filesystem::path file = std::filesystem::path(name) / "events.jsonl";
  constexpr int64_t kSteps = 10'000;
  std::vector<std::string> lines;
  {
    std::ofstream out(file);
    const std::string padding(500, '.');
    for (int64_t t = 0; t < kSteps; ++t) {
      lines.push_back(
          absl::StrFormat(R"({"t":%d,"kind":"step",%s,"pad":"%s"})", t, StepFields(t), padding));
      out << lines.back() << "\n";
    }
  }
  REQUIRE(std::filesystem::file_size(file) > 4 * EventTail::kStopEveryBytes);
  EventTail tail(file);
  REQUIRE(*tail.Read(/*bytes_max=*/1 << 20));
  CHECK(tail.share_read() < 0.5);
  while (*tail.Read(1 << 20)) continue;
  CHECK(tail.share_read() == 1);
  for (const int64_t until : {0, 1, 1999, 5000, 9998, 9999}) {
    EventFold fold;
    for (int64_t i = 0; i <= until; ++i) fold.OnLine(lines[static_cast<size_t>(i)]);
    const RunReport wanted = ReportOf(std::move(fold));
    const auto found = tail.ReportUntil(static_cast<double>(until));
    REQUIRE(found.ok());
    CHECK(found->training == wanted.training);
    CHECK(found->step_tokens == wanted.step_tokens);
    CHECK(found->wall_s == wanted.wall_s);
    CHECK(*tail.Lines(until, 1) == std::vector{lines[static_cast<size_t>(until)]});
  }
  std::filesystem::remove_all(name);
}

TEST_CASE("JSON log: a line is one object, whatever is in its text") {
  const JsonLog log("skerry-node", "ab12cd34");
  const std::string line = log.EventLine(LogSeverity::kWarn, "dead", R"("node":"x\ny","s":6.5)");
  CHECK(line.find('\n') == std::string::npos);
  const Json json = Json::parse(line);
  CHECK(json["severity_text"] == "WARN");
  CHECK(json["severity_number"] == 13);
  CHECK(json["body"] == "dead node=x\ny s=6.5");
  CHECK(json["attributes"]["event.name"] == "dead");
  CHECK(json["attributes"]["s"] == 6.5);
  CHECK(json["resource"]["service.instance.id"] == "ab12cd34");
  CHECK(Json::parse(log.Line(LogSeverity::kInfo, "\xff"))["body"] == "\xef\xbf\xbd");
  CHECK(Json::parse(log.EventLine(LogSeverity::kInfo, "odd", "no json"))["attributes"]["text"] ==
        "no json");
}

}  // namespace
}  // namespace skerry
