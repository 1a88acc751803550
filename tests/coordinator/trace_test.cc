// Where the time of a step went: from what nodes trace to what people read.
#include <stdlib.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "coordinator/explain.h"
#include "coordinator/report_page.h"
#include "coordinator/run_trace.h"
#include "pipeline/exec/step_tracer.h"
#include "sim/child_process.h"
#include "tests/coordinator/served_run.h"

using namespace skerry;
using skerry::testing::Node;
using skerry::testing::ServedRun;
using Kind = TracedTask::Kind;

namespace {

constexpr int64_t kMs = 1000;

// A sends microbatch 0 to B and gets it back, 30 ms each way; B's clock is 1000 s ahead.
//
//   A  start 0–10            loss 80–100               backward 180–200  optimizer 200–210
//   B            forward 40–50          backward 130–150
std::map<std::string, StepTrace> TwoNodes() {
  const int64_t ahead = 1'000'000 * kMs;
  StepTrace a{4, 1, 5 * kMs, {}}, b{4, 1, 5 * kMs + ahead, {}};
  const auto task = [](Kind kind, int64_t ready, int64_t start, int64_t end) {
    return TracedTask{kind,     kind == Kind::kOptimizer ? -1 : 0, 0, 0, ready * kMs, start * kMs,
                      end * kMs};
  };
  a.tasks = {task(Kind::kStart, 0, 0, 10), task(Kind::kLoss, 80, 80, 100),
             task(Kind::kBackward, 180, 180, 200), task(Kind::kOptimizer, 200, 200, 210)};
  b.tasks = {task(Kind::kForward, 40, 40, 50), task(Kind::kBackward, 130, 130, 150)};
  for (TracedTask& hop : b.tasks) hop.hop = 1;
  return {{"aaaaaaaa", a}, {"bbbbbbbb", b}};
}

TracedStep TwoNodesTraced() {
  TracedStep step;
  step.step = 4;
  step.plan_version = 1;
  step.predicted_s = 0.2;
  step.tasks = OnOneClock(TwoNodes());
  return step;
}

}  // namespace

TEST_CASE("Clocks a quarter of an hour apart come together by the messages between them",
          "[coordinator]") {
  for (const PathTask& task : OnOneClock(TwoNodes())) {
    if (task.node != "bbbbbbbb" || task.kind != Kind::kForward) continue;
    CHECK(task.ready_s == Approx(0.040).margin(1e-6));
    CHECK(task.end_s == Approx(0.050).margin(1e-6));
  }
}

TEST_CASE("The parts of a critical path add up to the step, and name ways and nodes",
          "[coordinator]") {
  const TracedStep step = TwoNodesTraced();
  double sum = 0;
  for (const PathPart& part : CriticalPath(step.tasks)) sum += part.end_s - part.start_s;
  CHECK(step.measured_s() == Approx(0.210));
  CHECK(sum == Approx(0.210));
  const auto shares = SharesOf(CriticalPath(step.tasks));
  CHECK(shares.at({"aaaaaaaa", "bbbbbbbb"}) == Approx(0.060));
  CHECK(shares.at({"bbbbbbbb", "aaaaaaaa"}) == Approx(0.060));
  CHECK(shares.at({"aaaaaaaa", ""}) == Approx(0.060));
  CHECK(shares.at({"bbbbbbbb", ""}) == Approx(0.030));
}

TEST_CASE("What would have helped most is found by trying it", "[coordinator]") {
  const TracedStep step = TwoNodesTraced();
  const auto remedies = Remedies(step.tasks);
  REQUIRE(remedies.size() == 3);
  CHECK(remedies[0].from == "aaaaaaaa");
  CHECK(remedies[0].to == "bbbbbbbb");
  CHECK(remedies[0].step_s == Approx(0.150));
  CHECK(StepSecondsIf(step.tasks, "aaaaaaaa", "", 0.5) == Approx(0.180));
  CHECK(StepSecondsIf(step.tasks, "nobody", "", 0.5) == Approx(0.210));
}

TEST_CASE("Who stood idle, and for whom", "[coordinator]") {
  const auto idle = IdleTimes(TwoNodesTraced().tasks);
  CHECK(idle.at("aaaaaaaa").busy_s == Approx(0.060));
  CHECK(idle.at("aaaaaaaa").idle_s == Approx(0.150));
  CHECK(idle.at("aaaaaaaa").for_node.at("bbbbbbbb") == Approx(0.150));
}

TEST_CASE("Explain compares each part of the critical path with what was planned for the same part",
          "[coordinator]") {
  TracedStep step = TwoNodesTraced();
  step.predicted = step.tasks;
  std::erase_if(step.predicted,
                [](const PathTask& task) { return task.kind == TracedTask::Kind::kOptimizer; });
  for (PathTask& task : step.predicted) {  // all in half the time
    for (double* at : {&task.ready_s, &task.start_s, &task.end_s}) *at /= 2;
  }
  const auto explained = ExplainJson(RunReport(), &step, {});
  std::map<std::string, nlohmann::json> parts;
  for (const auto& part : explained["step"]["critical_path"])
    parts[part["from"].get<std::string>() + ">" + part["to"].get<std::string>()] = part;
  CHECK(parts.at("aaaaaaaa>bbbbbbbb")["predicted_s"].get<double>() == Approx(0.030));
  CHECK(parts.at("bbbbbbbb>aaaaaaaa")["predicted_s"].get<double>() == Approx(0.030));
  CHECK(parts.at("bbbbbbbb>")["predicted_s"].get<double>() == Approx(0.015));
  const auto& first = parts.at("aaaaaaaa>");
  const double optimizer_s = first["optimizer_s"].get<double>();
  CHECK(optimizer_s > 0);
  CHECK(first["predicted_s"].get<double>() ==
        Approx((first["seconds"].get<double>() - optimizer_s) / 2));
  const auto text = ExplainText(RunReport(), &step, {});
  REQUIRE(text.ok());
  CHECK(text->find("; predicted 30.0 ms\n") != std::string::npos);
  CHECK(text->find(", the optimizer's ") != std::string::npos);
}

TEST_CASE("A traced step survives its way through the log, and garbage is left out",
          "[coordinator]") {
  const TracedStep step = TwoNodesTraced();
  nlohmann::json event = TraceJson(step, 100);
  const TracedStep back = TraceOf(event);
  REQUIRE(back.tasks.size() == step.tasks.size());
  CHECK(back.measured_s() == Approx(step.measured_s()));
  CHECK_FALSE(back.is_cut);
  event["tasks"].push_back({99, 0, 0, 0, 0, 0, 0, 0});
  event["tasks"].push_back("x");
  event["tasks"].push_back({0, 77, 0, 0, 0, 0, 0, 0});
  CHECK(TraceOf(event).tasks.size() == step.tasks.size());
  CHECK(TraceOf(nlohmann::json::array()).tasks.empty());
  // Only the optimizer's task fits beside nothing.
  CHECK(TraceOf(TraceJson(step, 1)).tasks.size() == 1);
  CHECK(TraceOf(TraceJson(step, 1)).is_cut);
}

TEST_CASE("Explain says who was waited for, what was predicted and what would have helped",
          "[coordinator]") {
  nlohmann::json trace = TraceJson(TwoNodesTraced(), 100);
  trace["t"] = 3.0;
  trace["kind"] = "trace";
  const std::string lines =
      R"({"t":0.0,"utc":"2026-11-22T10:00:00Z","kind":"run","run":"aa","name":"sea"}
{"t":1.0,"kind":"admitted","node":"aaaaaaaa","region":"oslo","gflops":10}
{"t":1.5,"kind":"plan","version":1,"stages":[],"outer":{"inner_steps":8}}
{"t":2.0,"kind":"round","stage":0,"round":0,"participants":["aaaaaaaa"]}
)"
      R"({"t":2.1,"kind":"applied","stage":0,"round":0,"node":"aaaaaaaa","digest":"1",)"
      R"("transfer_s":0.5,"wait_s":0.1}
)" + trace.dump() +
      "\n";
  const RunReport report = ReportOfLines(lines);
  REQUIRE(report.trace);
  const auto text = ExplainText(report, report.trace.get(), {});
  REQUIRE(text.ok());
  CHECK(text->find("the way aaaaaaaa (oslo) → bbbbbbbb") != std::string::npos);
  CHECK(text->find("predicted  0.200 s") != std::string::npos);
  CHECK(text->find("0.150 s a step, 29 % less: the way between") != std::string::npos);
  CHECK(text->find("80 % of it hidden") != std::string::npos);
  CHECK(ExplainJson(report, report.trace.get(), {})["step"]["half_the_time"][0]["step_s"] ==
        Approx(0.150));
  CHECK(absl::IsNotFound(ExplainText(report, nullptr, {.round = 7, .step = {}}).status()));
  CHECK(GanttChart(report).find("Tasks of every node in step 4") != std::string::npos);
}

namespace {

// Of steps 4, 12 and 20.
std::string LogOfTraces() {
  std::string lines =
      R"({"t":0.0,"utc":"2026-11-22T10:00:00Z","kind":"run","run":"aa","name":"sea"})";
  for (int64_t step = 4; step <= 20; step += 8) {
    TracedStep traced = TwoNodesTraced();
    traced.step = step;
    traced.predicted = traced.tasks;
    nlohmann::json event = TraceJson(traced, 100);
    event["t"] = 10.0 + static_cast<double>(step);
    event["kind"] = "trace";
    lines += "\n" + event.dump();
  }
  return lines + "\ngarbage {\"kind\":\"trace\"";
}

}  // namespace

TEST_CASE("Traced steps of a window become Chrome's trace: a row a node, a bar a task",
          "[coordinator]") {
  const std::string lines = LogOfTraces();
  std::istringstream log(lines);
  std::ostringstream out;
  const auto steps = WriteRunTrace(log, {.first_step = 5, .last_step = 12}, out);
  REQUIRE(steps.ok());
  CHECK(*steps == 1);
  const auto trace = nlohmann::json::parse(out.str());
  std::map<std::string, int> seen;
  std::set<std::pair<int, std::string>> rows;
  for (const auto& event : trace["traceEvents"]) {
    ++seen[event["ph"].get<std::string>()];
    if (event["name"] == "thread_name")
      rows.emplace(event["pid"].get<int>(), event["args"]["name"].get<std::string>());
    if (event["name"] != "optimizer" || event["pid"] != 0) continue;
    // It ends the step, when the line was written.
    CHECK(event["ts"].get<double>() + event["dur"].get<double>() == Approx(22.0e6));
    CHECK(event["dur"].get<double>() == Approx(10e3));
    CHECK(event["args"]["step"] == 12);
  }
  CHECK(seen["X"] == 12);  // six tasks, measured and predicted
  CHECK(rows == std::set<std::pair<int, std::string>>{
                    {0, "aaaaaaaa"}, {0, "bbbbbbbb"}, {1, "aaaaaaaa"}, {1, "bbbbbbbb"}});

  std::istringstream again(lines), nothing("no event");
  std::ostringstream none;
  CHECK(*WriteRunTrace(again, {.first_step = 21}, none) == 0);
  CHECK(nlohmann::json::parse(none.str())["traceEvents"].empty());
  CHECK(absl::IsInvalidArgument(WriteRunTrace(nothing, {}, none).status()));
}

TEST_CASE("The program writes the trace of a run's directory, and says when there is none",
          "[coordinator]") {
  std::string home = (std::filesystem::temp_directory_path() / "skerry-trace-XXXXXX").string();
  REQUIRE(mkdtemp(home.data()) != nullptr);
  std::ofstream(home + "/events.jsonl") << LogOfTraces() << "\n";
  const std::string program =
      std::filesystem::canonical("/proc/self/exe").parent_path().string() + "/skerry-coordinator";
  const auto all = RunAndCapture({program, "trace", home});
  REQUIRE(all.ok());
  CHECK(nlohmann::json::parse(*all)["traceEvents"].size() == 3 * 12 + 6);  // rows have names
  const std::string file = home + "/trace.json";
  CHECK(RunAndCapture({program, "trace", home, "--from-step", "12", "--out", file}).ok());
  std::ifstream written(file);
  CHECK(nlohmann::json::parse(written)["traceEvents"].size() == 2 * 12 + 6);
  CHECK_FALSE(RunAndCapture({program, "trace", home, "--from-step", "21"}).ok());
  CHECK_FALSE(RunAndCapture({program, "trace", home + "/nothing"}).ok());
  std::filesystem::remove_all(home);
}

TEST_CASE("A tracer keeps one step of a round, from its opening to the optimizer",
          "[coordinator]") {
  StepTracer tracer(2);
  const auto at = [](int64_t ms) { return Instant::FromNanos(ms * 1'000'000); };
  tracer.Begin(3, 1, at(0));
  CHECK_FALSE(tracer.End(at(1)));
  tracer.Begin(4, 1, at(10));
  tracer.Add(4, {Kind::kStart, 0}, at(10), at(12), at(15));
  tracer.Add(3, {Kind::kStart, 1}, at(10), at(12), at(15));  // sent again, of an earlier step
  tracer.Close(at(20));
  const auto trace = tracer.End(at(25));
  REQUIRE(trace);
  REQUIRE(trace->tasks.size() == 2);
  CHECK(trace->began_us == 10'000);
  CHECK(trace->tasks[0].end_us == 5'000);
  CHECK(trace->tasks[1].kind == Kind::kOptimizer);
  CHECK(trace->tasks[1].start_us == 10'000);
  CHECK_FALSE(tracer.End(at(26)));
}

namespace {

RunConfig LongerRun() {
  RunConfig config = skerry::testing::SmallRun();
  config.steps = 16;
  return config;
}

StepTrace TraceOfNode(const ServedRun& run, int64_t step) {
  return {step,
          run.state().plan->version,
          1000,
          {{Kind::kStart, 0, 0, 0, 0, 0, 5},
           {Kind::kBackward, 1, 0, 0, 0, 5, 9},
           {Kind::kOptimizer, -1, 0, 0, 0, 10, 20}}};
}

}  // namespace

TEST_CASE("A step is written once everybody who works has traced it, with the model's prediction",
          "[coordinator]") {
  ServedRun run(LongerRun());
  run.Gather();
  for (int i = 0; i < 3; ++i) run.From(i, TraceOfNode(run, 4));
  run.RunJobs();
  CHECK(run.CountEvents("trace") == 0);
  run.From(3, TraceOfNode(run, 4));
  run.RunJobs();
  const nlohmann::json event = run.LastEvent("trace");
  REQUIRE(event.is_object());
  CHECK(event["step"] == 4);
  CHECK(event["nodes"].size() == 4);
  CHECK(event["tasks"].size() == 12);
  CHECK(event["predicted"].size() > 4);
  run.From(3, TraceOfNode(run, 4));  // again, as after a restart
  run.RunJobs();
  CHECK(run.CountEvents("trace") == 1);
}

TEST_CASE("Traces that cannot be are refused", "[coordinator][error]") {
  ServedRun run(LongerRun());
  run.Gather();
  const int64_t before = run.actor->refused();
  StepTrace trace = TraceOfNode(run, 5);  // nobody traces this step
  run.From(0, trace);
  trace = TraceOfNode(run, 4);
  trace.plan_version = 99;
  run.From(0, trace);
  trace = TraceOfNode(run, 4);
  trace.tasks.back().end_us = INT64_MAX;
  run.From(0, trace);
  trace.tasks.back().end_us = 5;  // before it began
  run.From(0, trace);
  CHECK(run.actor->refused() == before + 4);
}

TEST_CASE("A node hears what its accepted deltas come to, and its rank", "[coordinator]") {
  ServedRun run(LongerRun());
  run.Gather();
  Heartbeat beat;
  beat.phase = Phase::kTraining;
  run.TakeSends();
  run.From(0, beat);
  const auto told = run.SentTo<Standing>(Node(0));
  REQUIRE(told.size() == 1);
  CHECK(told[0].tokens == 0);
  CHECK(told[0].rank == 0);
  run.From(0, beat);
  CHECK(run.SentTo<Standing>(Node(0)).size() == 1);  // not at every heartbeat

  const std::vector<NodeId> both = run.Live(0);
  RunState state = run.Fold();
  REQUIRE(state.Apply(CommitRecord({0, 0, {{both[0], 100, {}}, {both[1], 300, {}}}})).ok());
  REQUIRE(state.Apply(CommitRecord({0, 1, {{both[0], 50, {}}}})).ok());
  CHECK(state.credits.at(both[0]) == RunState::Credit{150, 2});
  CHECK(state.credits.at(both[1]) == RunState::Credit{300, 1});
}
