// Which store a run's journal is in. DIR/store says so, in two lines: the URL ("sqlite:" or
// "postgresql://…") and the run's id in hexadecimal; without that file it is DIR/journal.sqlite.
// The file is readable by its owner only: the URL may hold a password.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/journal.h"
#include "coordinator/journal_postgres.h"

namespace skerry {

struct JournalStore {
  std::string directory;
  std::optional<PostgresStore> postgres;  // nullopt: SQLite, in the directory
};

// InvalidArgument: the URL is of neither kind, or libpq does not understand it.
absl::StatusOr<JournalStore> ParseStore(const std::string& directory, const std::string& url,
                                        const std::string& run);

// NotFound: the directory holds no run.
absl::StatusOr<JournalStore> StoreOf(const std::string& directory);
// Notes it in DIR/store. Unavailable if that cannot be written.
absl::Status SaveStore(const JournalStore& store);

absl::StatusOr<std::unique_ptr<Journal>> OpenJournal(const JournalStore& store,
                                                     JournalAccess access);

// For people: the file, or the database.
std::string NameOf(const JournalStore& store);

}  // namespace skerry
