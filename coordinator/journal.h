// The journal of a run: an append-only list of numbered records, each with the BLAKE2b chain of
// all records up to it, and a few facts. One body per store: journal_sqlite.h (a file),
// journal_postgres.h (a database that outlives this machine).
//
// One process at a time writes; others may read. Errors, the same from every store:
//
//   ResourceExhausted  the disk is full: the same append succeeds when there is room
//   Unavailable        the store cannot be reached, opened or written
//   Aborted            another coordinator leads (PostgreSQL only): this one must not write, ever
//   DataLoss           not a journal, or damaged
//
// all with what to do. A failed append leaves what was there, and may be made again: it is then
// written once, also if it was durable already and only the answer was lost.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/ids.h"

namespace skerry {

enum class JournalAccess { kReadOnly, kWrite, kCreate };

// The last record of a journal; of an empty one the default.
struct JournalEnd {
  int64_t number = 0;
  Digest chain;
  bool operator==(const JournalEnd&) const = default;
};

class Journal {
 public:
  virtual ~Journal() = default;

  // All records or none; durable when it returns OK.
  virtual absl::Status Append(const std::vector<std::string>& records) = 0;
  // Calls `with` for every whole record after `after`, in order; where the journal ends. NotFound:
  // it has no such record `after`. DataLoss names the first record that is not the one appended, or
  // that is missing, after those before it; nothing up to `after` is looked at.
  virtual absl::StatusOr<JournalEnd> ReadAfter(
      const JournalEnd& after, const std::function<void(const std::string&)>& with) = 0;
  // From the first record on.
  absl::Status Read(const std::function<void(const std::string&)>& with);
  absl::StatusOr<std::vector<std::string>> Load();
  // The number of the last record, without reading those before it; 0: there is none.
  virtual absl::StatusOr<int64_t> LastNumber() = 0;

  // Deletes every record from the first damaged or missing one on; how many. Load succeeds then.
  virtual absl::StatusOr<int64_t> CutDamaged() = 0;

  // Facts that never change: "run", "config". NotFound if it was never set.
  virtual absl::Status SetFact(const std::string& name, const std::string& value) = 0;
  virtual absl::StatusOr<std::string> Fact(const std::string& name) = 0;
};

// The end after one more record: what a disk or an operator changed or lost is noticed.
JournalEnd Extended(const JournalEnd& end, const std::string& body);

// `store` names the journal, for people.
absl::Status DamagedRecord(const std::string& store, int64_t number);
absl::Status NoSuchRecord(const std::string& store, const JournalEnd& after);

}  // namespace skerry
