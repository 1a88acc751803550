#include "coordinator/journal_postgres.h"

#include <charconv>

#include "common/status.h"

namespace skerry {
namespace {

constexpr int kSchema = 1;
constexpr int kPage = 512;  // records read at once

constexpr const char* kTables[] = {
    "CREATE TABLE IF NOT EXISTS skerry_run("
    " run text PRIMARY KEY, schema int NOT NULL, epoch bigint NOT NULL DEFAULT 0,"
    " holder text NOT NULL DEFAULT '', endpoint text NOT NULL DEFAULT '',"
    " expires timestamptz NOT NULL DEFAULT '-infinity')",
    "CREATE TABLE IF NOT EXISTS skerry_record("
    " run text NOT NULL, number bigint NOT NULL, body bytea NOT NULL, chain text NOT NULL,"
    " epoch bigint NOT NULL, PRIMARY KEY(run, number))",
    "CREATE TABLE IF NOT EXISTS skerry_fact("
    " run text NOT NULL, name text NOT NULL, value text NOT NULL, PRIMARY KEY(run, name))",
    "CREATE TABLE IF NOT EXISTS skerry_coordinator("
    " run text NOT NULL, endpoint text NOT NULL, seen timestamptz NOT NULL,"
    " PRIMARY KEY(run, endpoint))",
    "CREATE TABLE IF NOT EXISTS skerry_damaged("
    " run text NOT NULL, number bigint NOT NULL, body bytea NOT NULL, chain text NOT NULL,"
    " epoch bigint NOT NULL, cut timestamptz NOT NULL)",
};

int64_t Number(const std::string& text) {
  int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// An array as PostgreSQL reads it. Elements are numbers or hexadecimal: nothing to escape but what
// `quoted` is for, the backslash of bytea.
void AddElement(std::string& array, const std::string& element, bool quoted) {
  array += array.empty() ? "{" : ",";
  array += quoted ? "\"\\" + element + "\"" : element;
}

}  // namespace

absl::Status PostgresJournal::Annotated(const absl::Status& status) const {
  if (status.ok()) return status;
  if (absl::IsUnavailable(status)) {
    return Unavailable("%s does not answer: %s; nothing is lost [SK-store-away]", name_,
                       ErrorText(status));
  }
  return Annotate(status, name_);
}

absl::StatusOr<PostgresConnection::Answer> PostgresJournal::Ask(
    const std::string& sql, const std::vector<std::string>& values, Duration patience) {
  auto answer = connection_.Ask(sql, values, patience);
  if (!answer.ok()) return Annotated(answer.status());
  return answer;
}

std::string PostgresJournal::LeaseMillis(Duration extra) const {
  return std::to_string((terms_.lasts + extra).nanos() / 1'000'000);
}

absl::Status PostgresJournal::Deposed() const {
  return Aborted(
      "%s: another coordinator leads this run; this one led in epoch %d and ends; start it again "
      "to "
      "stand by",
      name_, epoch_);
}

absl::StatusOr<std::unique_ptr<PostgresJournal>> PostgresJournal::Open(const PostgresStore& store,
                                                                       JournalAccess access,
                                                                       LeaseTerms terms) {
  SKERRY_ASSIGN_OR_RETURN(std::string name, PostgresConnection::Shown(store.url));
  std::unique_ptr<PostgresJournal> journal(new PostgresJournal(store, std::move(name), terms));
  if (access == JournalAccess::kCreate) {
    SKERRY_RETURN_IF_ERROR(journal->CreateTables());
    SKERRY_RETURN_IF_ERROR(journal->AddRun());
  }
  SKERRY_RETURN_IF_ERROR(journal->CheckSchema());
  return journal;
}

absl::Status PostgresJournal::MakeTables(const std::string& url) {
  SKERRY_ASSIGN_OR_RETURN(std::string name, PostgresConnection::Shown(url));
  return PostgresJournal({url, ""}, std::move(name), {}).CreateTables();
}

absl::Status PostgresJournal::CreateTables() {
  for (const char* table : kTables) {
    // Two at once may both find that it is missing; the other has made it then.
    const absl::Status made = Ask(table, {}).status();
    if (!made.ok() && !absl::IsAlreadyExists(made)) return made;
  }
  return absl::OkStatus();
}

absl::Status PostgresJournal::AddRun() {
  return Ask("INSERT INTO skerry_run(run, schema) VALUES($1, $2) ON CONFLICT DO NOTHING",
             {store_.run, std::to_string(kSchema)})
      .status();
}

absl::Status PostgresJournal::CheckSchema() {
  SKERRY_ASSIGN_OR_RETURN(const auto answer,
                          Ask("SELECT schema FROM skerry_run WHERE run = $1", {store_.run}));
  if (answer.rows.empty()) {
    return NotFound("%s: the database has no run %s", name_, store_.run.substr(0, 8));
  }
  const int64_t schema = Number(answer.rows[0][0]);
  if (schema == kSchema) return absl::OkStatus();
  return DataLoss("%s: want a journal of schema %d, got %d", name_, kSchema, schema);
}

// ---- records -----------------------------------------------------------------------------------

absl::Status PostgresJournal::Append(const std::vector<std::string>& records) {
  if (epoch_ == 0) return Aborted("%s: this process does not lead", name_);
  if (!end_) SKERRY_RETURN_IF_ERROR(Read([](const std::string&) {}));
  JournalEnd end = *end_;
  std::string numbers, bodies, chains;
  for (const std::string& record : records) {
    end = Extended(end, record);
    AddElement(numbers, std::to_string(end.number), false);
    AddElement(bodies, PostgresConnection::Hex(record), true);
    AddElement(chains, end.chain.Hex(), false);
  }
  if (records.empty()) return RenewLease();
  if (in_doubt_) {
    // The first try may still be on its way: holding the row's lock it would be waited for here,
    // and without the lock it finds its numbers taken, or the row changed.
    SKERRY_RETURN_IF_ERROR(RenewLease());
    SKERRY_ASSIGN_OR_RETURN(const bool written, IsWritten(end));
    in_doubt_ = false;
    if (written) {
      end_ = end;
      return absl::OkStatus();
    }
  }
  const auto answer =
      Ask("WITH lease AS (UPDATE skerry_run"
          " SET expires = clock_timestamp() + $3::int * interval '1 millisecond'"
          " WHERE run = $1 AND epoch = $2::bigint RETURNING epoch)"
          " INSERT INTO skerry_record(run, number, body, chain, epoch)"
          " SELECT $1, added.number, added.body, added.chain, lease.epoch FROM lease,"
          " unnest($4::bigint[], $5::bytea[], $6::text[]) AS added(number, body, chain)",
          {store_.run, std::to_string(epoch_), LeaseMillis(), numbers + "}", bodies + "}",
           chains + "}"});
  if (absl::IsAlreadyExists(answer.status())) {
    SKERRY_ASSIGN_OR_RETURN(const bool written, IsWritten(end));
    if (!written) {
      return DataLoss("%s: record %d is there already, and another one; who wrote it?", name_,
                      end_->number + 1);
    }
  } else if (!answer.ok()) {
    in_doubt_ = true;
    return answer.status();
  } else if (answer->changed != static_cast<int64_t>(records.size())) {
    return Deposed();
  }
  end_ = end;
  return absl::OkStatus();
}

absl::StatusOr<bool> PostgresJournal::IsWritten(const JournalEnd& end) {
  SKERRY_ASSIGN_OR_RETURN(
      const auto answer,
      Ask("SELECT chain FROM skerry_record WHERE run = $1 AND number = $2::bigint",
          {store_.run, std::to_string(end.number)}));
  return !answer.rows.empty() && answer.rows[0][0] == end.chain.Hex();
}

absl::StatusOr<JournalEnd> PostgresJournal::ReadAfter(
    const JournalEnd& after, const std::function<void(const std::string&)>& with) {
  if (after != JournalEnd()) {
    SKERRY_ASSIGN_OR_RETURN(const bool has, IsWritten(after));
    if (!has) return NoSuchRecord(name_, after);
  }
  JournalEnd end = after;
  while (true) {
    // From the first on, so that a record before it is noticed too.
    SKERRY_ASSIGN_OR_RETURN(const auto page,
                            Ask("SELECT number, body, chain FROM skerry_record WHERE run = $1 AND"
                                " ($2::bigint = 0 OR number > $2::bigint)"
                                " ORDER BY number LIMIT $3::int",
                                {store_.run, std::to_string(end.number), std::to_string(kPage)},
                                PostgresConnection::kLongPatience));
    for (const auto& row : page.rows) {
      const std::string body = PostgresConnection::FromHex(row[1]);
      end = Extended(end, body);
      if (Number(row[0]) != end.number || row[2] != end.chain.Hex()) {
        return DamagedRecord(name_, end.number);
      }
      with(body);
    }
    if (page.rows.size() < kPage) break;
    if (epoch_ > 0) SKERRY_RETURN_IF_ERROR(RenewLease());  // a long journal takes its time
  }
  end_ = end;
  return end;
}

absl::StatusOr<int64_t> PostgresJournal::LastNumber() {
  SKERRY_ASSIGN_OR_RETURN(
      const auto end,
      Ask("SELECT coalesce(max(number), 0) FROM skerry_record WHERE run = $1", {store_.run}));
  return Number(end.rows[0][0]);
}

absl::StatusOr<int64_t> PostgresJournal::CutDamaged() {
  int64_t whole = 0;
  const absl::Status read = Read([&whole](const std::string&) { ++whole; });
  if (read.ok()) return 0;
  if (!absl::IsDataLoss(read)) return read;
  SKERRY_ASSIGN_OR_RETURN(
      const auto cut,
      Ask("WITH lease AS (SELECT epoch FROM skerry_run WHERE run = $1 AND epoch = $2::bigint"
          " FOR UPDATE), cut AS (DELETE FROM skerry_record WHERE run = $1"
          " AND (number > $3::bigint OR number < 1) AND EXISTS (SELECT 1 FROM lease)"
          " RETURNING run, number, body, chain, epoch)"
          " INSERT INTO skerry_damaged SELECT cut.*, clock_timestamp() FROM cut",
          {store_.run, std::to_string(epoch_), std::to_string(whole)},
          PostgresConnection::kLongPatience));
  if (cut.changed == 0) SKERRY_RETURN_IF_ERROR(RenewLease());  // deposed, or there was nothing
  SKERRY_RETURN_IF_ERROR(Read([](const std::string&) {}));
  return cut.changed;
}

absl::Status PostgresJournal::SetFact(const std::string& name, const std::string& value) {
  return Ask("INSERT INTO skerry_fact(run, name, value) VALUES($1, $2, $3)"
             " ON CONFLICT (run, name) DO UPDATE SET value = excluded.value",
             {store_.run, name, value})
      .status();
}

absl::StatusOr<std::string> PostgresJournal::Fact(const std::string& name) {
  SKERRY_ASSIGN_OR_RETURN(
      const auto answer,
      Ask("SELECT value FROM skerry_fact WHERE run = $1 AND name = $2", {store_.run, name}));
  if (answer.rows.empty()) return NotFound("%s: has no '%s'", name_, name);
  return answer.rows[0][0];
}

// ---- the lease ---------------------------------------------------------------------------------

absl::StatusOr<PostgresJournal::Lease> PostgresJournal::CurrentLease() {
  SKERRY_ASSIGN_OR_RETURN(
      const auto answer,
      Ask("SELECT epoch, holder, endpoint,"
          " ceil(extract(epoch FROM greatest(expires, clock_timestamp()) - clock_timestamp())"
          " * 1000)::bigint FROM skerry_run WHERE run = $1",
          {store_.run}));
  if (answer.rows.empty()) return NotFound("%s: has no such run", name_);
  const auto& row = answer.rows[0];
  return Lease{Number(row[0]), row[1], row[2], static_cast<double>(Number(row[3])) * 1e-3};
}

absl::StatusOr<std::optional<int64_t>> PostgresJournal::TakeLease(const std::string& holder,
                                                                  const std::string& endpoint) {
  SKERRY_ASSIGN_OR_RETURN(const auto answer,
                          Ask("WITH taken AS ("
                              "UPDATE skerry_run SET epoch = epoch + 1, holder = $2, endpoint = $3,"
                              " expires = clock_timestamp() + $4::int * interval '1 millisecond'"
                              " WHERE run = $1 AND expires < clock_timestamp() RETURNING epoch),"
                              " noted AS (INSERT INTO skerry_fact SELECT $1, 'leads_since',"
                              " epoch || ' ' || clock_timestamp() FROM taken"
                              " ON CONFLICT (run, name) DO UPDATE SET value = excluded.value)"
                              " SELECT epoch FROM taken",
                              {store_.run, holder, endpoint, LeaseMillis()}));
  if (answer.rows.empty()) return std::optional<int64_t>();
  epoch_ = Number(answer.rows[0][0]);
  end_.reset();  // others may have written since
  in_doubt_ = false;
  return std::optional<int64_t>(epoch_);
}

absl::Status PostgresJournal::RenewLease(Duration extra) {
  SKERRY_ASSIGN_OR_RETURN(
      const auto answer,
      Ask("UPDATE skerry_run SET expires = clock_timestamp() + $3::int * interval '1 millisecond'"
          " WHERE run = $1 AND epoch = $2::bigint",
          {store_.run, std::to_string(epoch_), LeaseMillis(extra)}));
  return answer.changed == 1 ? absl::OkStatus() : Deposed();
}

absl::Status PostgresJournal::ReleaseLease() {
  return Ask("UPDATE skerry_run SET expires = '-infinity' WHERE run = $1 AND epoch = $2::bigint",
             {store_.run, std::to_string(epoch_)})
      .status();
}

// ---- who is there ------------------------------------------------------------------------------

absl::Status PostgresJournal::Announce(const std::string& endpoint) {
  return Ask("WITH old AS (DELETE FROM skerry_coordinator WHERE run = $1 AND endpoint <> $2"
             " AND seen < clock_timestamp() - $3::int * interval '1 second')"
             " INSERT INTO skerry_coordinator VALUES($1, $2, clock_timestamp())"
             " ON CONFLICT (run, endpoint) DO UPDATE SET seen = excluded.seen",
             {store_.run, endpoint,
              std::to_string(static_cast<int64_t>(kForgottenAfter.seconds()))})
      .status();
}

absl::StatusOr<PostgresJournal::Company> PostgresJournal::WhoIsThere() {
  Company company;
  SKERRY_ASSIGN_OR_RETURN(company.lease, CurrentLease());
  SKERRY_ASSIGN_OR_RETURN(
      const auto since,
      Ask("SELECT ceil(extract(epoch FROM clock_timestamp()"
          " - substring(value FROM ' (.*)')::timestamptz) * 1000)::bigint FROM skerry_fact"
          " WHERE run = $1 AND name = 'leads_since' AND value LIKE $2 || ' %'",
          {store_.run, std::to_string(company.lease.epoch)}));
  if (!since.rows.empty()) company.led_s = static_cast<double>(Number(since.rows[0][0])) * 1e-3;
  SKERRY_ASSIGN_OR_RETURN(company.records, LastNumber());
  SKERRY_ASSIGN_OR_RETURN(
      const auto there,
      Ask("SELECT endpoint, ceil(extract(epoch FROM clock_timestamp() - seen) * 1000)::bigint"
          " FROM skerry_coordinator WHERE run = $1 ORDER BY endpoint",
          {store_.run}));
  for (const auto& row : there.rows) {
    company.coordinators.push_back({row[0], static_cast<double>(Number(row[1])) * 1e-3});
  }
  return company;
}

absl::StatusOr<std::vector<std::string>> PostgresJournal::Endpoints() {
  SKERRY_ASSIGN_OR_RETURN(
      const auto answer,
      Ask("SELECT there.endpoint FROM skerry_coordinator AS there, skerry_run AS lease"
          " WHERE there.run = $1 AND lease.run = $1"
          " ORDER BY there.endpoint <> lease.endpoint, there.endpoint",
          {store_.run}));
  std::vector<std::string> endpoints;
  for (const auto& row : answer.rows) endpoints.push_back(row[0]);
  return endpoints;
}

}  // namespace skerry
