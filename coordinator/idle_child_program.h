// Work beside `serve` that may take its time: a process of the lowest priority looks every few
// seconds whether there is some, and does it in a child of its own, which gives all memory back.
// All of them end with the process that began them.
#pragma once

#include <sys/types.h>

#include <functional>

namespace skerry {

// In the process that looks, or in any that has no threads: `work` in a child. True: it returned 0,
// or it became another program that ended with 0.
bool RunInChild(const std::function<int()>& work);

class IdleChild {
 public:
  // False: it failed; there is no next look for five minutes.
  using Look = std::function<bool()>;
  // Begin it before keys, sockets and threads.
  explicit IdleChild(const Look& look);
  ~IdleChild() { Stop(); }
  IdleChild(const IdleChild&) = delete;
  IdleChild& operator=(const IdleChild&) = delete;

  // Returns when it has ended, with what it was at.
  void Stop();

 private:
  pid_t child_ = 0;
};

}  // namespace skerry
