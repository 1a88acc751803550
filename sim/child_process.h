// A child process of the emulator: started with its output in a log file (or captured), watched,
// ended.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace skerry {

using CommandLine = std::vector<std::string>;  // program and arguments

// Owns the process: the destructor ends it (SIGTERM, after a grace SIGKILL). It also dies with this
// process.
class ChildProcess {
 public:
  // Appends stdout and stderr to `log_file`; "" inherits ours. With a descriptor of a network
  // namespace the process lives in that one.
  static absl::StatusOr<ChildProcess> Start(const CommandLine& command, const std::string& log_file,
                                            int net_namespace = -1);

  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&& other) noexcept;
  ~ChildProcess();

  pid_t pid() const { return pid_; }

  // "" while it runs, else "exit code 1" or "signal 9".
  std::string Ended();
  bool Succeeded() { return Ended() == "exit code 0"; }
  // Waits; the same text.
  std::string Wait();
  void Terminate();

 private:
  explicit ChildProcess(pid_t pid) : pid_(pid) {}
  void Note(int status);

  pid_t pid_ = -1;
  std::string ended_;
};

// Runs to the end. Returns stdout; an error with the end of stderr if the exit code is not 0.
absl::StatusOr<std::string> RunAndCapture(const CommandLine& command);

std::string QuoteCommand(const CommandLine& command);

}  // namespace skerry
