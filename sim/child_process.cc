#include "sim/child_process.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "common/status.h"

namespace skerry {
namespace {

[[noreturn]] void Become(const CommandLine& command, int out, int err, int net_namespace = -1) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (net_namespace >= 0 && setns(net_namespace, CLONE_NEWNET) != 0) _exit(126);
  if (out >= 0) dup2(out, STDOUT_FILENO);
  if (err >= 0) dup2(err, STDERR_FILENO);
  const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (null >= 0) dup2(null, STDIN_FILENO);
  std::vector<char*> argv;
  for (const std::string& argument : command) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  _exit(127);
}

}  // namespace

absl::StatusOr<ChildProcess> ChildProcess::Start(const CommandLine& command,
                                                 const std::string& log_file, int net_namespace) {
  int log = -1;
  if (!log_file.empty()) {
    log = open(log_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (log < 0) return Unavailable("%s: %s", log_file, std::strerror(errno));
  }
  const pid_t pid = fork();
  if (pid == 0) Become(command, log, log, net_namespace);
  if (log >= 0) close(log);
  if (pid < 0) return Unavailable("cannot start %s: %s", command[0], std::strerror(errno));
  return ChildProcess(pid);
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), ended_(std::move(other.ended_)) {}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(ended_, other.ended_);
  return *this;
}

ChildProcess::~ChildProcess() {
  if (pid_ < 0 || !Ended().empty()) return;
  Terminate();
  constexpr int kGraceTenths = 60;
  for (int i = 0; i < kGraceTenths && Ended().empty(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  if (Ended().empty()) {
    kill(pid_, SIGKILL);
    Wait();
  }
}

void ChildProcess::Note(int status) {
  ended_ = WIFSIGNALED(status) ? absl::StrFormat("signal %d", WTERMSIG(status))
                               : absl::StrFormat("exit code %d", WEXITSTATUS(status));
}

std::string ChildProcess::Ended() {
  int status = 0;
  if (ended_.empty() && pid_ > 0 && waitpid(pid_, &status, WNOHANG) == pid_) Note(status);
  return ended_;
}

std::string ChildProcess::Wait() {
  int status = 0;
  while (ended_.empty()) {
    if (waitpid(pid_, &status, 0) == pid_) Note(status);
  }
  return ended_;
}

void ChildProcess::Terminate() {
  if (pid_ > 0 && ended_.empty()) kill(pid_, SIGTERM);
}

absl::StatusOr<std::string> RunAndCapture(const CommandLine& command) {
  int pipe_ends[2];
  if (pipe2(pipe_ends, O_CLOEXEC) != 0) return Unavailable("pipe: %s", std::strerror(errno));
  const pid_t pid = fork();
  if (pid == 0) Become(command, pipe_ends[1], -1);
  close(pipe_ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t n = 0; pid > 0 && (n = read(pipe_ends[0], buffer, sizeof buffer)) != 0;) {
    if (n > 0) text.append(buffer, static_cast<size_t>(n));
    if (n < 0 && errno != EINTR) break;
  }
  close(pipe_ends[0]);
  int status = 0;
  if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status) ||
      WEXITSTATUS(status) != 0) {
    return Internal("%s failed (status %d); what it said is above", QuoteCommand(command), status);
  }
  return text;
}

std::string QuoteCommand(const CommandLine& command) {
  std::string line;
  for (const std::string& argument : command) {
    if (!line.empty()) line += ' ';
    const bool plain = argument.find_first_of(" \t\"'$&|;<>()*?") == std::string::npos;
    line += plain && !argument.empty() ? argument : "'" + argument + "'";
  }
  return line;
}

}  // namespace skerry
