// SIGINT and SIGTERM for one event loop: the first rings a bell, the second ends the process.
#pragma once

#include "wire/wakeup.h"

namespace skerry {

// Catches both signals from its begin on. At most one lives at a time in a process. Afterwards they
// stay caught: the default would take a process that is ending by itself its exit code, and a
// second signal still ends it at once.
class InterruptWatch {
 public:
  explicit InterruptWatch(const Bell& bell);
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

  bool Interrupted() const;
};

}  // namespace skerry
