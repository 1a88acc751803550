// Work beside `serve` that may take its time: a process of the lowest priority looks every few
// seconds whether there is some, and does it in a child of its own, which gives all memory back.
// All of them end with the process that began them.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

namespace skerry {

// Another program that a child becomes.
class BecomesProgram {
 public:
  // `command`: the program's path and its arguments; what it says goes into the file `out`.
  BecomesProgram(std::vector<std::string> command, std::string out);
  // Returns only where that fails, with 1. Allocates nothing: a child of a process with threads
  // may call it.
  int Become() const;

 private:
  std::vector<std::string> command_;
  std::vector<char*> argv_;  // of command_, and a null
  std::string out_;
};

// In any process, also one with threads: runs it in a child, as long as `goes_on` says so, which is
// asked some times a second. True: it ended with 0.
bool RunProgram(const BecomesProgram& program, const std::function<bool()>& goes_on);

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
