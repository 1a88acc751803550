// Who writes DIR/snapshot (coordinator/snapshot_file.h): a process of low priority beside `serve`,
// and `skerry-coordinator compact DIR`. Both only read the journal, so they may do it while a
// coordinator serves.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "coordinator/idle_child_program.h"

namespace skerry {

// Folding so many takes well under a second.
inline constexpr int64_t kSnapshotEvery = 20'000;

// Writes a snapshot whenever `every` records came since the last one, beside the process that makes
// this; 0: none. Begin it before keys, sockets and threads.
class SnapshotWriter {
 public:
  SnapshotWriter(const std::string& directory, int64_t every);
  // Before the journal is closed: only its last user tidies up.
  void Stop() { child_.reset(); }

 private:
  std::optional<IdleChild> child_;
};

void AddCompactCommand(CLI::App& app, int* exit_code);

}  // namespace skerry
