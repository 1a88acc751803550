#include "wire/interrupt.h"

#include <unistd.h>

#include <atomic>
#include <csignal>

#include "wire/event_loop.h"

namespace skerry {
namespace {

// Signal handlers have no argument of their own.
std::atomic<int> interrupts{0};
std::atomic<const Bell*> watched{nullptr};
std::atomic<bool> has_begun{false};

void OnSignal(int) {
  if (!has_begun.load()) {
    static constexpr char kLine[] = "ended: interrupted before it had begun\n";
    // Whether anybody reads it or not.
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kLine, sizeof kLine - 1);
    _exit(kInterruptedExit);
  }
  if (interrupts.fetch_add(1) > 0) _exit(kInterruptedExit);
  if (const Bell* bell = watched.load()) bell->Ring();
}

// A terminal that closes says so more than once: the kernel, and the shell. Nobody is impatient.
void OnHangUp(int signal) {
  if (!has_begun.load() || interrupts.load() == 0) OnSignal(signal);
}

}  // namespace

void CatchInterrupts() {
  struct sigaction action {};
  action.sa_handler = OnSignal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  struct sigaction hang_up {};
  sigaction(SIGHUP, nullptr, &hang_up);
  if (hang_up.sa_handler == SIG_IGN) return;  // nohup
  action.sa_handler = OnHangUp;
  sigaction(SIGHUP, &action, nullptr);
}

bool WasInterrupted() {
  return interrupts.load() > 0;
}

InterruptWatch::InterruptWatch(const Bell& bell) {
  const Bell* none = nullptr;
  SKERRY_CHECK(watched.compare_exchange_strong(none, &bell), "one loop handles signals");
  interrupts = 0;
  has_begun = true;
  CatchInterrupts();
}

InterruptWatch::~InterruptWatch() {
  watched = nullptr;
}

bool InterruptWatch::Interrupted() const {
  return WasInterrupted();
}

}  // namespace skerry
