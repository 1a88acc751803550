#include "bench/dashboard_week.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"
#include "bench/statistics.h"
#include "common/rng.h"
#include "coordinator/event_file.h"
#include "coordinator/step_paths.h"

namespace skerry::bench {
namespace {

using Json = nlohmann::json;

constexpr std::time_t kBegan = 1'790'000'000;
constexpr int64_t kTokens = 1 << 20;  // of a step
constexpr double kTracesPerSecond = 100;  // bytes; coordinator/tracing.h
constexpr int kMicrobatches = 8;
constexpr size_t kTasksWritten = 600;

std::string Fields(const Json& json) {
  const std::string text = json.dump();
  return text.substr(1, text.size() - 2);
}

class Writer {
 public:
  Writer(LineFile file, const std::vector<std::string>& nodes, const WeekOptions& options)
      : events_(std::move(file), {[this] { return now_s_; }, [this] { return Utc(); }}),
        nodes_(nodes),
        options_(options),
        rng_(17) {}

  void Begin(const std::vector<std::string>& regions) {
    Tell("run", {{"run", "0badcafe"},
                 {"name", "a week of a thousand"},
                 {"seed", 1},
                 {"parameters", int64_t{8'000'000'000}},
                 {"steps", int64_t{10'000'000}},
                 {"skip_ratio", 0.25},
                 {"nodes_min", nodes_.size()}});
    for (size_t i = 0; i < nodes_.size(); ++i) {
      Tell("admitted", {{"node", nodes_[i]},
                        {"region", regions[i % regions.size()]},
                        {"device", "NVIDIA GeForce RTX 4090"},
                        {"gflops", 80'000.0}});
    }
    Plan("the first");
  }

  Week Until(double end_s) {
    double step_at = options_.step_s, link_at = 0, churn_at = options_.churn_s, trace_at = 0;
    while (now_s_ < end_s) {
      now_s_ = std::min({step_at, link_at, churn_at, trace_at});
      if (now_s_ == link_at) {
        Link();
        link_at += 1 / options_.links_per_s;
      } else if (now_s_ == step_at) {
        Step();
        step_at += options_.step_s * Between(0.9, 1.1);
      } else if (now_s_ == churn_at) {
        Churn();
        churn_at += options_.churn_s;
      } else {
        trace_at += Trace() / kTracesPerSecond;
      }
    }
    events_.Flush();
    week_.seconds = now_s_;
    return week_;
  }

 private:
  std::string Utc() const {
    const std::time_t at = kBegan + static_cast<std::time_t>(now_s_);
    char text[32];
    std::tm parts{};
    gmtime_r(&at, &parts);
    std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
    return text;
  }
  double Tell(const char* kind, const Json& json) {
    const std::string fields = Fields(json);
    const auto bytes = static_cast<double>(fields.size()) + EventBudget::kLineBytes;
    ++week_.told;
    week_.told_bytes += bytes;
    events_.Write(kind, fields);
    return bytes;
  }
  double Between(double low, double high) { return low + (high - low) * rng_.Uniform(); }
  const std::string& Somebody() { return nodes_[rng_.Below(nodes_.size())]; }
  std::vector<std::string> ReplicasOf(int64_t stage) const {
    std::vector<std::string> replicas;
    for (size_t i = static_cast<size_t>(stage); i < nodes_.size();
         i += static_cast<size_t>(options_.stages)) {
      replicas.push_back(nodes_[i]);
    }
    return replicas;
  }

  void Plan(const char* reason) {
    Json stages = Json::array();
    for (int64_t stage = 0; stage < options_.stages; ++stage) {
      stages.push_back({{"first_layer", 2 * stage},
                        {"last_layer", 2 * stage + 2},
                        {"replicas", ReplicasOf(stage)},
                        {"parameters", int64_t{8'000'000'000} / options_.stages}});
    }
    Tell("plan", {{"version", ++plan_},
                  {"stages", stages},
                  {"predicted_step_s", options_.step_s},
                  {"lower_bound_s", 0.8 * options_.step_s},
                  {"reason", reason},
                  {"outer",
                   {{"mode", "overlap"},
                    {"inner_steps", options_.inner_steps},
                    {"overlap_steps", options_.inner_steps / 2},
                    {"codec", "ternary"},
                    {"fragments", 1}}}});
  }

  void Step() {
    const double loss = 2 + 9 / std::sqrt(1 + 0.01 * static_cast<double>(step_));
    Tell("step", {{"step", step_},
                  {"loss", loss * Between(0.98, 1.02)},
                  {"tokens", kTokens},
                  {"microbatches", kMicrobatches}});
    if (++step_ % options_.inner_steps != 0) return;
    for (int64_t stage = 0; stage < options_.stages; ++stage) Round(stage);
  }

  void Round(int64_t stage) {
    const int64_t round = step_ / options_.inner_steps - 1;
    const std::vector<std::string> replicas = ReplicasOf(stage);
    Tell("round", {{"stage", stage}, {"round", round}, {"participants", replicas}});
    const std::string digest =
        absl::StrFormat("%08x", static_cast<uint32_t>(round * 2654435761u + stage));
    for (const std::string& node : replicas) {
      Tell("applied", {{"stage", stage},
                       {"round", round},
                       {"node", node},
                       {"digest", digest},
                       {"transfer_s", Between(10, 40)},
                       {"wait_s", Between(0, 0.2)},
                       {"bytes_sent", int64_t{64'000'000}},
                       {"bytes_received", int64_t{65'000'000}}});
    }
  }

  void Link() {
    Tell("link", {{"from", Somebody()},
                  {"to", Somebody()},
                  {"rtt_ms", Between(2, 250)},
                  {"mbps", Between(20, 900)},
                  {"relayed", rng_.Below(20) == 0}});
  }

  void Churn() {
    const std::string node = Somebody();
    Tell("dead", {{"node", node}, {"silent_s", 6.5}});
    Tell("returned", {{"node", node}});
    if (++deaths_ % 40 == 0) Plan("somebody died, and somebody came");
  }

  // Of one path of all stages, there and back.
  double Trace() {
    TracedStep step;
    step.step = step_;
    step.plan_version = plan_;
    step.predicted_s = options_.step_s;
    double at = 0;
    for (int m = 0; m < kMicrobatches; ++m) {
      at = 0.05 * m;
      for (int64_t hop = 0; hop < 2 * options_.stages; ++hop) {
        const bool forward = hop < options_.stages;
        const int64_t stage = forward ? hop : 2 * options_.stages - 1 - hop;
        const double end = at + Between(0.005, 0.02);
        step.tasks.push_back({nodes_[static_cast<size_t>(stage)],
                              forward ? TracedTask::Kind::kForward : TracedTask::Kind::kBackward, m,
                              0, static_cast<int32_t>(hop), at, at, end});
        at = end + 0.01;
      }
    }
    step.predicted = step.tasks;
    return Tell("trace", TraceJson(step, kTasksWritten));
  }

  double now_s_ = 0;
  EventFile events_;
  const std::vector<std::string>& nodes_;
  const WeekOptions& options_;
  Rng rng_;
  Week week_;
  int64_t step_ = 0, plan_ = 0, deaths_ = 0;
};

}  // namespace

Week WriteWeek(const std::filesystem::path& file, const std::vector<std::string>& nodes,
               const std::vector<std::string>& regions, const WeekOptions& options) {
  auto lines = LineFile::Open(file.string());
  MustBeOk(lines.status());
  Week week;
  {
    Writer writer(*std::move(lines), nodes, options);
    writer.Begin(regions);
    week = writer.Until(options.days * 86'400);
  }
  week.bytes = static_cast<int64_t>(std::filesystem::file_size(file));
  return week;
}

}  // namespace skerry::bench
