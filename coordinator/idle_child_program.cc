#include "coordinator/idle_child_program.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <thread>
#include <utility>

namespace skerry {
namespace {

constexpr auto kLookEvery = std::chrono::seconds(5);
constexpr auto kAfterFailure = std::chrono::minutes(5);
constexpr auto kAskEvery = std::chrono::milliseconds(50);
constexpr int kLowestPriority = 19;

bool DiesWith(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  return getppid() == parent;
}

// Of the process that looks: whom it has do the work now.
std::atomic<pid_t> working{0};

void EndTogether(int) {
  if (const pid_t child = working.load(); child > 0) {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
  _exit(0);
}

}  // namespace

BecomesProgram::BecomesProgram(std::vector<std::string> command, std::string out)
    : command_(std::move(command)), out_(std::move(out)) {
  for (std::string& word : command_) argv_.push_back(word.data());
  argv_.push_back(nullptr);
}

int BecomesProgram::Become() const {
  const int file = open(out_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0 || dup2(file, STDOUT_FILENO) < 0 || dup2(file, STDERR_FILENO) < 0) return 1;
  execv(argv_.front(), argv_.data());
  return 1;
}

bool RunProgram(const BecomesProgram& program, const std::function<bool()>& goes_on) {
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0) {
    _exit(DiesWith(parent) ? program.Become() : 0);
  }
  int status = 0;
  pid_t ended = child < 0 ? -1 : 0;
  while (ended == 0) {
    ended = waitpid(child, &status, WNOHANG);
    if (ended != 0) break;
    if (!goes_on()) {
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
      return false;
    }
    std::this_thread::sleep_for(kAskEvery);
  }
  return ended == child && status == 0;
}

bool RunInChild(const std::function<int()>& work) {
  const pid_t parent = getpid();
  sigset_t ends, before;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigprocmask(SIG_BLOCK, &ends, &before);
  const pid_t child = fork();
  working = child;
  if (child == 0) std::signal(SIGTERM, SIG_DFL);
  sigprocmask(SIG_SETMASK, &before, nullptr);
  if (child == 0) _exit(DiesWith(parent) ? work() : 0);
  int status = 0;
  const bool ended = child > 0 && waitpid(child, &status, 0) == child;
  working = 0;
  return ended && status == 0;
}

IdleChild::IdleChild(const Look& look) {
  std::fflush(nullptr);
  const pid_t parent = getpid();
  child_ = fork();
  if (child_ != 0) return;
  if (!DiesWith(parent)) _exit(0);
  std::signal(SIGINT, SIG_IGN);  // the parent's to answer; this ends with it
  std::signal(SIGTERM, EndTogether);
  setpriority(PRIO_PROCESS, 0, kLowestPriority);
  while (true) {
    std::this_thread::sleep_for(kLookEvery);
    if (!look()) std::this_thread::sleep_for(kAfterFailure);
  }
}

void IdleChild::Stop() {
  const pid_t child = std::exchange(child_, 0);
  if (child <= 0) return;
  kill(child, SIGTERM);
  kill(child, SIGCONT);  // should somebody have stopped it
  waitpid(child, nullptr, 0);
}

}  // namespace skerry
