#include "bench/dashboard_cost.h"

#include <httplib.h>

#include <atomic>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "bench/bench.h"
#include "bench/dashboard_week.h"
#include "bench/siege/program_run.h"
#include "bench/statistics.h"
#include "coordinator/event_file.h"
#include "coordinator/step_paths.h"
#include "pipeline/exec/step_tracer.h"
#include "wire/codec/codec.h"

namespace skerry::bench {
namespace {

using Json = nlohmann::json;
using siege::ProgramRun;
using siege::TextOf;

// A step of it takes a few hundred milliseconds, as small as anybody would train over a network.
constexpr char kModel[] =
    "hidden = 256\nlayers = 8\nheads = 4\nkv_heads = 2\nffn = 768\ncontext = 128\n";
constexpr int kNodes = 4;
constexpr int64_t kWarmSteps = 20;

void Rest(int seconds) {
  std::this_thread::sleep_for(std::chrono::seconds(seconds));
}

// Of all its threads.
double ProcessorSeconds(pid_t process) {
  const std::string text = TextOf(absl::StrFormat("/proc/%d/stat", process));
  std::istringstream fields(text.substr(text.rfind(')') + 1));
  std::string skipped;
  for (int i = 0; i < 11; ++i) fields >> skipped;
  double user = 0, system = 0;
  fields >> user >> system;
  return (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

pid_t ChildOf(pid_t process) {
  return std::atoi(TextOf(absl::StrFormat("/proc/%d/task/%d/children", process, process)).c_str());
}

// Somebody who has the page open.
class Viewer {
 public:
  explicit Viewer(const std::string& url) : client_(url) {
    client_.set_read_timeout(60);
    thread_ = std::thread(
        [this] { client_.Get("/live", [this](const char*, size_t) { return !gone_.load(); }); });
  }
  ~Viewer() {
    gone_ = true;
    thread_.join();
  }

 private:
  httplib::Client client_;
  std::atomic<bool> gone_ = false;
  std::thread thread_;
};

struct Reading {
  double nodes_s = 0, coordinator_s = 0, dashboard_s = 0;
  int64_t steps = 0;
  size_t bytes = 0;  // of events.jsonl
};

class Run {
 public:
  Run() : run_(kNodes, 1'000'000, 0, 2, kModel) {
    run_.Serve("127.0.0.1:0");
    const std::string ticket = run_.Say(
        {"ticket", run_.Dir(), "--uses", std::to_string(kNodes), "--endpoint", run_.Endpoint()});
    for (int i = 0; i < kNodes; ++i) nodes_.push_back(run_.Join(ticket, std::to_string(i)));
    constexpr int kPatienceS = 300;
    for (int i = 0; i < kPatienceS && Steps() < kWarmSteps; ++i) Rest(1);
    if (Steps() < kWarmSteps) MustBeOk(Unavailable("the run does not begin: %s", Events()));
  }

  std::string Url() const {
    const std::string url = TextOf(run_.at / "run" / "dashboard");
    return url.substr(0, url.rfind('/'));
  }
  std::string Events() const { return TextOf(run_.at / "run" / "events.jsonl"); }

  Reading Read() const {
    Reading reading;
    for (const ChildProcess& node : nodes_) reading.nodes_s += ProcessorSeconds(node.pid());
    reading.coordinator_s = ProcessorSeconds(run_.coordinator->pid());
    reading.dashboard_s = ProcessorSeconds(ChildOf(run_.coordinator->pid()));
    reading.steps = Steps();
    reading.bytes = Events().size();
    return reading;
  }

 private:
  int64_t Steps() const {
    const Json status = Json::parse(TextOf(run_.at / "run" / "status.json"), nullptr, false);
    return status.is_object() ? status.value("step", int64_t{0}) : 0;
  }

  ProgramRun run_;
  std::vector<ChildProcess> nodes_;
};

double LineMicros() {
  constexpr int kLines = 2000;
  const auto directory = std::filesystem::temp_directory_path() / "skerry-bench-lines";
  auto file = LineFile::Open(directory.string());
  MustBeOk(file.status());
  EventFile events(*std::move(file), {[] { return 1.0; }, [] { return "2025-11-24T00:00:00Z"; }});
  const double seconds = BestSeconds(5, [&] {
    for (int i = 0; i < kLines; ++i) {
      events.Write("step",
                   absl::StrFormat(R"("step":%d,"loss":4.25,"tokens":65536,"microbatches":32)", i));
    }
  });
  std::filesystem::remove(directory);
  return 1e6 * seconds / kLines;
}

StepTrace TakenTrace() {
  StepTracer tracer(kTraceEveryMin);
  const Instant now;
  tracer.Begin(kTraceEveryMin / 2, 1, now);
  for (size_t i = 0; i + 1 < kTracedTasksMax; ++i) {
    const Instant at = now + Duration::Micros(static_cast<int64_t>(100 * i));
    tracer.Add(kTraceEveryMin / 2,
               {i % 2 == 0 ? TracedTask::Kind::kForward : TracedTask::Kind::kBackward,
                static_cast<int32_t>(i / 2), 0, 0},
               at, at, at + Duration::Micros(90));
  }
  return *tracer.End(now + Duration::Seconds(1));
}

double TaskMicros() {
  NodeId node, coordinator;
  node.bytes[0] = 1;
  coordinator.bytes[0] = 2;
  Frame frame;
  frame.header.sender_incarnation = 1;
  frame.header.sequence = 1;
  FrameExpectation expected;
  expected.recipient = coordinator;
  const double seconds = BestSeconds(20, [&] {
    frame.message = Share(TakenTrace());
    const auto encoded = Encode(frame, node, coordinator);
    MustBeOk(encoded.status());
    const auto decoded = Decode(encoded->envelope, nullptr, expected);
    MustBeOk(decoded.status());
    TracedStep traced;
    traced.tasks = OnOneClock({{"a", std::get<StepTrace>(*decoded->frame.message)}});
    Keep(TraceJson(traced, 600).dump());
  });
  return 1e6 * seconds / static_cast<double>(kTracedTasksMax);
}

// Of the lines from `offset` on.
void Count(const std::string& events, size_t offset, SeeingCost* cost) {
  std::istringstream lines(events.substr(offset));
  for (std::string line; std::getline(lines, line);) {
    ++cost->lines;
    const Json event = Json::parse(line, nullptr, false);
    if (event.value("kind", "") == "trace")
      cost->tasks += static_cast<int64_t>(event["tasks"].size());
  }
}

}  // namespace

SeeingCost MeasureSeeing(int seconds) {
  SeeingCost cost;
  {
    const Run run;
    const Viewer viewer(run.Url());
    const Reading before = run.Read();
    Rest(seconds);
    const Reading after = run.Read();
    Count(run.Events().substr(0, after.bytes), before.bytes, &cost);
    const double nodes_s = after.nodes_s - before.nodes_s;
    cost.seconds = seconds;
    cost.steps = after.steps - before.steps;
    cost.step_ms = 1e3 * nodes_s / static_cast<double>(std::max<int64_t>(cost.steps, 1));
    cost.dashboard = (after.dashboard_s - before.dashboard_s) / nodes_s;
    cost.coordinator = (after.coordinator_s - before.coordinator_s) / nodes_s;
    cost.lines_share = 1 / nodes_s;
  }
  cost.line_us = LineMicros();
  cost.task_us = TaskMicros();
  cost.tasks_share = cost.lines_share * 1e-6 * cost.task_us * static_cast<double>(cost.tasks);
  cost.lines_share *= 1e-6 * cost.line_us * static_cast<double>(cost.lines);
  return cost;
}

}  // namespace skerry::bench
