// The journal in PostgreSQL, for runs that must survive the loss of the coordinator's machine, and
// the lease by which one of several coordinators leads (coordinator/journal.h,
// coordinator/lease.h).
//
// Tables, in the schema that the URL's user writes to; several runs may share them:
//
//   skerry_run(run, schema, epoch, holder, endpoint, expires)  the lease: one row a run
//   skerry_record(run, number, body, chain, epoch)             key (run, number)
//   skerry_fact(run, name, value)
//   skerry_coordinator(run, endpoint, seen)                    who serves it, or stands by
//   skerry_damaged(run, number, body, chain, epoch, cut)       what `mend` cut
//
// An append is one statement: it renews the lease of its epoch, which locks the row, and inserts
// its records only if there was such a row. So appends of two epochs never interleave, and whoever
// takes the lease has seen every append of the epochs before. If the answer to an append is lost it
// may be made again: the key of a record and its chain tell whether it is there.
//
// Blocking calls, each within the bounds of journal_connection.h.
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
#include "coordinator/journal_connection.h"
#include "coordinator/lease.h"

namespace skerry {

// Where a journal is: the database, and which run in it.
struct PostgresStore {
  std::string url;
  std::string run;  // hexadecimal, as the fact "run"
};

class PostgresJournal final : public Journal {
 public:
  // kCreate makes the tables, and the run's row. Unavailable: the server is not reached; NotFound:
  // the database has no such run.
  static absl::StatusOr<std::unique_ptr<PostgresJournal>> Open(const PostgresStore& store,
                                                               JournalAccess access,
                                                               LeaseTerms terms = {});

  // Makes the tables and no run: whether the database is reached and takes a journal, for who has
  // long work to do before.
  static absl::Status MakeTables(const std::string& url);

  // Aborted without a lease. Every append renews it, and every page that is read.
  absl::Status Append(const std::vector<std::string>& records) override;
  absl::StatusOr<JournalEnd> ReadAfter(
      const JournalEnd& after, const std::function<void(const std::string&)>& with) override;
  absl::StatusOr<int64_t> LastNumber() override;
  // Under a lease. What is cut is kept in skerry_damaged.
  absl::StatusOr<int64_t> CutDamaged() override;
  absl::Status SetFact(const std::string& name, const std::string& value) override;
  absl::StatusOr<std::string> Fact(const std::string& name) override;

  struct Lease {
    int64_t epoch = 0;
    std::string holder;    // "host-a, process 123"; for people
    std::string endpoint;  // where it listens
    double left_s = 0;     // ≤ 0: it has ended
    bool IsHeld() const { return left_s > 0; }
  };
  absl::StatusOr<Lease> CurrentLease();

  // Takes the lease if nobody holds it; the new epoch, or nullopt. From then on this journal writes
  // under that epoch.
  absl::StatusOr<std::optional<int64_t>> TakeLease(const std::string& holder,
                                                   const std::string& endpoint);
  // For as long as terms say, and `extra`. Aborted if the row names another epoch.
  absl::Status RenewLease(Duration extra = {});
  // Ends it, so that a standby need not wait. Does nothing if it is another's.
  absl::Status ReleaseLease();

  // Says that a coordinator can be dialled there; who does not for kForgottenAfter is forgotten.
  absl::Status Announce(const std::string& endpoint);
  // All that were announced: the leader's first, then in order of their names.
  absl::StatusOr<std::vector<std::string>> Endpoints();
  static constexpr Duration kForgottenAfter = Duration::Seconds(3600);

  // For people: who is there, all by the database's clock.
  struct Coordinator {
    std::string endpoint;
    double silent_s = 0;  // since it was announced last
  };
  struct Company {
    Lease lease;
    double led_s = -1;  // how long the lease's epoch has lasted; −1: not known
    int64_t records = 0;
    std::vector<Coordinator> coordinators;  // in order of their names
  };
  absl::StatusOr<Company> WhoIsThere();

  const std::string& name() const { return name_; }  // for people

 private:
  PostgresJournal(const PostgresStore& store, std::string name, LeaseTerms terms)
      : store_(store), name_(std::move(name)), terms_(terms), connection_(store.url) {}
  absl::Status CreateTables();
  absl::Status AddRun();
  absl::Status CheckSchema();
  absl::Status Annotated(const absl::Status& status) const;
  absl::Status Deposed() const;
  absl::StatusOr<PostgresConnection::Answer> Ask(const std::string& sql,
                                                 const std::vector<std::string>& values,
                                                 Duration patience = PostgresConnection::kPatience);
  // Whether the records up to `end` are there already.
  absl::StatusOr<bool> IsWritten(const JournalEnd& end);
  std::string LeaseMillis(Duration extra = {}) const;

  PostgresStore store_;
  std::string name_;
  LeaseTerms terms_;
  PostgresConnection connection_;
  int64_t epoch_ = 0;              // 0: no lease
  std::optional<JournalEnd> end_;  // known after the first read under the lease
  bool in_doubt_ = false;          // the answer to the last append was lost
};

}  // namespace skerry
