// A run small enough for a test, by the real programs.
#pragma once

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/status.h"
#include "sim/child_process.h"

namespace skerry {

namespace fs = std::filesystem;

inline constexpr char kSmallRun[] = R"(
[run]
name = "small"
seed = 3
steps = 12
nodes_min = 1
[model]
vocab = 256
hidden = 32
layers = 2
heads = 2
kv_heads = 1
ffn = 64
context = 32
[outer]
inner_steps = 4
overlap_steps = 1
[pipeline]
stages = 1
skip_ratio = 0.0
microbatches_per_step = 2
sequences_per_microbatch = 4
in_flight = 2
)";

inline std::string TextOf(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void WaitFor(const fs::path& file, const std::string& words, ChildProcess& writer) {
  while (TextOf(file).find(words) == std::string::npos) {
    INFO(TextOf(file));
    REQUIRE(writer.Ended() == "");
    sched_yield();
  }
}

// For --memory and --host-memory: these bytes, not one less.
inline std::string GibText(int64_t bytes) {
  return absl::StrFormat("%.12f", static_cast<double>(bytes) / 0x1p30 + 1e-9);
}

class SmallRun {
 public:
  // `pipeline`: further lines of that section, with which `run` ends.
  explicit SmallRun(const std::string& pipeline = "", const std::string& run = kSmallRun)
      : bin_(fs::canonical("/proc/self/exe").parent_path().string() + "/") {
    std::string name = (fs::temp_directory_path() / "skerry-run-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    at = name;
    std::ofstream(at / "run.toml") << run << pipeline << "\n";
    std::ofstream text(at / "text.txt");
    for (int i = 0; i < 20'000; ++i) text << "line " << i * 7919 % 1000 << " of it.\n";
    text.close();
    Run({"skerry-coordinator", "data", "prepare", Path("text.txt"), "--out", Path("data")});
    Run({"skerry-coordinator", "init", Path("run"), "--config", Path("run.toml"), "--shards",
         Path("data")});
  }
  ~SmallRun() {
    std::error_code error;
    fs::remove_all(at, error);
  }

  std::string Run(CommandLine command) const {
    command.front() = bin_ + command.front();
    INFO(QuoteCommand(command));
    const auto said = RunAndCapture(command);
    REQUIRE(said.ok());
    return said->substr(0, said->find_last_not_of('\n') + 1);
  }
  ChildProcess Start(CommandLine command, const std::string& log) const {
    command.front() = bin_ + command.front();
    auto process = ChildProcess::Start(command, Path(log));
    REQUIRE(process.ok());
    return *std::move(process);
  }
  ChildProcess Serve() const {
    ChildProcess coordinator = Start({"skerry-coordinator", "serve", Path("run"), "--dashboard",
                                      "none", "--bind", "tcp://127.0.0.1:*"},
                                     "coordinator.log");
    WaitFor(at / "coordinator.log", "serving run", coordinator);
    return coordinator;
  }
  // A node that joins what is served, with these options.
  ChildProcess Join(const CommandLine& options) const {
    CommandLine join = {"skerry-node",
                        "join",
                        Run({"skerry-coordinator", "ticket", Path("run")}),
                        "--home",
                        Path("home"),
                        "--listen",
                        "tcp://127.0.0.1:*",
                        "--threads",
                        "1"};
    join.insert(join.end(), options.begin(), options.end());
    return Start(join, "node.log");
  }
  // Serves it and has one node join with these options; both have ended. What the node said.
  std::string Train(const CommandLine& options) const {
    ChildProcess coordinator = Serve();
    ChildProcess node = Join(options);
    CHECK(node.Wait() == "exit code 0");
    CHECK(coordinator.Wait() == "exit code 0");
    return TextOf(at / "node.log");
  }
  // The model that the run's text makes of devices in one process.
  nlohmann::json Reference(const std::string& devices, const std::string& out,
                           const std::string& split = "sequences") const {
    return nlohmann::json::parse(
        Run({"skerry-node", "reference", "--config", Path("run.toml"), "--data", Path("data"),
             "--devices", devices, "--split", split, "--out", Path(out), "--json"}));
  }
  std::string Path(const std::string& name) const { return (at / name).string(); }
  std::string Weights(const std::string& model) const {
    const std::string bytes = TextOf(at / model / "model.safetensors");
    REQUIRE(bytes.size() > 10'000);
    return bytes;
  }
  // The same as numbers, without the header.
  std::vector<float> Values(const std::string& model) const {
    const std::string bytes = Weights(model);
    uint64_t header = 0;
    std::memcpy(&header, bytes.data(), sizeof(header));
    const size_t begin = sizeof(header) + header;
    REQUIRE(begin < bytes.size());
    std::vector<float> values((bytes.size() - begin) / sizeof(float));
    std::memcpy(values.data(), bytes.data() + begin, values.size() * sizeof(float));
    return values;
  }

  fs::path at;

 private:
  std::string bin_;
};

}  // namespace skerry
