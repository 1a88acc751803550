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

void OnSignal(int) {
  if (interrupts.fetch_add(1) > 0) _exit(kInterruptedExit);
  if (const Bell* bell = watched.load()) bell->Ring();
}

}  // namespace

InterruptWatch::InterruptWatch(const Bell& bell) {
  const Bell* none = nullptr;
  SKERRY_CHECK(watched.compare_exchange_strong(none, &bell), "one loop handles signals");
  interrupts = 0;
  struct sigaction action {};
  action.sa_handler = OnSignal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

InterruptWatch::~InterruptWatch() {
  watched = nullptr;
}

bool InterruptWatch::Interrupted() const {
  return interrupts.load() > 0;
}

}  // namespace skerry
