// A run of the programs themselves in a temporary directory: one coordinator, nodes that join. What
// should go and does not ends the program (CHECK): tests and benchmarks use it.
#pragma once

#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

#include "absl/strings/str_format.h"
#include "common/check.h"
#include "sim/child_process.h"

namespace skerry::siege {

inline std::string TextOf(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

// Returns when the file holds the text; `writer` must not end before.
inline void WaitFor(const std::filesystem::path& file, const std::string& text,
                    ChildProcess& writer) {
  const int changes = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
  SKERRY_CHECK(inotify_add_watch(changes, file.parent_path().c_str(), IN_MODIFY | IN_CREATE) >= 0,
               "a watch");
  while (TextOf(file).find(text) == std::string::npos) {
    const bool ended = !writer.Ended().empty();
    if (ended && TextOf(file).find(text) == std::string::npos) {
      std::fprintf(stderr, "%s before '%s' in %s:\n%s\n", writer.Ended().c_str(), text.c_str(),
                   file.c_str(), TextOf(file).c_str());
      SKERRY_CHECK(false, "a program ended too early");
    }
    constexpr int kLookAgainMs = 1000;
    pollfd wait{changes, POLLIN, 0};
    poll(&wait, 1, kLookAgainMs);
    char events[4096];
    while (read(changes, events, sizeof events) > 0) {
    }
  }
  close(changes);
}

// Sizes of [model] in run.toml: of one that weighs nothing.
inline constexpr char kTinyModel[] =
    "hidden = 32\nlayers = 2\nheads = 2\nkv_heads = 1\nffn = 64\ncontext = 32\n";

class ProgramRun {
 public:
  static constexpr char kRegion[] = "frankfurt";

  // With `rtt_ms` everybody is so far from everybody: what takes time is waiting.
  ProgramRun(int nodes_min, int steps, int rtt_ms = 0, int stages = 1,
             const std::string& model = kTinyModel)
      : ProgramRun(ConfigOf(nodes_min, steps, stages, model), rtt_ms > 0 ? ShapeOf(rtt_ms) : "") {}
  // run.toml, and the network as of --shape; "": the machine's own.
  ProgramRun(const std::string& config, const std::string& shape)
      : bin_(BinDirectory()), is_shaped_(!shape.empty()) {
    std::string name =
        (std::filesystem::temp_directory_path() / "skerry-strangers-XXXXXX").string();
    SKERRY_CHECK(mkdtemp(name.data()) != nullptr, "a directory");
    at = name;
    std::ofstream(at / "run.toml") << config;
    std::ofstream(at / "wan.toml") << shape;
    std::ofstream text(at / "text.txt");
    for (int i = 0; i < 20'000; ++i) text << "line " << i * 7919 % 1000 << " of it.\n";
    text.close();
    Say({"init", Dir(), "--config", (at / "run.toml").string(), "--data",
         (at / "text.txt").string()});
  }
  ~ProgramRun() {
    coordinator.reset();
    std::error_code error;
    std::filesystem::remove_all(at, error);
  }

  std::string Dir() const { return (at / "run").string(); }
  std::filesystem::path Log(const std::string& name) const { return at / (name + ".log"); }

  // What a command of skerry-coordinator prints.
  std::string Say(const CommandLine& arguments) const {
    CommandLine command = {bin_ + "skerry-coordinator"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    const auto said = RunAndCapture(command);
    if (!said.ok()) {
      std::fprintf(stderr, "%s: %s\n", QuoteCommand(command).c_str(),
                   said.status().ToString().c_str());
    }
    SKERRY_CHECK(said.ok(), "the command succeeds");
    return said->substr(0, said->find_last_not_of('\n') + 1);
  }

  // Until it listens.
  void Serve(const std::string& dashboard = "none", const std::string& bind = "tcp://127.0.0.1:*") {
    auto process = ChildProcess::Start(Shaped({bin_ + "skerry-coordinator", "serve", Dir(),
                                               "--dashboard", dashboard, "--bind", bind}),
                                       Log("coordinator").string());
    SKERRY_CHECK(process.ok(), "a process");
    coordinator = *std::move(process);
    WaitFor(Log("coordinator"), "serving run", *coordinator);
  }

  // The page of a run that nobody serves.
  void ServeDashboardOnly() {
    std::filesystem::remove(at / "run" / "dashboard");
    auto process = ChildProcess::Start(
        {bin_ + "skerry-coordinator", "dashboard", Dir(), "--bind", "127.0.0.1:0"},
        Log("dashboard").string());
    SKERRY_CHECK(process.ok(), "a process");
    coordinator = *std::move(process);
    WaitFor(Log("dashboard"), "dashboard: ", *coordinator);
  }

  // `region`: of a shape that has others.
  ChildProcess Join(const std::string& ticket, const std::string& name,
                    const std::string& region = kRegion,
                    const CommandLine& device = {"--device", "cpu"}) const {
    CommandLine command = {
        bin_ + "skerry-node", "join",      ticket, "--home", (at / name).string(), "--listen",
        "tcp://127.0.0.1:*",  "--threads", "1"};
    command.insert(command.end(), device.begin(), device.end());
    auto process = ChildProcess::Start(Shaped(std::move(command), region), Log(name).string());
    SKERRY_CHECK(process.ok(), "a process");
    return *std::move(process);
  }

  // Where the coordinator listens.
  std::string Endpoint() const {
    const std::string text = TextOf(at / "run" / "endpoint");
    return text.substr(0, text.find_last_not_of('\n') + 1);
  }

  std::filesystem::path at;
  std::optional<ChildProcess> coordinator;

 private:
  CommandLine Shaped(CommandLine command, const std::string& region = kRegion) const {
    if (is_shaped_) {
      const std::string shape = (at / "wan.toml").string();
      command.insert(command.end(), {"--shape", shape, "--region", region});
    }
    return command;
  }
  static std::string ShapeOf(int rtt_ms) {
    return absl::StrFormat(
        "[[region]]\nname = \"%s\"\n[same_region]\nrtt_ms = %d\nrate_mbps = 1000\n", kRegion,
        rtt_ms);
  }
  static std::string BinDirectory() {
    return std::filesystem::canonical("/proc/self/exe").parent_path().string() + "/";
  }
  static std::string ConfigOf(int nodes_min, int steps, int stages, const std::string& model) {
    return absl::StrFormat(R"([run]
name = "strangers"
seed = 1
steps = %d
nodes_min = %d
[model]
vocab = 256
%s[outer]
inner_steps = 10
overlap_steps = 1
[pipeline]
stages = %d
skip_ratio = 0.0
microbatches_per_step = 2
sequences_per_microbatch = 1
in_flight = 1
)",
                           steps, nodes_min, model, stages);
  }

  std::string bin_;
  bool is_shaped_;
};

}  // namespace skerry::siege
