#include "sim/emulator.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>
#include <vector>

#include "common/status.h"
#include "coordinator/report.h"
#include "model/file_io.h"
#include "sim/child_process.h"
#include "sim/cohort_summary.h"
#include "sim/emulated_network.h"
#include "sim/out_directory.h"
#include "sim/scenario.h"
#include "sim/scenario_emulate.h"
#include "wire/config.h"
#include "wire/toml_reader.h"

namespace skerry {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;

constexpr auto kPoll = std::chrono::milliseconds(200);
constexpr auto kTakeOverAfter =
    std::chrono::seconds(15);                       // time to restart a dead coordinator by hand
constexpr auto kLinger = std::chrono::seconds(20);  // for nodes to end after the run

void Say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

std::string LastLine(const std::string& path) {
  std::ifstream in(path);
  std::string line, last;
  while (std::getline(in, line)) {
    if (!line.empty()) last = line;
  }
  return last;
}

void Append(CommandLine& command, const CommandLine& more) {
  command.insert(command.end(), more.begin(), more.end());
}

// A model that has learned little writes bytes that are no text.
std::string ToText(const Json& json) {
  return json.dump(1, ' ', false, Json::error_handler_t::replace);
}

Json LinksJson(const Scenario& scenario) {
  Json links = Json::array();
  for (const auto& [from, to, link] : ConfiguredLinks(scenario)) {
    links.push_back({{"from", from},
                     {"to", to},
                     {"rtt_ms", link.one_way.millis() * 2},
                     {"mbps", link.bytes_per_s * 8 / 1e6}});
  }
  return links;
}

// One emulation: the children and where they live.
class Emulation {
 public:
  Emulation(const EmulateOptions& options, Scenario scenario, const volatile bool& interrupted)
      : options_(options),
        scenario_(std::move(scenario)),
        interrupted_(interrupted),
        out_(fs::absolute(options.out_dir)),
        run_(out_ / "run") {}

  absl::Status Prepare();
  absl::Status StartAll();
  absl::Status Watch();
  absl::Status Conclude();

 private:
  std::string Program(const std::string& name) const {
    return (fs::path(options_.programs_dir) / name).string();
  }
  std::string Log(const std::string& name) const {
    return (out_ / "logs" / (name + ".log")).string();
  }
  std::string ServeByHand() const {
    CommandLine command = network_->EnterCommand(0);
    Append(command, serve_);
    return QuoteCommand(command);
  }
  absl::Status StartCoordinator();
  absl::Status StartDashboard();
  absl::Status NoticeDeaths();
  bool Finished() const;
  bool HeldByAnother() const;
  CommandLine NodeTool(const std::string& tool) const;
  absl::StatusOr<Json> Evaluate();
  SumTimes SumsOfGradients() const;

  const EmulateOptions& options_;
  Scenario scenario_;
  const volatile bool& interrupted_;
  fs::path out_;
  fs::path run_;
  std::unique_ptr<EmulatedNetwork> network_;  // outlives the processes
  CommandLine serve_;
  std::vector<std::pair<std::string, ChildProcess>> nodes_;
  std::vector<ChildProcess> coordinator_;  // at most one
  std::vector<ChildProcess> dashboard_;    // likewise
  Clock::time_point coordinator_died_;
  std::vector<bool> node_reported_;
};

absl::Status Emulation::Prepare() {
  SKERRY_RETURN_IF_ERROR(
      PrepareOut(out_, {"emulate",
                        {"logs/run.toml"},
                        {"run", "nodes", "logs", "model", "report.json", "report.html",
                         "events.jsonl", "evaluation.json", "reference.json"}}));
  std::error_code error;
  fs::create_directories(out_ / "logs", error);
  fs::create_directories(out_ / "nodes", error);
  if (error) return Unavailable("%s: %s", out_.string(), error.message());
  if (!fs::exists(scenario_.text_file)) {
    return NotFound("training text %s is not here; install it: apt-get install dict-gcide",
                    scenario_.text_file);
  }
  if (options_.seed) scenario_.run.seed = *options_.seed;
  if (options_.steps) scenario_.run.steps = *options_.steps;
  if (options_.checkpoints) scenario_.run.checkpoint.every_rounds = *options_.checkpoints;
  scenario_.run.nodes_min =
      std::min(scenario_.run.nodes_max, static_cast<int32_t>(scenario_.nodes.size()));
  SKERRY_ASSIGN_OR_RETURN(network_, EmulatedNetwork::Create(scenario_, options_.shaper,
                                                            (out_ / "logs" / "wan.toml").string()));
  const fs::path config = out_ / "logs" / "run.toml";
  SKERRY_RETURN_IF_ERROR(ReplaceText(config, FormatRunConfig(scenario_.run)));

  // Token shards are the same for every run over the same text: prepared once, kept beside the
  // scenario's output.
  const fs::path data = out_ / "data";
  if (!fs::exists(data / "index.json")) {
    Say("preparing text: " + scenario_.text_file);
    SKERRY_RETURN_IF_ERROR(RunAndCapture({Program("skerry-coordinator"), "data", "prepare",
                                          scenario_.text_file, "--out", data.string()})
                               .status());
  }
  return RunAndCapture({Program("skerry-coordinator"), "init", run_.string(), "--config",
                        config.string(), "--shards", data.string()})
      .status();
}

absl::Status Emulation::StartCoordinator() {
  coordinator_.clear();
  SKERRY_ASSIGN_OR_RETURN(ChildProcess child, ChildProcess::Start(serve_, Log("coordinator"),
                                                                  network_->NetNamespace(0)));
  coordinator_.push_back(std::move(child));
  return absl::OkStatus();
}

// Outside of the emulated network, where a browser is.
absl::Status Emulation::StartDashboard() {
  SKERRY_ASSIGN_OR_RETURN(ChildProcess child, ChildProcess::Start({Program("skerry-coordinator"),
                                                                   "dashboard", run_.string()},
                                                                  Log("dashboard")));
  dashboard_.push_back(std::move(child));
  const auto patience = Clock::now() + std::chrono::seconds(3);
  while (!fs::exists(run_ / "dashboard") && Clock::now() < patience) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  std::ifstream in(run_ / "dashboard");
  std::string address;
  if (std::getline(in, address)) Say("watch it in a browser: " + address);
  return absl::OkStatus();
}

absl::Status Emulation::StartAll() {
  // Port by process id: emulations side by side do not meet, and a restart finds the same one.
  const std::string endpoint =
      absl::StrFormat("tcp://%s:%d", network_->Host(0), 20000 + getpid() % 20000);
  serve_ = {
      Program("skerry-coordinator"), "serve",       run_.string(), "--bind", endpoint, "--region",
      scenario_.RegionOf(0),         "--dashboard", "none"};
  Append(serve_, network_->ShapeArguments());
  SKERRY_RETURN_IF_ERROR(StartCoordinator());
  SKERRY_RETURN_IF_ERROR(StartDashboard());
  SKERRY_ASSIGN_OR_RETURN(
      std::string ticket,
      RunAndCapture({Program("skerry-coordinator"), "ticket", run_.string(), "--endpoint", endpoint,
                     "--uses", std::to_string(scenario_.nodes.size())}));
  while (!ticket.empty() && ticket.back() == '\n') ticket.pop_back();
  for (int32_t number = 1; number <= static_cast<int32_t>(scenario_.nodes.size()); ++number) {
    const std::string name = absl::StrFormat("node%d", number);
    CommandLine join = {Program("skerry-node"),
                        "join",
                        ticket,
                        "--home",
                        (out_ / "nodes" / name).string(),
                        "--region",
                        scenario_.RegionOf(number),
                        "--threads",
                        "1"};
    const ScenarioNode& node = scenario_.nodes[static_cast<size_t>(number) - 1];
    // Behind a router the bare command must do.
    if (!node.nat) Append(join, {"--listen", "tcp://" + network_->Host(number) + ":*"});
    if (node.relay) join.emplace_back("--relay");
    Append(join, network_->ShapeArguments());
    SKERRY_ASSIGN_OR_RETURN(ChildProcess child,
                            ChildProcess::Start(join, Log(name), network_->NetNamespace(number)));
    nodes_.emplace_back(name, std::move(child));
  }
  node_reported_.assign(nodes_.size(), false);
  Say(absl::StrFormat("coordinator pid %d and %d nodes started; logs in %s",
                      coordinator_.front().pid(), nodes_.size(), (out_ / "logs").string()));
  Say("network: " + network_->Name());
  Say("kill -9 what you like; a coordinator comes back with: " + ServeByHand());
  return absl::OkStatus();
}

bool Emulation::Finished() const {
  std::ifstream in(run_ / "status.json");
  const Json status = Json::parse(in, nullptr, false);
  return status.is_object() && status.value("phase", "") == "finished";
}

// Whether somebody started the coordinator by hand: then ours found the lock taken.
bool Emulation::HeldByAnother() const {
  const int lock = open((run_ / "lock").c_str(), O_RDWR | O_CLOEXEC);
  if (lock < 0) return false;
  const bool held = flock(lock, LOCK_EX | LOCK_NB) != 0;
  close(lock);
  return held;
}

absl::Status Emulation::NoticeDeaths() {
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const std::string how = nodes_[i].second.Ended();
    if (how.empty() || node_reported_[i]) continue;
    node_reported_[i] = true;
    if (how != "exit code 0")
      Say(absl::StrFormat("%s ended: %s (log: %s)", nodes_[i].first, how, Log(nodes_[i].first)));
  }
  if (coordinator_.empty()) return absl::OkStatus();
  const std::string how = coordinator_.front().Ended();
  if (how.empty() || how == "exit code 0") return absl::OkStatus();
  // A crash is survived; a coordinator that gave up says why, and would say it again.
  if (how.rfind("signal", 0) != 0 && !HeldByAnother()) {
    return Internal("the coordinator gave up (%s): %s", how, LastLine(Log("coordinator")));
  }
  coordinator_.clear();
  coordinator_died_ = Clock::now();
  Say(absl::StrFormat(
      "the coordinator ended: %s. The nodes go on; it will be started again in %d s "
      "unless you do: %s",
      how, kTakeOverAfter.count(), ServeByHand()));
  return absl::OkStatus();
}

absl::Status Emulation::Watch() {
  SKERRY_ASSIGN_OR_RETURN(
      ChildProcess watch,
      ChildProcess::Start({Program("skerry-coordinator"), "watch", run_.string()}, ""));
  while (watch.Ended().empty() && !interrupted_) {
    SKERRY_RETURN_IF_ERROR(NoticeDeaths());
    if (coordinator_.empty() && !Finished() && Clock::now() - coordinator_died_ > kTakeOverAfter) {
      if (HeldByAnother()) {  // somebody started it by hand
        coordinator_died_ = Clock::now();
      } else {
        SKERRY_RETURN_IF_ERROR(StartCoordinator());
      }
    }
    std::this_thread::sleep_for(kPoll);
  }
  // A terminal's Ctrl-C ends what watches, too.
  if (interrupted_)
    return absl::CancelledError("interrupted; the run and its logs stay in " + options_.out_dir);
  if (!watch.Succeeded() || !Finished())
    return Internal("the run did not finish: %s", watch.Ended());
  const auto deadline = Clock::now() + kLinger;
  for (auto& [name, node] : nodes_) {
    while (node.Ended().empty() && Clock::now() < deadline) std::this_thread::sleep_for(kPoll);
  }
  return absl::OkStatus();
}

CommandLine Emulation::NodeTool(const std::string& tool) const {
  return {Program("skerry-node"),       tool,     "--config",
          (run_ / "run.toml").string(), "--data", (run_ / "data").string()};
}

absl::StatusOr<Json> Emulation::Evaluate() {
  const std::string model = (run_ / "model").string();
  const auto json_of = [&](CommandLine command, std::initializer_list<std::string> more) {
    command.insert(command.end(), more);
    return RunAndCapture(command);
  };
  Json extra;
  extra["loss_reference"] = nullptr;
  SKERRY_ASSIGN_OR_RETURN(std::string text, json_of(NodeTool("evaluate"), {"--initial", "--json"}));
  extra["loss_initial"] = Json::parse(text).at("loss");
  SKERRY_ASSIGN_OR_RETURN(text, json_of(NodeTool("evaluate"), {"--model", model, "--json"}));
  extra["loss_final"] = Json::parse(text).at("loss");
  SKERRY_ASSIGN_OR_RETURN(
      extra["sample"],
      RunAndCapture({Program("skerry-node"), "generate", "--model", model, "--prompt", "Island \\",
                     "--tokens", "400", "--seed", std::to_string(scenario_.run.seed)}));
  if (options_.reference) {
    Say("training the reference: the same model in one process on the same tokens, unskipped");
    SKERRY_ASSIGN_OR_RETURN(text, json_of(NodeTool("reference"), {"--threads", "2", "--json"}));
    const Json reference = Json::parse(text);
    extra["loss_reference"] = reference.at("loss");
    extra["reference_curve"] = reference.at("curve");
  }
  return extra;
}

// What the nodes have said of them.
SumTimes Emulation::SumsOfGradients() const {
  SumTimes sums;
  for (const auto& [name, process] : nodes_) {
    std::ifstream log(Log(name));
    for (std::string line; std::getline(log, line);) sums.AddLine(line);
  }
  return sums;
}

absl::Status Emulation::Conclude() {
  std::string summary;
  const absl::Status verdict = network_->Verdict(summary);
  if (!summary.empty()) Say(summary);
  SKERRY_RETURN_IF_ERROR(verdict);
  Say("evaluating the model on held-out text");
  SKERRY_ASSIGN_OR_RETURN(Json extra, Evaluate());
  extra["command"] = absl::StrFormat("skerry-sim emulate %s --seed %d%s", options_.scenario,
                                     scenario_.run.seed, options_.reference ? " --reference" : "");
  extra["links_configured"] = LinksJson(scenario_);
  SKERRY_RETURN_IF_ERROR(ReplaceText(out_ / "evaluation.json", ToText(extra)));
  SKERRY_ASSIGN_OR_RETURN(const RunReport report,
                          BuildReport({run_ / "events.jsonl"}, out_ / "evaluation.json"));
  SKERRY_RETURN_IF_ERROR(WriteReport(report, out_));
  std::error_code error;
  fs::copy(run_ / "model", out_ / "model", fs::copy_options::recursive, error);
  if (!error) {
    fs::copy_file(run_ / "events.jsonl", out_ / "events.jsonl",
                  fs::copy_options::overwrite_existing, error);
  }
  if (error) return Unavailable("%s: %s", out_.string(), error.message());
  const double initial = extra["loss_initial"], final = extra["loss_final"];
  Say(absl::StrFormat("loss on held-out text: %.3f before, %.3f after%s", initial, final,
                      extra["loss_reference"].is_null()
                          ? ""
                          : absl::StrFormat("; trained in one process: %.3f",
                                            extra["loss_reference"].get<double>())));
  if (scenario_.run.cluster.is_on()) {
    SKERRY_ASSIGN_OR_RETURN(
        const std::string plan,
        RunAndCapture({Program("skerry-coordinator"), "plan", run_.string(), "--json"}));
    SKERRY_ASSIGN_OR_RETURN(const std::string events,
                            ReadTextFile((run_ / "events.jsonl").string()));
    Say(CohortSummary(Json::parse(plan), events));
    if (const std::string sums = SumTimesText(SumsOfGradients()); !sums.empty()) Say(sums);
  }
  if (const std::string links = LinkAccuracyText(AccuracyOf(report)); !links.empty()) Say(links);
  Say("sample: " + extra["sample"].get<std::string>());
  Say(absl::StrFormat("model: %s\nreport: %s", (out_ / "model").string(),
                      (out_ / "report.html").string()));
  return absl::OkStatus();
}

}  // namespace

absl::Status Emulate(const EmulateOptions& options, const volatile bool& interrupted) {
  SKERRY_ASSIGN_OR_RETURN(Scenario scenario, LoadScenario(options.scenario));
  if (scenario.expect != Expectations())
    Say("the figures of [expect] are those of `skerry-sim run`; emulate does not compare them");
  SKERRY_RETURN_IF_ERROR(CanEmulatePackets(scenario));
  Emulation emulation(options, std::move(scenario), interrupted);
  SKERRY_RETURN_IF_ERROR(emulation.Prepare());
  SKERRY_RETURN_IF_ERROR(emulation.StartAll());
  SKERRY_RETURN_IF_ERROR(emulation.Watch());
  return emulation.Conclude();
}

}  // namespace skerry
