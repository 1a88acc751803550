#include "coordinator/journal_sqlite.h"

#include <sqlite3.h>

#include "common/status.h"

namespace skerry {
namespace {

constexpr int kSchemaVersion = 2;

// Owns a prepared statement.
struct Statement {
  ~Statement() { sqlite3_finalize(handle); }
  sqlite3_stmt* handle = nullptr;
};

std::string ColumnText(sqlite3_stmt* statement, int column) {
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement, column));
  return {text == nullptr ? "" : text,
          static_cast<size_t>(sqlite3_column_bytes(statement, column))};
}

}  // namespace

absl::Status SqliteJournal::Error(int code, const std::string& doing) const {
  const std::string what = absl::StrFormat("%s: %s: %s", path_, doing, sqlite3_errmsg(database_));
  switch (code & 0xff) {
    case SQLITE_FULL:
      return ResourceExhausted("%s; make room on the disk, nothing is lost [SK-disk-full]", what);
    case SQLITE_IOERR:
      return Unavailable(
          "%s; see to the disk (full?) and start again, nothing is lost [SK-disk-full]", what);
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
      return Unavailable(
          "%s; the directory must exist and be writable by this user [SK-disk-write]", what);
    case SQLITE_NOTADB:
      return DataLoss("%s; restore the file from a copy [SK-journal-damaged]", what);
    case SQLITE_CORRUPT:
      return DataLoss(
          "%s; restore the file from a copy, or cut it at its last whole record: "
          "skerry-coordinator mend DIR [SK-journal-damaged]",
          what);
    default:
      return Unavailable("%s", what);
  }
}

absl::Status SqliteJournal::Execute(const char* sql) {
  const int code = sqlite3_exec(database_, sql, nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? absl::OkStatus() : Error(code, sql);
}

absl::StatusOr<std::unique_ptr<SqliteJournal>> SqliteJournal::Open(const std::string& path,
                                                                   Access access) {
  sqlite3* database = nullptr;
  int flags = SQLITE_OPEN_READWRITE;
  if (access == Access::kReadOnly) flags = SQLITE_OPEN_READONLY;
  if (access == Access::kCreate) flags |= SQLITE_OPEN_CREATE;
  const int code = sqlite3_open_v2(path.c_str(), &database, flags, nullptr);
  std::unique_ptr<SqliteJournal> journal(new SqliteJournal(database, path));
  if (code != SQLITE_OK) return journal->Error(code, "open");
  sqlite3_busy_timeout(database, 5000);
  if (access != Access::kReadOnly) {
    SKERRY_RETURN_IF_ERROR(journal->Execute("PRAGMA journal_mode=WAL"));
    SKERRY_RETURN_IF_ERROR(journal->Execute("PRAGMA synchronous=FULL"));
  }
  if (access == Access::kCreate) {
    SKERRY_RETURN_IF_ERROR(journal->Execute(
        "BEGIN IMMEDIATE;"
        "CREATE TABLE IF NOT EXISTS record("
        "  number INTEGER PRIMARY KEY, body TEXT NOT NULL, chain TEXT NOT NULL);"
        "CREATE TABLE IF NOT EXISTS fact(name TEXT PRIMARY KEY, value TEXT NOT NULL);"
        "COMMIT"));
    SKERRY_RETURN_IF_ERROR(
        journal->Execute(absl::StrFormat("PRAGMA user_version=%d", kSchemaVersion).c_str()));
  }
  Statement version;
  const int prepared =
      sqlite3_prepare_v2(database, "PRAGMA user_version", -1, &version.handle, nullptr);
  if (prepared != SQLITE_OK) return journal->Error(prepared, "open");
  if (const int step = sqlite3_step(version.handle); step != SQLITE_ROW) {
    return journal->Error(step, "open");
  }
  if (sqlite3_column_int(version.handle, 0) == 0) {  // as of an empty file
    return DataLoss("%s: no journal is in it; restore the file from a copy [SK-journal-damaged]",
                    path);
  }
  if (sqlite3_column_int(version.handle, 0) != kSchemaVersion) {
    return DataLoss("%s: want a journal of schema %d, got %d [SK-journal-version]", path,
                    kSchemaVersion, sqlite3_column_int(version.handle, 0));
  }
  return journal;
}

SqliteJournal::~SqliteJournal() {
  sqlite3_close(database_);
}

absl::Status SqliteJournal::Append(const std::vector<std::string>& records) {
  if (!end_) SKERRY_RETURN_IF_ERROR(Read([](const std::string&) {}));
  SKERRY_RETURN_IF_ERROR(Execute("BEGIN IMMEDIATE"));
  JournalEnd end = *end_;
  Statement insert;
  int code = sqlite3_prepare_v2(database_, "INSERT INTO record VALUES(?, ?, ?)", -1, &insert.handle,
                                nullptr);
  for (size_t i = 0; code == SQLITE_OK && i < records.size(); ++i) {
    end = Extended(end, records[i]);
    const std::string chain = end.chain.Hex();
    sqlite3_bind_int64(insert.handle, 1, end.number);
    sqlite3_bind_text(insert.handle, 2, records[i].data(), static_cast<int>(records[i].size()),
                      SQLITE_STATIC);
    sqlite3_bind_text(insert.handle, 3, chain.data(), static_cast<int>(chain.size()),
                      SQLITE_STATIC);
    code = sqlite3_step(insert.handle) == SQLITE_DONE ? sqlite3_reset(insert.handle)
                                                      : sqlite3_extended_errcode(database_);
  }
  absl::Status status = code == SQLITE_OK ? Execute("COMMIT") : Error(code, "append");
  if (!status.ok()) {
    Execute("ROLLBACK").IgnoreError();
    return status;
  }
  end_ = end;
  return absl::OkStatus();
}

absl::Status SqliteJournal::CheckHas(const JournalEnd& record) {
  Statement select;
  int code = sqlite3_prepare_v2(database_, "SELECT chain FROM record WHERE number = ?", -1,
                                &select.handle, nullptr);
  if (code != SQLITE_OK) return Error(code, "load");
  sqlite3_bind_int64(select.handle, 1, record.number);
  code = sqlite3_step(select.handle);
  if (code != SQLITE_ROW && code != SQLITE_DONE) return Error(code, "load");
  const bool has = code == SQLITE_ROW && ColumnText(select.handle, 0) == record.chain.Hex();
  return has ? absl::OkStatus() : NoSuchRecord(path_, record);
}

absl::StatusOr<JournalEnd> SqliteJournal::ReadAfter(
    const JournalEnd& after, const std::function<void(const std::string&)>& with) {
  const bool is_all = after == JournalEnd();
  if (!is_all) SKERRY_RETURN_IF_ERROR(CheckHas(after));
  // A record before the first is noticed too.
  const std::string sql =
      absl::StrFormat("SELECT number, body, chain FROM record%s ORDER BY number",
                      is_all ? "" : " WHERE number > ?");
  Statement select;
  int code = sqlite3_prepare_v2(database_, sql.c_str(), -1, &select.handle, nullptr);
  if (code != SQLITE_OK) return Error(code, "load");
  if (!is_all) sqlite3_bind_int64(select.handle, 1, after.number);
  JournalEnd end = after;
  while ((code = sqlite3_step(select.handle)) == SQLITE_ROW) {
    const std::string body = ColumnText(select.handle, 1);
    end = Extended(end, body);
    if (sqlite3_column_int64(select.handle, 0) != end.number ||
        ColumnText(select.handle, 2) != end.chain.Hex()) {
      return DamagedRecord(path_, end.number);
    }
    with(body);
  }
  if (code != SQLITE_DONE) return Error(code, "load");
  end_ = end;
  return end;
}

absl::StatusOr<int64_t> SqliteJournal::LastNumber() {
  Statement select;
  int code = sqlite3_prepare_v2(database_, "SELECT coalesce(max(number), 0) FROM record", -1,
                                &select.handle, nullptr);
  if (code != SQLITE_OK) return Error(code, "load");
  code = sqlite3_step(select.handle);
  if (code != SQLITE_ROW) return Error(code, "load");
  return sqlite3_column_int64(select.handle, 0);
}

absl::StatusOr<int64_t> SqliteJournal::CutDamaged() {
  int64_t whole = 0;
  const absl::Status read = Read([&whole](const std::string&) { ++whole; });
  if (read.ok()) return 0;
  if (!absl::IsDataLoss(read)) return read;
  SKERRY_RETURN_IF_ERROR(Execute(
      absl::StrFormat("DELETE FROM record WHERE number > %d OR number < 1", whole).c_str()));
  const int64_t cut = sqlite3_changes64(database_);
  SKERRY_RETURN_IF_ERROR(Read([](const std::string&) {}));
  return cut;
}

absl::Status SqliteJournal::SetFact(const std::string& name, const std::string& value) {
  Statement insert;
  int code = sqlite3_prepare_v2(database_, "INSERT OR REPLACE INTO fact VALUES(?, ?)", -1,
                                &insert.handle, nullptr);
  if (code != SQLITE_OK) return Error(code, "write " + name);
  sqlite3_bind_text(insert.handle, 1, name.data(), static_cast<int>(name.size()), SQLITE_STATIC);
  sqlite3_bind_text(insert.handle, 2, value.data(), static_cast<int>(value.size()), SQLITE_STATIC);
  code = sqlite3_step(insert.handle);
  return code == SQLITE_DONE ? absl::OkStatus() : Error(code, "write " + name);
}

absl::StatusOr<std::string> SqliteJournal::Fact(const std::string& name) {
  Statement select;
  int code = sqlite3_prepare_v2(database_, "SELECT value FROM fact WHERE name = ?", -1,
                                &select.handle, nullptr);
  if (code != SQLITE_OK) return Error(code, "read " + name);
  sqlite3_bind_text(select.handle, 1, name.data(), static_cast<int>(name.size()), SQLITE_STATIC);
  code = sqlite3_step(select.handle);
  if (code == SQLITE_DONE) return NotFound("%s: has no '%s'", path_, name);
  if (code != SQLITE_ROW) return Error(code, "read " + name);
  return ColumnText(select.handle, 0);
}

}  // namespace skerry
