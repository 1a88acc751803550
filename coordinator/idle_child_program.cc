#include "coordinator/idle_child_program.h"

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
