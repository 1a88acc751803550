// The state of a run up to one record of its journal, as bytes, so that a restart need not fold
// what came before (docs/decisions/0059-snapshots.md).
//
// A snapshot is a cache: it says of which run it is, which program made it and of which record of
// the journal, by number and chain. Who reads it holds that against the journal, and folds from the
// beginning if anything differs.
#pragma once

#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "common/bytes.h"
#include "common/ids.h"
#include "coordinator/journal.h"
#include "coordinator/run_state.h"

namespace skerry {

struct SnapshotMaker {
  RunId run;
  // Of the executable: another one may hold another state, or fold otherwise.
  Digest program;
  bool operator==(const SnapshotMaker&) const = default;
};

struct Snapshot {
  JournalEnd end;  // the last record that was folded
  RunState state;
  bool operator==(const Snapshot&) const = default;
};

// What may stand first in CoordinatorOptions::journal, in place of the records that came to it; it
// is no record, and in no journal.
std::string StateEntry(const RunState& state);
bool IsStateEntry(const std::string& entry);
absl::StatusOr<RunState> StateOfEntry(const std::string& entry);

Bytes PackSnapshot(const Snapshot& snapshot, const SnapshotMaker& by);

// FailedPrecondition: by another maker; DataLoss: damaged. Any bytes may be given.
absl::StatusOr<Snapshot> UnpackSnapshot(std::span<const uint8_t> bytes, const SnapshotMaker& by);

// Only which record it is of; whether the state is whole is not looked at.
absl::StatusOr<JournalEnd> EndOfSnapshot(std::span<const uint8_t> bytes, const SnapshotMaker& by);

}  // namespace skerry
