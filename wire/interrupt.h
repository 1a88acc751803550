// SIGINT and SIGTERM for one event loop: the first rings a bell, the second ends the process.
#pragma once

#include <csignal>

#include "wire/wakeup.h"

namespace skerry {

// Catches both signals while it lives. At most one at a time in a process.
class InterruptWatch {
 public:
  explicit InterruptWatch(const Bell& bell);
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

  bool Interrupted() const;

 private:
  struct sigaction old_int_ {};
  struct sigaction old_term_ {};
};

}  // namespace skerry
