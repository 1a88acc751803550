// What is kept of a run in virtual time for its picture, and the page made of it.
#include "sim/run_report.h"

#include <catch2/catch.hpp>
#include <map>
#include <memory>

#include "sim/run_trace.h"
#include "sim/scenario_run.h"
#include "tests/sim/two_cities.h"

namespace skerry {
namespace {

// A run that was watched.
struct Watched {
  explicit Watched(const std::string& more = "", const ScenarioRunOptions& options = {},
                   const RunTraceOptions& trace_options = {})
      : scenario(TwoCities(more)), trace(std::make_unique<RunTrace>(trace_options)) {
    auto made = MakeScenarioRun(scenario, options);
    REQUIRE(made.ok());
    run = *std::move(made);
    trace->Watch(*run);
    outcome = run->Run();
  }
  std::string Html() const {
    return RunReportHtml({&scenario, run.get(), &outcome, trace.get(), 1, {}, "skerry-sim run x"});
  }
  Scenario scenario;
  std::unique_ptr<RunTrace> trace;
  std::unique_ptr<VirtualRun> run;
  VirtualOutcome outcome;
};

TEST_CASE("Byte bins: nothing is lost when time runs past them", "[sim][report]") {
  ByteBins bins;
  bins.Add(0, 10, 1000);
  bins.Add(0.1, 0.1, 7);
  bins.Add(5000, 5001, 500);
  double sum = 0;
  for (const double bytes : bins.bytes()) sum += bytes;
  CHECK(sum == Approx(1507));
  CHECK(bins.total() == Approx(1507));
  CHECK(bins.bytes().size() <= ByteBins::kBins);
  CHECK(bins.width_s() * ByteBins::kBins > 5001);
}

TEST_CASE("Run trace: watching changes nothing", "[sim][report]") {
  CHECK(Watched().outcome.trace_hash == (*MakeScenarioRun(TwoCities(), {}))->Run().trace_hash);
}

TEST_CASE("Run trace: a device does one thing at a time, and every pass has its microbatch",
          "[sim][report]") {
  const Watched watched;
  const RunTrace& trace = *watched.trace;
  REQUIRE(trace.rows().size() == 8);
  REQUIRE(trace.bars().size() > 100);
  CHECK(trace.window_first_step() == 6);  // around the boundary in the middle, at step 8
  CHECK_FALSE(trace.is_truncated());

  std::map<int32_t, double> busy_until;
  std::map<TraceWork, int> works;
  for (const TraceBar& bar : trace.bars()) {
    CHECK(bar.start_s >= busy_until[bar.row]);
    CHECK(bar.end_s >= bar.start_s);
    busy_until[bar.row] = bar.end_s;
    ++works[bar.work];
    const bool pass = bar.work == TraceWork::kForward || bar.work == TraceWork::kLoss ||
                      bar.work == TraceWork::kBackward;
    CHECK((bar.microbatch >= 0) == pass);
  }
  CHECK(works[TraceWork::kEncode] == 8);  // the boundary is inside
  CHECK(works[TraceWork::kLoss] >= 3 * 8);
  CHECK(works[TraceWork::kForward] > works[TraceWork::kLoss]);
}

TEST_CASE("Run trace: transfers have duration, and lines carry what was sent", "[sim][report]") {
  // Wide enough that all have sent their deltas, and none the next one.
  RunTraceOptions wide;
  wide.steps = 8;
  const Watched watched("", {}, wide);
  const RunTrace& trace = *watched.trace;
  int deltas = 0;
  for (const TraceTransfer& transfer : trace.transfers()) {
    CHECK(transfer.end_s > transfer.start_s);
    CHECK(transfer.to != trace.rows()[static_cast<size_t>(transfer.row)].node);
    deltas += transfer.cargo == TraceCargo::kDelta;
  }
  CHECK(deltas == 8);  // four stages of two replicas, each to the other
  double up = 0, down = 0, all = 0;
  for (const TraceRow& row : trace.rows()) {
    up += row.up.total();
    down += row.down.total();
  }
  for (const auto& row : trace.matrix())
    for (const double bytes : row) all += bytes;
  CHECK(up == Approx(down));
  CHECK(up < all);  // control and probes are not bulk
  CHECK(trace.matrix_names().size() == 9);
}

TEST_CASE("Run trace: what it keeps is bounded", "[sim][report]") {
  RunTraceOptions small;
  small.rows_max = 3;
  small.bars_max = 10;
  small.transfers_max = 5;
  small.matrix_nodes_max = 4;
  const Watched watched("", {}, small);
  CHECK(watched.trace->rows().size() == 3);
  CHECK(watched.trace->bars().size() == 10);
  CHECK(watched.trace->is_truncated());
  CHECK(watched.trace->matrix_names() ==
        std::vector<std::string>{"coordinator", "Montreal", "Oslo"});
  CHECK(watched.Html().find("3 of 8 nodes are drawn") != std::string::npos);
}

TEST_CASE("Run report: one page with everything and without a net", "[sim][report][html]") {
  const Watched watched;
  const std::string html = watched.Html();
  for (const char* part : {"Who did what when", "Lines", "From whom to whom", "Outer rounds",
                           "Who held what", "backward of microbatch", "delta of stage",
                           "committed → applied by all", "skerry-sim run x"}) {
    INFO(part);
    CHECK(html.find(part) != std::string::npos);
  }
  CHECK(html.find("http") == std::string::npos);
  CHECK(html.find("nan") == std::string::npos);
  CHECK(html.find("<h2>Loss") == std::string::npos);  // nothing was computed
  CHECK(html.find("Crashes and faults") == std::string::npos);
  CHECK(html.size() < 3'000'000);
}

TEST_CASE("Run report: losses and a crash are shown where there are some", "[sim][report][html]") {
  const Watched watched("[[fault]]\nkind = \"crash\"\nat_s = 22\nnode = 3\n", {.real_math = true});
  const std::string html = watched.Html();
  CHECK(html.find("<h2>Loss") != std::string::npos);
  CHECK(html.find("node3: crash") != std::string::npos);
  CHECK(html.find("taken for dead") != std::string::npos);
}

TEST_CASE("Run report: the log of a simulated run is one that a report can be made of",
          "[sim][report]") {
  const Watched watched;
  const RunReport report = ReportOf(*watched.run);
  CHECK(report.unreadable_lines == 0);
  CHECK(report.finished);
  CHECK(report.nodes.size() == 8);
  CHECK(report.links.size() == 56);
  CHECK(report.step_ended_s.size() == 24);
  CHECK(report.training.empty());
  REQUIRE(report.rounds.size() == 12);
  for (const ReportRound& round : report.rounds) CHECK(round.landed_s > round.committed_s);
}

}  // namespace
}  // namespace skerry
