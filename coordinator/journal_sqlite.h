// The journal in SQLite: an append-only table of numbered records, write-ahead logged, synchronous
// FULL. Each carries the BLAKE2b chain of all records up to it, as SQLite has no checksums of its
// own.
//
// One process at a time writes; others may read. Errors: ResourceExhausted (disk full: the same
// append succeeds when there is room), Unavailable (directory missing or read-only, a disk that
// fails) and DataLoss (not a journal, damaged), with what to do; a failed append leaves what was
// there.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/ids.h"

struct sqlite3;

namespace skerry {

class SqliteJournal {
 public:
  enum class Access { kReadOnly, kWrite, kCreate };
  static absl::StatusOr<std::unique_ptr<SqliteJournal>> Open(const std::string& path,
                                                             Access access);
  ~SqliteJournal();

  // All records or none; durable when it returns OK.
  absl::Status Append(const std::vector<std::string>& records);
  // DataLoss names the first record that is not the one appended, or that is missing.
  absl::StatusOr<std::vector<std::string>> Load();
  // The same, one by one: those before a damaged one are still seen.
  absl::Status Read(const std::function<void(const std::string&)>& with);

  // Deletes every record from the first damaged or missing one on; how many. Load succeeds then.
  absl::StatusOr<int64_t> CutDamaged();

  // Facts that never change: "run", "config".
  absl::Status SetFact(const std::string& name, const std::string& value);
  absl::StatusOr<std::string> Fact(const std::string& name) const;

 private:
  explicit SqliteJournal(sqlite3* database, std::string path)
      : database_(database), path_(std::move(path)) {}
  absl::Status Execute(const char* sql);
  absl::Status Error(int code, const std::string& doing) const;

  struct End {  // the last record
    int64_t number = 0;
    Digest chain;
  };

  sqlite3* database_;
  std::string path_;
  std::optional<End> end_;  // known after the first Load or Append
};

}  // namespace skerry
