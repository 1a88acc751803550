// `skerry-coordinator serve DIR` and `watch DIR`.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/snapshot_program.h"

namespace skerry {

struct ServeOptions {
  std::string directory;
  std::string bind = "tcp://0.0.0.0:7700";
  std::string advertise;   // where nodes reach it, for tickets; "" for the bound address
  int probes_at_once = 0;  // links measured at a time; 0: every disjoint pair of nodes
  std::string shape_file;  // imitate this network towards nodes; "" for none
  std::string region;
  std::string dashboard;  // host:port; "none"; "": the usual port, or one of the next
  int64_t snapshot_every = kSnapshotEvery;  // records; 0: none are written
  std::optional<int64_t> held_out;          // windows; coordinator/held_out_program.h
  std::string push_checkpoints;             // s3://BUCKET/PREFIX; "": nowhere
  std::string log_format = "text";          // of what it prints: or "json", for programs
};

inline constexpr int kDeposedExit = 3;

// Serves until the run is finished or a signal comes. Returns the exit code: kDeposedExit if
// another coordinator took the lead. Where the store is PostgreSQL it stands by as long as another
// leads.
absl::StatusOr<int> Serve(const ServeOptions& options);

// The same as a command: errors are said, in the format of its log.
int ServeCommand(const ServeOptions& options);

// Shows DIR/status.json until the run is finished; waits for a coordinator that is away.
absl::Status Watch(const std::string& directory);

}  // namespace skerry
