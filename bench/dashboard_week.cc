#include "bench/dashboard_week.h"

#include <ctime>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/str_format.h"
#include "bench/statistics.h"
#include "coordinator/event_file.h"
#include "coordinator/step_paths.h"

namespace skerry::bench {
namespace {

using Json = nlohmann::json;

constexpr int kStages = 8;
constexpr int kReplicas = kWeekNodes / kStages;
constexpr int64_t kRoundSeconds = 600;
constexpr int64_t kChurnSeconds = 600;
constexpr int64_t kTokens = 65'536;            // of a step
constexpr std::time_t kBegan = 1'763'942'400;  // 2025-11-24 00:00 UTC
// As coordinator/tracing.h: what is saved up, and what is earned a second.
constexpr double kTraceBytes = 4e6, kTraceBytesPerSecond = 100;
constexpr const char* kRegions[] = {"frankfurt", "virginia", "tokyo", "sao-paulo", "sydney"};

// As NodeId::Short() looks.
std::string Name(int64_t node) {
  return absl::StrFormat("%08x", static_cast<uint32_t>(node * 2'654'435'761));
}

std::string Region(int64_t node) {
  return kRegions[node % static_cast<int64_t>(std::size(kRegions))];
}

std::string Utc(double seconds) {
  const std::time_t at = kBegan + static_cast<std::time_t>(seconds);
  std::tm parts{};
  gmtime_r(&at, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

class Week {
 public:
  explicit Week(LineFile file)
      : file_(std::move(file), {[this] { return now_s_; }, [this] { return Utc(now_s_); }}) {}

  void Write() {
    Begin();
    for (int64_t second = 0; second < kWeekSeconds; ++second) {
      now_s_ = static_cast<double>(second);
      Second(second);
      trace_bytes_ = std::min(trace_bytes_ + kTraceBytesPerSecond, kTraceBytes);
      if (trace_bytes_ >= 0 && second % 8 == 4) Trace(second);
    }
    file_.Flush();
  }

 private:
  void Tell(const char* kind, const Json& fields) { file_.Write(kind, fields.dump()); }

  void Begin() {
    Tell("run", {{"run", "7f3a9c01"},
                 {"name", "a week"},
                 {"seed", 1},
                 {"parameters", 1'240'000'000},
                 {"steps", 2 * kWeekSeconds},
                 {"skip_ratio", 0.25},
                 {"nodes_min", kWeekNodes}});
    for (int node = 0; node < kWeekNodes; ++node) Admit(node);
    Plan("the first plan");
  }

  void Admit(int64_t node) {
    Tell("admitted", {{"node", Name(node)},
                      {"region", Region(node)},
                      {"device", "NVIDIA GeForce RTX 4090"},
                      {"gflops", 41'000.5},
                      {"bf16_gflops", 82'000.25}});
  }

  void Plan(const std::string& reason) {
    Json stages = Json::array();
    for (int stage = 0; stage < kStages; ++stage) {
      Json replicas = Json::array();
      for (int i = 0; i < kReplicas; ++i) replicas.push_back(Name(stage + kStages * i));
      stages.push_back({{"first_layer", 4 * stage},
                        {"last_layer", 4 * stage + 4},
                        {"parameters", 155'000'000},
                        {"replicas", replicas}});
    }
    Tell("plan", {{"version", ++version_},
                  {"stages", stages},
                  {"paths", 512},
                  {"predicted_step_s", 0.98},
                  {"lower_bound_s", 0.81},
                  {"slow_links", 3},
                  {"reason", reason}});
  }

  void Second(int64_t t) {
    const double loss = 2.9 + 3.0 * 2000 / (2000 + static_cast<double>(t));
    Tell("step", {{"step", t}, {"loss", loss}, {"tokens", kTokens}, {"microbatches", 64}});
    if (t % 2 == 0) {
      Tell("link", {{"from", Name(t / 2 % 31)},
                    {"to", Name(t / 2 % 37)},
                    {"rtt_ms", 92.75},
                    {"mbps", 187.5},
                    {"relayed", false}});
      Tell("detour", {{"node", Name(t % kWeekNodes)},
                      {"from", Name((t + 8) % kWeekNodes)},
                      {"step", t},
                      {"microbatch", 3},
                      {"waited_s", 1.25},
                      {"skipped", false}});
    }
    if (t % kChurnSeconds == kChurnSeconds - 1) Churn(t / kChurnSeconds);
    if (t % kRoundSeconds == 0 && t > 0) Rounds(t / kRoundSeconds - 1);
  }

  void Churn(int64_t number) {
    const int64_t node = number * 7 % kWeekNodes;
    Tell("dead", {{"node", Name(node)}, {"silent_s", 10.25}, {"why", "it is silent"}});
    Plan(Name(node) + " is out: it is silent");
    Tell("returned", {{"node", Name(node)}});
    Plan(Name(node) + " has the state of its stage");
  }

  void Rounds(int64_t round) {
    for (int stage = 0; stage < kStages; ++stage) {
      Json who = Json::array();
      for (int i = 0; i < kReplicas; ++i) who.push_back(Name(stage + kStages * i));
      Tell("round", {{"stage", stage}, {"round", round}, {"participants", who}});
      for (int i = 0; i < kReplicas; ++i) {
        Tell("applied", {{"stage", stage},
                         {"round", round},
                         {"node", who[static_cast<size_t>(i)]},
                         {"digest", Name(round)},
                         {"transfer_s", 41.5 + i},
                         {"wait_s", 0.25},
                         {"bytes_sent", 77'500'000},
                         {"bytes_received", 78'100'000}});
      }
    }
  }

  void Trace(int64_t step) {
    const std::string fields = TraceFields(step);
    trace_bytes_ -= static_cast<double>(fields.size());
    file_.Write("trace", fields);
  }

  EventFile file_;
  double now_s_ = 0;
  double trace_bytes_ = kTraceBytes;
  int64_t version_ = 0;
};

}  // namespace

std::string TraceFields(int64_t step) {
  constexpr int kPathStages = 4, kMicrobatches = 86, kTasksWritten = 600;
  constexpr double kTaskSeconds = 0.011;
  TracedStep traced;
  traced.step = step;
  traced.plan_version = 1;
  traced.predicted_s = 0.98;
  for (int microbatch = 0; microbatch < kMicrobatches; ++microbatch) {
    for (int hop = 0; hop < 2 * kPathStages; ++hop) {
      const int stage = hop < kPathStages ? hop : 2 * kPathStages - 1 - hop;
      const double ready_s = kTaskSeconds * (microbatch + hop);
      traced.tasks.push_back(
          {Name(stage + kStages * (microbatch % 8)),
           hop < kPathStages ? TracedTask::Kind::kForward : TracedTask::Kind::kBackward, microbatch,
           0, stage, ready_s, ready_s + 0.001, ready_s + kTaskSeconds});
    }
  }
  traced.predicted = traced.tasks;
  return TraceJson(traced, kTasksWritten).dump();
}

int64_t WriteWeek(const std::string& events_file) {
  auto file = LineFile::Open(events_file);
  MustBeOk(file.status());
  Week(*std::move(file)).Write();
  auto written = LineFile::Open(events_file);
  MustBeOk(written.status());
  return written->size();
}

std::string WeekStatus(int64_t seconds) {
  Json nodes = Json::array();
  for (int64_t node = 0; node < kWeekNodes; ++node) {
    const bool waits = (node + seconds) % 5 == 0;
    nodes.push_back(
        {{"id", Name(node)},
         {"region", Region(node)},
         {"stage", node % kStages},
         {"replica", node / kStages},
         {"phase", waits ? "waiting for peers" : "training"},
         {"step", kWeekSeconds + seconds},
         {"base_version", kWeekSeconds / kRoundSeconds},
         {"waiting_for",
          waits ? "gradient of microbatch 3 from " + Name((node + 1) % kWeekNodes) : ""},
         {"contributed_tokens", 39'000'000 + 1000 * node + seconds},
         {"reachable", node % 3 != 0},
         {"silent_s", 0.25},
         {"bytes_sent", 412'000'000'000 + node},
         {"bytes_received", 405'000'000'000 + node},
         {"memory_bytes", 9'000'000'000},
         {"memory_model_bytes", 9'100'000'000},
         {"memory_offered_bytes", 24'000'000'000},
         {"device", "NVIDIA GeForce RTX 4090"},
         {"software", "0.9.0"},
         {"reach", node % 3 != 0 ? "yes, v4 v6" : "no"},
         {"rounds_counted", 1007},
         {"rounds_screened", 0},
         {"out", false},
         {"alive", node % 97 != 0}});
  }
  const Json status = {{"run", "7f3a9c01"},
                       {"name", "a week"},
                       {"phase", "training"},
                       {"step", kWeekSeconds + seconds},
                       {"steps", 2 * kWeekSeconds},
                       {"loss", 2.91},
                       {"tokens", kTokens * (kWeekSeconds + seconds)},
                       {"bytes_sent", 412e12},
                       {"bytes_received", 405e12},
                       {"rounds", kWeekSeconds / kRoundSeconds},
                       {"version", 2017},
                       {"nodes_min", kWeekNodes},
                       {"links", 12'000},
                       {"relayed_pairs", 55'000},
                       {"tokens_per_s", 65'400.0},
                       {"elapsed_s", kWeekSeconds + seconds},
                       {"nodes", nodes}};
  return status.dump();
}

}  // namespace skerry::bench
