#include "bench/emulated_run.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "absl/strings/str_format.h"
#include "bench/bench.h"
#include "bench/statistics.h"
#include "common/status.h"
#include "sim/child_process.h"
#include "sim/scenario.h"
#include "sim/scenario_run.h"

namespace skerry::bench {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr const char* kIteration = R"(name = "iteration"
text = "text.txt"
regions = ["frankfurt", "virginia", "tokyo"]
[[pair]]
a = "frankfurt"
b = "virginia"
rtt_ms = 93
flow_cap_mbps = 200
[[pair]]
a = "frankfurt"
b = "tokyo"
rtt_ms = 228
flow_cap_mbps = 100
[[pair]]
a = "virginia"
b = "tokyo"
rtt_ms = 148
flow_cap_ab_mbps = 100
flow_cap_ba_mbps = 150
[pair_default]
unlimited = true
[same_region]
rtt_ms = 2
unlimited = true
flow_cap_mbps = 1000
[[nodes]]
region = "frankfurt"
count = 3
device = "this"
[[nodes]]
region = "virginia"
count = 3
device = "this"
[[nodes]]
region = "tokyo"
count = 2
device = "this"
[run]
name = "iteration"
seed = 1
nodes_min = 8
steps = %d
[model]
vocab = 256
hidden = 64
layers = 8
heads = 4
kv_heads = 2
ffn = 128
context = 64
[inner]
optimizer = "adamw"
learning_rate = 2e-3
min_learning_rate = 2e-4
warmup_steps = 4
[outer]
inner_steps = 8
overlap_steps = 2
learning_rate = 1.0
momentum = 0.0
codec = "int8"
residual = "buffer"
[pipeline]
skip_ratio = 0.25
microbatches_per_step = 8
sequences_per_microbatch = 2
in_flight = 4
)";

class EventReader {
 public:
  void Add(double t, const std::string& kind, const Json& fields) {
    if (kind == "step") {
      if (last_step_ > 0) steps_.push_back(t - last_step_);
      last_step_ = t;
    } else if (kind == "applied") {
      const double transfer_s = fields.at("transfer_s");
      const auto [at, is_new] = transfers_.try_emplace(
          {fields.at("stage").get<int>(), fields.at("round").get<int64_t>()}, transfer_s);
      if (!is_new) at->second = std::min(at->second, transfer_s);
      waits_.push_back(fields.at("wait_s"));
      by_round_[{fields.at("stage").get<int>(), fields.at("round").get<int64_t>()}].Add(
          transfer_s, fields.at("wait_s"));
    } else if (kind == "admitted") {
      gflops_.push_back(fields.at("gflops"));
    } else if (kind == "plan" && predicted_s_ == 0) {
      predicted_s_ = fields.at("predicted_step_s");
    }
  }

  RunFigures figures() const {
    std::vector<double> exchanges;
    for (const auto& [round, seconds] : transfers_) exchanges.push_back(seconds);
    const auto median = [](const std::vector<double>& v) { return v.empty() ? 0 : Median(v); };
    RunFigures out = {predicted_s_,    median(steps_), median(exchanges), median(waits_),
                      median(gflops_), steps_.size(),  exchanges.size()};
    for (auto it = by_round_.begin(); it != by_round_.end(); ++it) {
      const auto next = std::next(it);
      if (next == by_round_.end() || next->first.first != it->first.first) continue;
      out.total_transfer_s += it->second.transfer_s;
      out.total_wait_s += it->second.wait_s;
    }
    if (out.total_transfer_s > 0) out.hidden = 1 - out.total_wait_s / out.total_transfer_s;
    return out;
  }

 private:
  double predicted_s_ = 0, last_step_ = 0;
  // Of a stage's round: from the moment its last replica was there. Before that the others wait for
  // its arithmetic, not for the network.
  std::map<std::pair<int, int64_t>, double> transfers_;
  std::vector<double> steps_, waits_, gflops_;
  struct Sums {
    double transfer_s = 0, wait_s = 0;
    void Add(double transfer, double wait) {
      transfer_s += transfer;
      wait_s += wait;
    }
  };
  std::map<std::pair<int, int64_t>, Sums> by_round_;  // over all nodes, by stage and round
};

void Write(const fs::path& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << text;
  out.flush();
  if (!out) MustBeOk(Unavailable("%s: cannot be written", path.string()));
}

// A directory with the scenario, gone with this object.
class ScenarioDirectory {
 public:
  ScenarioDirectory(const std::string& scenario, double tflops) {
    std::string name = (fs::temp_directory_path() / "skerry-bench-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) MustBeOk(Unavailable("no temporary directory"));
    path_ = name;
    std::string text;
    while (text.size() < 400'000)
      text += absl::StrFormat("The %d. sentence of a text that is nowhere read.\n", text.size());
    Write(path_ / "text.txt", text);
    SetDevice(scenario, tflops);
  }
  ~ScenarioDirectory() {
    std::error_code error;
    fs::remove_all(path_, error);
  }
  ScenarioDirectory(const ScenarioDirectory&) = delete;
  ScenarioDirectory& operator=(const ScenarioDirectory&) = delete;

  void SetDevice(const std::string& scenario, double tflops) const {
    Write(
        path_ / "scenario.toml",
        scenario + absl::StrFormat("[device.this]\nfp32_tflops = %.9f\nmemory_gib = 4\n", tflops));
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

RunFigures Emulated(const std::string& programs_dir, const ScenarioDirectory& directory) {
  const fs::path out = directory.path() / "out";
  const auto said =
      RunAndCapture({(fs::path(programs_dir) / "skerry-sim").string(), "emulate",
                     directory.path().string(), "--shaper", "packets", "--out", out.string()});
  MustBeOk(said.status());
  const size_t network = said->find("network: ", said->find("network: ") + 1);
  if (network != std::string::npos)
    std::printf("  %s\n", said->substr(network, said->find('\n', network) - network).c_str());
  EventReader reader;
  std::ifstream in(out / "events.jsonl");
  for (std::string line; std::getline(in, line);) {
    const Json event = Json::parse(line);
    reader.Add(event.at("t"), event.at("kind"), event);
  }
  return reader.figures();
}

RunFigures Simulated(const ScenarioDirectory& directory) {
  auto scenario = LoadScenario(directory.path().string());
  MustBeOk(scenario.status());
  auto run = MakeScenarioRun(*scenario, {});
  MustBeOk(run.status());
  (*run)->Run();
  EventReader reader;
  for (const VirtualEvent& event : (*run)->events()) {
    if (event.process != VirtualRun::coordinator()) continue;
    const bool braces = !event.fields.empty() && event.fields.front() == '{';
    const Json fields = Json::parse(braces ? event.fields : "{" + event.fields + "}");
    reader.Add((event.at - Instant()).seconds(), event.kind, fields);
  }
  return reader.figures();
}

}  // namespace

RunPair RunBoth(const std::string& programs_dir, const std::string& scenario, double nodes) {
  const ScenarioDirectory directory(scenario, 0.01);
  RunPair pair;
  pair.real = Emulated(programs_dir, directory);
  const double sharing = std::max(1.0, nodes / std::max(1U, std::thread::hardware_concurrency()));
  directory.SetDevice(scenario, pair.real.gflops * 1e-3 / sharing);
  pair.simulated = Simulated(directory);
  return pair;
}

RunFigures RunEmulated(const std::string& programs_dir, const std::string& scenario) {
  return Emulated(programs_dir, ScenarioDirectory(scenario, 0.01));
}

RunFigures RunSimulated(const std::string& scenario) {
  return Simulated(ScenarioDirectory(scenario, 0.01));
}

std::string IterationScenario(int steps) {
  std::string scenario = kIteration;
  return scenario.replace(scenario.find("%d"), 2, std::to_string(steps));
}

std::string ProgramsDirectory() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).parent_path().string();
}

}  // namespace skerry::bench
