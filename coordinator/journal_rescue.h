// What can still be read of a journal file whose pages are damaged or missing.
//
// SQLite refuses to change such a file, or to open it at all where it is shorter than it says: so
// the records before the damage go into a new file, which takes its place.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace skerry {

// How many records were whole. An error leaves the journal as damaged as it was; the caller has
// kept a copy, and nobody has it open. DataLoss: not even the first page can be read.
absl::StatusOr<int64_t> RebuildSqliteJournal(const std::string& path);

}  // namespace skerry
