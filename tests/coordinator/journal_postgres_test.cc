// The journal in PostgreSQL and its lease, against a real server.

#include "coordinator/journal_postgres.h"

#include <libpq-fe.h>

#include <memory>

#include "tests/coordinator/postgres_server.h"

using namespace skerry;
using skerry::testing::PostgresServer;

namespace {

using Access = JournalAccess;

const std::string kRun(64, 'a');

std::unique_ptr<PostgresJournal> MustOpen(const PostgresServer& server, Access access,
                                          LeaseTerms terms = {}) {
  auto journal = PostgresJournal::Open({server.Url(), kRun}, access, terms);
  INFO(journal.status());
  REQUIRE(journal.ok());
  return *std::move(journal);
}

// Ends any lease, as if its time were over.
void EndLease(const PostgresServer& server) {
  server.Ask("UPDATE skerry_run SET expires = '-infinity'");
}

bool Says(const absl::Status& status, const std::string& text) {
  return std::string(status.message()).find(text) != std::string::npos;
}

// A client of the database that is none of ours.
class RawConnection {
 public:
  explicit RawConnection(const std::string& url) : connection_(PQconnectdb(url.c_str())) {}
  ~RawConnection() { PQfinish(connection_); }
  void Do(const char* sql) {
    PGresult* result = PQexec(connection_, sql);
    const ExecStatusType status = PQresultStatus(result);
    PQclear(result);
    REQUIRE((status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK));
  }

 private:
  PGconn* connection_;
};

}  // namespace

TEST_CASE("Postgres: what was appended is loaded, facts are kept, runs do not mix",
          "[journal][postgres]") {
  const PostgresServer server;
  CHECK(absl::IsNotFound(PostgresJournal::Open({server.Url(), kRun}, Access::kWrite).status()));
  const auto journal = MustOpen(server, Access::kCreate);
  CHECK(absl::IsAborted(journal->Append({"too early"})));  // nobody leads
  REQUIRE(journal->TakeLease("one", "tcp://a:1").value() == std::optional<int64_t>(1));
  const std::string binary("zero \0, \\ \"quoted\" and ü", 25);
  REQUIRE(journal->Append({"one", "two"}).ok());
  REQUIRE(journal->Append({}).ok());
  REQUIRE(journal->Append({binary, ""}).ok());
  REQUIRE(journal->SetFact("run", "abc").ok());
  std::vector<std::string> many(1100, "record");  // more than are read at once
  REQUIRE(journal->Append(many).ok());

  const auto reader = MustOpen(server, Access::kReadOnly);
  const auto records = reader->Load();
  REQUIRE(records.ok());
  CHECK(records->size() == 1104);
  CHECK(records->at(2) == binary);
  CHECK(reader->LastNumber().value() == 1104);
  const JournalEnd one = Extended({}, "one");
  std::vector<std::string> after;
  const auto note = [&after](const std::string& record) { after.push_back(record); };
  const auto end = reader->ReadAfter(one, note);
  REQUIRE(end.ok());
  CHECK(end->number == 1104);
  CHECK(after == std::vector<std::string>(records->begin() + 1, records->end()));
  CHECK(absl::IsNotFound(reader->ReadAfter({1, {}}, note).status()));
  CHECK(absl::IsNotFound(reader->ReadAfter({2000, one.chain}, note).status()));
  CHECK(reader->Fact("run").value() == "abc");
  CHECK(absl::IsNotFound(reader->Fact("color").status()));

  auto other = PostgresJournal::Open({server.Url(), std::string(64, 'b')}, Access::kCreate);
  REQUIRE(other.ok());
  CHECK((*other)->Load()->empty());
  REQUIRE((*other)->TakeLease("other", "").value().has_value());
  REQUIRE((*other)->Append({"another run's"}).ok());
  CHECK(reader->Load()->size() == 1104);

  REQUIRE(journal->Announce("tcp://b:1").ok());
  REQUIRE(journal->Announce("tcp://a:1").ok());
  REQUIRE(journal->Announce("tcp://0:1").ok());
  CHECK(reader->Endpoints().value() ==
        std::vector<std::string>{"tcp://a:1", "tcp://0:1", "tcp://b:1"});
  server.Ask("UPDATE skerry_coordinator SET seen = seen - interval '2 hours'");
  REQUIRE(journal->Announce("tcp://a:1").ok());
  CHECK(reader->Endpoints().value() == std::vector<std::string>{"tcp://a:1"});
}

TEST_CASE("Postgres: one leads, who was deposed writes nothing any more", "[journal][postgres]") {
  const PostgresServer server;
  const auto first = MustOpen(server, Access::kCreate);
  const auto second = MustOpen(server, Access::kWrite);
  REQUIRE(first->TakeLease("first", "tcp://a:1").value() == std::optional<int64_t>(1));
  REQUIRE(first->Append({"one"}).ok());
  CHECK(second->TakeLease("second", "tcp://b:1").value() == std::nullopt);
  const auto lease = second->CurrentLease();
  REQUIRE(lease.ok());
  CHECK(lease->epoch == 1);
  CHECK(lease->holder == "first");
  CHECK(lease->IsHeld());

  EndLease(server);
  REQUIRE(first->Append({"two"}).ok());  // nobody took over, and it holds it again
  CHECK(second->TakeLease("second", "tcp://b:1").value() == std::nullopt);

  EndLease(server);
  REQUIRE(second->TakeLease("second", "tcp://b:1").value() == std::optional<int64_t>(2));
  CHECK(absl::IsAborted(first->Append({"of the past"})));
  CHECK(absl::IsAborted(first->RenewLease()));
  REQUIRE(first->ReleaseLease().ok());  // not its own
  CHECK(second->CurrentLease()->IsHeld());
  REQUIRE(second->Append({"three"}).ok());
  CHECK(second->Load().value() == std::vector<std::string>{"one", "two", "three"});
  CHECK(server.Ask("SELECT string_agg(epoch::text, ',' ORDER BY number) FROM skerry_record") ==
        "1,1,2");

  REQUIRE(second->ReleaseLease().ok());
  CHECK(first->TakeLease("first", "tcp://a:1").value() == std::optional<int64_t>(3));
  REQUIRE(first->Append({"four"}).ok());
}

TEST_CASE("Postgres: an append whose answer is lost is made again, and is there once",
          "[journal][postgres]") {
  PostgresServer server;
  const auto journal = MustOpen(server, Access::kCreate);
  REQUIRE(journal->TakeLease("one", "").value().has_value());
  REQUIRE(journal->Append({"one"}).ok());
  SECTION("it was not carried out: the server was away") {
    server.Stop();
    const absl::Status away = journal->Append({"two", "three"});
    CHECK(absl::IsUnavailable(away));
    CHECK(Says(away, "nothing is lost"));
    server.Start();
    REQUIRE(journal->Append({"two", "three"}).ok());
  }
  SECTION("it is still being carried out: the row is locked for longer than it is waited for") {
    RawConnection other(server.Url());
    other.Do("BEGIN");
    other.Do("SELECT * FROM skerry_run FOR UPDATE");
    CHECK(absl::IsUnavailable(journal->Append({"two", "three"})));
    other.Do("COMMIT");
    REQUIRE(journal->Append({"two", "three"}).ok());
  }
  SECTION("it was carried out: another client finds the records there") {
    // The same records with the same chain, as the lost append would have left them.
    const auto twin = MustOpen(server, Access::kWrite);
    EndLease(server);
    REQUIRE(twin->TakeLease("twin", "").value().has_value());
    REQUIRE(twin->Append({"two", "three"}).ok());
    server.Ask("UPDATE skerry_run SET epoch = 1");
    REQUIRE(journal->Append({"two", "three"}).ok());
  }
  CHECK(journal->Load().value() == std::vector<std::string>{"one", "two", "three"});
  REQUIRE(journal->Append({"four"}).ok());
  CHECK(journal->Load()->size() == 4);
}

TEST_CASE("Postgres: a damaged journal is found and cut under a lease, and what is cut is kept",
          "[journal][postgres][error]") {
  const PostgresServer server;
  const auto journal = MustOpen(server, Access::kCreate);
  REQUIRE(journal->TakeLease("one", "").value().has_value());
  REQUIRE(journal->Append({"one", "two", "three", "four"}).ok());
  server.Ask("UPDATE skerry_record SET body = 'thrEe' WHERE number = 3");
  const auto reader = MustOpen(server, Access::kReadOnly);
  const absl::Status damaged = reader->Load().status();
  REQUIRE(absl::IsDataLoss(damaged));
  CHECK(Says(damaged, "record 3"));
  CHECK_FALSE(reader->CutDamaged().ok());  // it does not lead
  CHECK(journal->CutDamaged().value() == 2);
  CHECK(journal->CutDamaged().value() == 0);
  CHECK(server.Ask("SELECT count(*) FROM skerry_damaged") == "2");
  REQUIRE(journal->Append({"drei"}).ok());
  CHECK(reader->Load().value() == std::vector<std::string>{"one", "two", "drei"});
  server.Ask("UPDATE skerry_run SET schema = 99");
  CHECK(absl::IsDataLoss(PostgresJournal::Open({server.Url(), kRun}, Access::kWrite).status()));
}

TEST_CASE("Postgres: a URL is shown without its password", "[journal][postgres]") {
  CHECK(PostgresConnection::Shown("postgresql://me:secret@db.example.org/runs").value() ==
        "postgresql://db.example.org/runs");
  const auto wrong = PostgresConnection::Shown("postgresql://me:secret@db/runs?nonsense=1");
  REQUIRE(absl::IsInvalidArgument(wrong.status()));
  CHECK_FALSE(Says(wrong.status(), "secret"));
}
