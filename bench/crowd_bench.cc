// What a coordinator takes to hold ten thousand nodes: the real program, its journal and its
// encryption; the nodes are some thousands to a process (crowd_member.h).
//
//   bench_crowd [--nodes N] [--minutes M] [--json FILE]
//
// M: memory is read once more after so many. ZeroMQ's queues of a connection grow until some
// hundred messages have gone through them, which takes ten minutes of heartbeats.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_format.h"
#include "bench/bench.h"
#include "bench/crowd_member.h"
#include "bench/statistics.h"
#include "sim/child_process.h"
#include "wire/wakeup.h"

namespace skerry::bench {
namespace {

namespace fs = std::filesystem;

constexpr int32_t kNodes = 10'000;     // as many as a run admits
constexpr int32_t kPerProcess = 3400;  // a connection takes two files
constexpr double kPatienceS = 300;
constexpr double kSettleS = 10, kMeasureS = 20;

std::string TextOf(const fs::path& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// Of /proc/PID/status, in kB.
double StatusKb(pid_t pid, const char* what) {
  std::istringstream lines(TextOf("/proc/" + std::to_string(pid) + "/status"));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(what)) return std::atof(line.c_str() + std::strlen(what) + 1);
  }
  return 0;
}

double ProcessorSeconds(pid_t pid) {
  const std::string text = TextOf("/proc/" + std::to_string(pid) + "/stat");
  std::istringstream fields(text.substr(text.rfind(')') + 2));
  std::string field;
  double ticks = 0;
  for (int i = 3; fields >> field; ++i) {
    if (i == 14 || i == 15) ticks += std::atof(field.c_str());  // in user and system mode
  }
  return ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

struct Progress {
  int32_t joined = 0;
  int64_t beats = 0;
  std::string refused;
};

class Crowd {
 public:
  Crowd(const fs::path& directory, const std::string& self, int32_t nodes,
        const std::string& ticket) {
    for (int32_t first = 0; first < nodes; first += kPerProcess) {
      const int32_t count = std::min(kPerProcess, nodes - first);
      logs_.push_back(directory / ("crowd" + std::to_string(first) + ".log"));
      auto process = ChildProcess::Start({self, "--first", std::to_string(first), "--count",
                                          std::to_string(count), "--ticket", ticket},
                                         logs_.back().string());
      MustBeOk(process.status());
      processes_.push_back(*std::move(process));
    }
  }

  Progress Look() const {
    Progress total;
    for (const fs::path& log : logs_) {
      std::istringstream lines(TextOf(log));
      Progress last;
      for (std::string line; std::getline(lines, line);) {
        long long beats = 0;
        int32_t joined = 0;
        if (std::sscanf(line.c_str(), "%d joined, %lld beats", &joined, &beats) == 2)
          last = {joined, beats, last.refused};
        else
          last.refused = line;
      }
      total.joined += last.joined;
      total.beats += last.beats;
      if (!last.refused.empty()) total.refused = last.refused;
    }
    return total;
  }

 private:
  std::vector<fs::path> logs_;
  std::vector<ChildProcess> processes_;
};

fs::path PrepareRun(const std::string& coordinator, const fs::path& directory) {
  fs::create_directories(directory);
  std::ofstream text(directory / "text.txt");
  for (int i = 0; i < 4000; ++i) text << "tide " << i % 7 << " and ebb " << i % 5 << ". ";
  text.close();
  // As many take part as by default, the others are in reserve. Nobody has the memory for a stage:
  // nothing is planned, and nobody has to train.
  std::ofstream(directory / "run.toml")
      << "[run]\nname = \"crowd\"\nsteps = 16\nnodes_min = 1024\n"
         "nodes_max = 1024\nheartbeat_s = 1.0\nnode_silent_s = 60.0\n";
  const fs::path run = directory / "run";
  MustBeOk(RunAndCapture({coordinator, "init", run.string(), "--config",
                          (directory / "run.toml").string(), "--data",
                          (directory / "text.txt").string()})
               .status());
  return run;
}

void Sleep(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

void MeasureBeats(Bench& bench, const Crowd& crowd, pid_t coordinator) {
  const double processor_s = ProcessorSeconds(coordinator);
  const Progress first = crowd.Look();
  const Instant from = MonotonicNow();
  Sleep(kMeasureS);
  const double lasted_s = (MonotonicNow() - from).seconds();
  const double cores = (ProcessorSeconds(coordinator) - processor_s) / lasted_s;
  const double rate = static_cast<double>(crowd.Look().beats - first.beats) / lasted_s;
  bench.Record("heartbeats", rate, "/s");
  bench.Record("of the coordinator, for them", cores, "cores");
  bench.AtMost("at 10,000 a second", cores * 10'000 / std::max(rate, 1.0), "cores", 0.5);
}

int Run(int argc, char** argv) {
  Bench bench("crowd", argc, argv, {"--nodes", "--minutes"});
  const std::string asked = bench.Option("--nodes");
  const int32_t nodes = asked.empty() ? kNodes : std::max(1, std::atoi(asked.c_str()));
  const std::string self = fs::read_symlink("/proc/self/exe").string();
  const std::string coordinator = (fs::path(self).parent_path() / "skerry-coordinator").string();
  const fs::path directory =
      fs::temp_directory_path() / ("skerry-crowd-" + std::to_string(getpid()));
  const fs::path run = PrepareRun(coordinator, directory);
  const std::string endpoint = "tcp://127.0.0.1:" + std::to_string(20000 + getpid() % 10000);
  auto serve = ChildProcess::Start({coordinator, "serve", run.string(), "--bind", endpoint},
                                   (directory / "coordinator.log").string());
  MustBeOk(serve.status());
  auto ticket = RunAndCapture({coordinator, "ticket", run.string(), "--endpoint", endpoint,
                               "--uses", std::to_string(nodes)});
  MustBeOk(ticket.status());
  ticket->erase(ticket->find_last_not_of('\n') + 1);
  Sleep(1);

  const double empty_kb = StatusKb(serve->pid(), "VmRSS:");
  const double before_s = ProcessorSeconds(serve->pid());
  const Instant began = MonotonicNow();
  Crowd crowd(directory, self, nodes, *ticket);
  Progress seen;
  double took_s = 0;
  while (seen.joined < nodes && took_s < kPatienceS && serve->Ended().empty()) {
    Sleep(0.05);
    seen = crowd.Look();
    took_s = (MonotonicNow() - began).seconds();
  }
  if (seen.joined < nodes) {
    std::fprintf(stderr, "%d of %d joined; the coordinator %s; %s; see %s\n", seen.joined, nodes,
                 serve->Ended().empty() ? "runs" : serve->Ended().c_str(), seen.refused.c_str(),
                 directory.c_str());
    return 2;
  }
  bench.AtMost(std::to_string(nodes) + " nodes joined within", took_s, "s", 30);
  bench.Record("processor time of the coordinator until then",
               ProcessorSeconds(serve->pid()) - before_s, "s");

  Sleep(kSettleS);
  MeasureBeats(bench, crowd, serve->pid());
  const auto kilobytes = [&] {
    return (StatusKb(serve->pid(), "VmRSS:") - empty_kb) * 1.024 / nodes;
  };
  bench.AtMost("memory a node, after half a minute", kilobytes(), "KB", 40);
  const double minutes = std::atof(bench.Option("--minutes").c_str());
  if (minutes > 0) {
    Sleep(std::max(0.0, 60 * minutes - (MonotonicNow() - began).seconds()));
    bench.AtMost(absl::StrFormat("memory a node, after %g minutes", minutes), kilobytes(), "KB",
                 40);
  }
  kill(serve->pid(), SIGINT);
  serve->Wait();
  std::error_code ignored;
  fs::remove_all(directory, ignored);
  return bench.Finish();
}

}  // namespace
}  // namespace skerry::bench

int main(int argc, char** argv) {
  using namespace skerry::bench;
  if (argc == 7 && std::strcmp(argv[1], "--first") == 0) {
    BeCrowd({std::atoi(argv[2]), std::atoi(argv[4]), argv[6]});
  }
  return Run(argc, argv);
}
