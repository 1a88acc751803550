// The journal in SQLite: one file, write-ahead logged, synchronous FULL (coordinator/journal.h).
//
// SQLite has no checksums of its own: the chain is what finds damage. A directory that is missing
// or read-only, and a disk that fails, are Unavailable.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/journal.h"

struct sqlite3;

namespace skerry {

class SqliteJournal final : public Journal {
 public:
  using Access = JournalAccess;
  static absl::StatusOr<std::unique_ptr<SqliteJournal>> Open(const std::string& path,
                                                             Access access);
  ~SqliteJournal() override;

  absl::Status Append(const std::vector<std::string>& records) override;
  absl::StatusOr<JournalEnd> ReadAfter(
      const JournalEnd& after, const std::function<void(const std::string&)>& with) override;
  absl::StatusOr<int64_t> LastNumber() override;
  absl::StatusOr<int64_t> CutDamaged() override;
  absl::Status SetFact(const std::string& name, const std::string& value) override;
  absl::StatusOr<std::string> Fact(const std::string& name) override;

 private:
  explicit SqliteJournal(sqlite3* database, std::string path)
      : database_(database), path_(std::move(path)) {}
  absl::Status Execute(const char* sql);
  absl::Status CheckHas(const JournalEnd& record);
  absl::Status Error(int code, const std::string& doing) const;

  sqlite3* database_;
  std::string path_;
  std::optional<JournalEnd> end_;  // known after the first read or Append
};

}  // namespace skerry
