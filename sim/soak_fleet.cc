#include "sim/soak_fleet.h"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>
#include <utility>

#include "common/status.h"
#include "model/file_io.h"
#include "wire/config.h"

namespace skerry {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr int64_t kRunDiskBytes = 96 << 20;
constexpr int64_t kNodeDiskBytes = 32 << 20;
constexpr Duration kServiceRestart = Duration::Seconds(1);
constexpr Duration kBegins = Duration::Seconds(1);  // to main, on a crowded machine
// status.json is written every heartbeat; older than this it says nothing of the present.
constexpr Duration kStatusFresh = Duration::Seconds(2.5);
constexpr Duration kAfterFullDisk = Duration::Seconds(2);
constexpr int kFailsMax = 30;  // a process that never comes up is not a soak

std::string TextOfFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string LastLine(const std::string& path) {
  const std::string text = TextOfFile(path);
  const size_t end = text.find_last_not_of('\n');
  if (end == std::string::npos) return "";
  const size_t begin = text.rfind('\n', end);
  return text.substr(begin == std::string::npos ? 0 : begin + 1, end - begin);
}

bool IsAtWork(const std::string& phase) {
  return phase == "training" || phase == "waiting for a round" || phase == "waiting for peers" ||
         phase == "finished";
}

}  // namespace

SoakProcesses::~SoakProcesses() {
  for (size_t i = 0; i < processes_.size(); ++i) {
    if (processes_[i].stopped) Signal(static_cast<int32_t>(i), SIGCONT);
  }
  processes_.clear();  // before their disks
}

std::string SoakProcesses::Log(int32_t process) const {
  return process == 0 ? options_.directory + "/logs/coordinator.log"
                      : absl::StrFormat("%s/logs/node%d.log", options_.directory, process);
}

std::string SoakProcesses::NodeDirectory(int32_t node) const {
  return absl::StrFormat("%s/nodes/node%d", options_.directory, node);
}

CommandLine SoakProcesses::NodeCommand(int32_t node, const std::string& ticket) const {
  const std::string name = absl::StrFormat("place%d", node);  // tells its node in status.json
  CommandLine command = {"skerry-node",
                         "join",
                         ticket,
                         "--home",
                         NodeDirectory(node),
                         "--listen",
                         "tcp://" + network_.Host(node) + ":*",
                         "--region",
                         name,
                         "--device",
                         "cpu",
                         "--threads",
                         "1"};
  const CommandLine shape = network_.ShapeArguments();
  command.insert(command.end(), shape.begin(), shape.end());
  return command;
}

absl::Status SoakProcesses::Start(Instant now) {
  std::error_code error;
  fs::remove_all(options_.directory, error);
  fs::create_directories(options_.directory + "/logs", error);
  if (error) return Unavailable("%s: %s", options_.directory, error.message());
  if (options_.small_disks) {
    for (int32_t process = 0; process <= options_.nodes; ++process) {
      SKERRY_ASSIGN_OR_RETURN(
          SmallDisk disk, SmallDisk::Mount(process == 0 ? RunDirectory() : NodeDirectory(process),
                                           process == 0 ? kRunDiskBytes : kNodeDiskBytes));
      disks_.emplace(process, std::move(disk));
    }
  }
  const std::string config = options_.directory + "/run.toml";
  SKERRY_RETURN_IF_ERROR(ReplaceText(config, FormatRunConfig(options_.run)));
  const std::string program = options_.programs_dir + "/skerry-coordinator";
  SKERRY_RETURN_IF_ERROR(RunAndCapture({program, "init", RunDirectory(), "--config", config,
                                        "--shards", options_.shards})
                             .status());
  const std::string endpoint =
      absl::StrFormat("tcp://%s:%d", network_.Host(0), 20000 + getpid() % 10000);
  SKERRY_ASSIGN_OR_RETURN(std::string ticket,
                          RunAndCapture({program, "ticket", RunDirectory(), "--endpoint", endpoint,
                                         "--uses", std::to_string(options_.nodes)}));
  while (!ticket.empty() && ticket.back() == '\n') ticket.pop_back();
  processes_.resize(static_cast<size_t>(options_.nodes) + 1);
  processes_[0].command = {"skerry-coordinator", "serve", RunDirectory(), "--bind", endpoint,
                           "--region",           "hub",   "--dashboard",  "none"};
  const CommandLine shape = network_.ShapeArguments();
  processes_[0].command.insert(processes_[0].command.end(), shape.begin(), shape.end());
  for (int32_t node = 1; node <= options_.nodes; ++node) {
    processes_[static_cast<size_t>(node)].command = NodeCommand(node, ticket);
  }
  for (int32_t i = 0; i <= options_.nodes - options_.spares; ++i) {
    processes_[static_cast<size_t>(i)].start_at = now;
  }
  Tend(now);
  return absl::OkStatus();
}

void SoakProcesses::StartSpares(Instant now) {
  for (int32_t i = options_.nodes - options_.spares + 1; i <= options_.nodes; ++i) {
    processes_[static_cast<size_t>(i)].start_at = now;
  }
}

// The coordinator begins with the other's: a run is upgraded before it is downgraded.
const std::string& SoakProcesses::ProgramsOf(int32_t process) const {
  const bool is_other = (process + processes_[static_cast<size_t>(process)].starts) % 2 == 0;
  return is_other && !options_.other_programs_dir.empty() ? options_.other_programs_dir
                                                          : options_.programs_dir;
}

absl::Status SoakProcesses::Launch(int32_t number, Instant now) {
  Process& process = processes_[static_cast<size_t>(number)];
  CommandLine command = process.command;
  command.front() = ProgramsOf(number) + "/" + command.front();
  ++process.starts;
  SKERRY_ASSIGN_OR_RETURN(ChildProcess child,
                          ChildProcess::Start(command, Log(number), network_.NetNamespace(number)));
  process.child = std::make_unique<ChildProcess>(std::move(child));
  process.launched_at = now;
  process.start_at.reset();
  process.told_to_leave.reset();
  process.stopped = process.expected_end = false;
  return absl::OkStatus();
}

void SoakProcesses::Signal(int32_t number, int signal) {
  Process& process = processes_[static_cast<size_t>(number)];
  if (!process.child || !process.child->Ended().empty()) return;
  kill(process.child->pid(), signal);
  if (signal == SIGSTOP) process.stopped = true;
  if (signal == SIGCONT) process.stopped = false;
}

void SoakProcesses::SetCut(int32_t node, bool cut) {
  processes_[static_cast<size_t>(node)].cut = cut;
  for (int32_t other = 0; other <= options_.nodes; ++other) {
    if (other != node) network_.SetCut(node, other, cut);
  }
}

absl::Status SoakProcesses::Disturb(const SoakEvent& event, Instant now) {
  Process& process = processes_[static_cast<size_t>(event.node)];
  process.unknown_until = now + event.lasts + kStatusFresh;
  switch (event.fault) {
    case SoakFault::kKillNode:
    case SoakFault::kKillCoordinator:
      process.expected_end = true;
      process.start_at = now + event.lasts;
      Signal(event.node, SIGKILL);
      break;
    case SoakFault::kStopNode:
    case SoakFault::kStopCoordinator:
      Signal(event.node, SIGSTOP);
      break;
    case SoakFault::kCutNode:
      SetCut(event.node, true);
      break;
    case SoakFault::kCutPair:
      network_.SetCut(event.node, event.other, true);
      break;
    case SoakFault::kFullDisk:
      process.may_fail_until = now + event.lasts + kAfterFullDisk;
      return disks_.at(0).Fill();
    case SoakFault::kFullNodeDisk: {
      process.expected_end = true;
      process.may_fail_until = now + event.lasts + kAfterFullDisk;
      process.start_at = now;
      Signal(event.node, SIGKILL);
      std::error_code error;
      fs::remove_all(NodeDirectory(event.node) + "/shards", error);
      return disks_.at(event.node).Fill();
    }
    case SoakFault::kLeave:
    case SoakFault::kPauseServing:
      process.expected_end = true;
      process.told_to_leave = now;
      process.start_at = now + event.lasts;
      Signal(event.node, SIGINT);
      break;
  }
  return absl::OkStatus();
}

void SoakProcesses::Heal(const SoakEvent& event, Instant now) {
  Process& process = processes_[static_cast<size_t>(event.node)];
  switch (event.fault) {
    case SoakFault::kStopNode:
    case SoakFault::kStopCoordinator:
      Signal(event.node, SIGCONT);
      break;
    case SoakFault::kCutNode:
      SetCut(event.node, false);
      break;
    case SoakFault::kCutPair:
      network_.SetCut(event.node, event.other, false);
      break;
    case SoakFault::kFullDisk:
    case SoakFault::kFullNodeDisk:
      disks_.at(event.node).Free();
      if (!process.child) process.start_at = now;
      break;
    default:
      break;
  }
}

void SoakProcesses::Tend(Instant now) {
  for (size_t i = 0; i < processes_.size(); ++i) {
    Process& process = processes_[i];
    const auto number = static_cast<int32_t>(i);
    if (process.child) {
      const std::string how = process.child->Ended();
      if (!how.empty()) Ended(number, how, now);
    }
    if (done_ || process.child || !process.start_at || *process.start_at > now) continue;
    if (const absl::Status status = Launch(number, now); !status.ok()) {
      complaints_.push_back(ErrorText(status));
      process.start_at = now + kServiceRestart;
    }
  }
}

void SoakProcesses::Ended(int32_t number, const std::string& how, Instant now) {
  Process& process = processes_[static_cast<size_t>(number)];
  const std::string name = number == 0 ? "coordinator" : absl::StrFormat("node%d", number);
  process.child.reset();
  process.stopped = false;
  const std::string line = LastLine(Log(number));
  const bool may_fail = process.may_fail_until && now < *process.may_fail_until;
  if (process.told_to_leave) {
    reactions_.push_back({number == 0 ? "serving ends" : "leave", now - *process.told_to_leave});
    // With a full disk it cannot write what it has just decided, and says so.
    const bool is_full = may_fail && line.find("SK-disk-full") != std::string::npos;
    const bool is_early = line.find("before it had begun") != std::string::npos;
    // Nor has a program told yet how it wants to be interrupted, right after its start.
    const bool is_first = *process.told_to_leave - process.launched_at < kBegins;
    const bool fine = how == "exit code 0" || (number == 0 && how == "exit code 130") ||
                      (is_early && how == "exit code 130") || (is_full && how == "exit code 1") ||
                      (is_first && how == "signal 2");
    if (!fine) complaints_.push_back(name + " was interrupted and ended with " + how);
    process.told_to_leave.reset();
  }
  if (number == 0 && how == "exit code 0") done_ = true;
  if (std::exchange(process.expected_end, false)) return;
  if (how == "exit code 0") return;  // sent home
  const bool gave_up = line.find("the run cannot go on") != std::string::npos;
  if (!may_fail || gave_up || how.starts_with("signal")) {
    complaints_.push_back(absl::StrFormat("%s ended by itself (%s): %s", name, how, line));
  }
  if (++process.fails > kFailsMax || gave_up) {
    if (number == 0) done_ = true;
    return;
  }
  process.start_at = now + kServiceRestart;
}

SoakFleet SoakProcesses::Look(Instant now) {
  SoakFleet fleet;
  fleet.can_cut = network_.is_packets();
  fleet.can_fill = options_.small_disks;
  fleet.members.resize(static_cast<size_t>(options_.nodes));
  const std::string text = TextOfFile(RunDirectory() + "/status.json");
  if (text != last_status_) {
    last_status_ = text;
    status_at_ = now;
  }
  const Json status = Json::parse(text, nullptr, false);
  const bool known = status.is_object() && now - status_at_ < kStatusFresh;
  const Process& coordinator = processes_[0];
  fleet.coordinator_disturbed = !coordinator.child || coordinator.stopped || !known;
  std::map<std::string, Json> by_name;
  if (known) {
    for (const Json& node : status.value("nodes", Json::array())) {
      by_name[node.value("region", "")] = node;
    }
  }
  for (size_t i = 0; i < fleet.members.size(); ++i) {
    Process& process = processes_[i + 1];
    SoakMember& member = fleet.members[i];
    const auto node = by_name.find(absl::StrFormat("place%d", i + 1));
    member.disturbed = !process.child || process.stopped || process.cut || process.expected_end ||
                       (process.unknown_until && now < *process.unknown_until);
    if (member.disturbed) process.working_since_s = -1;
    if (!known) continue;  // nothing is drawn meanwhile
    const bool is_here =
        node != by_name.end() && node->second.value("alive", false) && !member.disturbed;
    const std::string phase = is_here ? node->second.value("phase", "") : "";
    if (node != by_name.end()) member.stage = node->second.value("stage", -1);
    // A coordinator that has just come back has not heard of it yet: what was known stands.
    const bool unheard = phase == "joining" && process.working_since_s >= 0;
    if (!IsAtWork(phase) && !unheard) {
      process.working_since_s = -1;
      continue;
    }
    const double at = (now - Instant()).seconds();
    if (process.working_since_s < 0) process.working_since_s = at;
    member.working_s = std::max(1e-3, at - process.working_since_s);
  }
  return fleet;
}

void SoakProcesses::End(Duration patience) {
  using Clock = std::chrono::steady_clock;
  done_ = true;
  for (int32_t i = 0; i <= options_.nodes; ++i) {
    Signal(i, SIGCONT);
    if (i > 0) SetCut(i, false);
    if (const auto disk = disks_.find(i); disk != disks_.end()) disk->second.Free();
  }
  const auto running = [&] {
    Tend(Instant());
    int count = 0;
    for (const Process& process : processes_) count += process.child ? 1 : 0;
    return count;
  };
  const auto wait = [&](double seconds) {
    const auto end = Clock::now() + std::chrono::duration<double>(seconds);
    while (running() > 0 && Clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  };
  wait(patience.seconds());
  // Who was away when the run ended was told nothing and waits for a coordinator; its volunteer
  // would press Ctrl-C.
  for (int32_t i = 0; i <= options_.nodes; ++i) {
    processes_[static_cast<size_t>(i)].expected_end = true;
    Signal(i, SIGINT);
  }
  constexpr double kLeaveS = 8;
  wait(kLeaveS);
  for (int32_t i = 0; i <= options_.nodes; ++i) {
    if (!processes_[static_cast<size_t>(i)].child) continue;
    complaints_.push_back(absl::StrFormat("process %d did not end when interrupted", i));
  }
}

}  // namespace skerry
