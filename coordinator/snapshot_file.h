// DIR/snapshot: what a restart begins with instead of the journal's first record. A file of this
// machine, replaced as a whole; it may be deleted at any time.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/journal.h"
#include "coordinator/snapshot.h"

namespace skerry {

struct FoldedJournal {
  Snapshot now;        // of the journal's last record
  int64_t spared = 0;  // records that were not read: the snapshot held them
  std::string note;    // why there is a snapshot that was not used; "": it was, or there is none
};

// The state as the journal tells it, from the snapshot in the directory on if that is of this
// program, this run and this journal, else from the first record on. DataLoss names a record that
// is damaged or contradicts those before it, among those that were read. `on_record` is told the
// number of each, for who shows how far it has come.
absl::StatusOr<FoldedJournal> FoldJournal(Journal& journal, const std::string& directory,
                                          const RunId& run,
                                          const std::function<void(int64_t)>& on_record = {});

// Mode 0600. Two at once do not meet: the second waits.
absl::Status WriteSnapshot(const std::string& directory, const Snapshot& snapshot,
                           const RunId& run);

// Records since the one that the directory's snapshot is of; all if there is none of use.
absl::StatusOr<int64_t> RecordsSinceSnapshot(Journal& journal, const std::string& directory,
                                             const RunId& run);

}  // namespace skerry
