// SIGINT and SIGTERM: before there is an event loop they end the process; for one, the first rings
// a bell and the second ends the process. SIGHUP, of a terminal that closes, is as a first one; who
// was started to ignore it (nohup) does.
#pragma once

#include "wire/wakeup.h"

namespace skerry {

// Until an InterruptWatch begins each of them ends the process with kInterruptedExit, and a line
// that says so. Call it before anything that takes its time; processes that are forked inherit it.
// Whoever read what the process prints may go (`| head`, `| tee`, ssh): it goes on unheard.
void CatchInterrupts();

// Whether a signal came since the newest InterruptWatch began; also after its end.
bool WasInterrupted();

// Catches them from its begin on. At most one lives at a time in a process. Afterwards they
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
