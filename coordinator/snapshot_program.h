// Who writes DIR/snapshot (coordinator/snapshot_file.h): a process of low priority beside `serve`,
// and `skerry-coordinator compact DIR`. Both only read the journal, so they may do it while a
// coordinator serves.
#pragma once

#include <sys/types.h>

#include <CLI/CLI.hpp>
#include <string>

namespace skerry {

// Folding so many takes well under a second.
inline constexpr int64_t kSnapshotEvery = 20'000;

// A child process that writes a snapshot whenever `every` records came since the last one, and ends
// with this one; 0: none. Begin it before keys, sockets and threads.
class SnapshotWriter {
 public:
  SnapshotWriter(const std::string& directory, int64_t every);
  ~SnapshotWriter() { Stop(); }
  SnapshotWriter(const SnapshotWriter&) = delete;
  SnapshotWriter& operator=(const SnapshotWriter&) = delete;

  // Returns when it has ended. Before the journal is closed: only its last user tidies up.
  void Stop();

 private:
  pid_t child_ = 0;
};

void AddCompactCommand(CLI::App& app, int* exit_code);

}  // namespace skerry
