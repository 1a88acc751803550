// The journal in SQLite: an append-only table of records, write-ahead logged, synchronous FULL.
//
// One process at a time writes; others may read. Errors: Unavailable (directory missing or
// read-only, disk full) and DataLoss (not a journal, damaged), with what to do; a failed append
// leaves what was there.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

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
  absl::StatusOr<std::vector<std::string>> Load() const;

  // Facts that never change: "run", "config".
  absl::Status SetFact(const std::string& name, const std::string& value);
  absl::StatusOr<std::string> Fact(const std::string& name) const;

 private:
  explicit SqliteJournal(sqlite3* database, std::string path)
      : database_(database), path_(std::move(path)) {}
  absl::Status Execute(const char* sql);
  absl::Status Error(int code, const std::string& doing) const;

  sqlite3* database_;
  std::string path_;
};

}  // namespace skerry
