// The journal on disk: what is appended is there, what cannot be written leaves it as it was, and
// what is damaged is said to be.

#include "coordinator/journal_sqlite.h"

#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "coordinator/journal_rescue.h"

using namespace skerry;
namespace fs = std::filesystem;

namespace {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = (fs::temp_directory_path() / "skerry-journal-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  std::string File(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

using Access = SqliteJournal::Access;

std::unique_ptr<SqliteJournal> MustOpen(const std::string& path, Access access) {
  auto journal = SqliteJournal::Open(path, access);
  INFO(std::string(journal.status().message()));
  REQUIRE(journal.ok());
  return *std::move(journal);
}

std::vector<std::string> MustLoad(const std::string& path) {
  auto records = MustOpen(path, Access::kReadOnly)->Load();
  REQUIRE(records.ok());
  return *std::move(records);
}

bool Says(const absl::Status& status, const std::string& text) {
  return std::string(status.message()).find(text) != std::string::npos;
}

// Effects of root's rights on file modes would make the test pass for the wrong reason.
class WithoutRoot {
 public:
  WithoutRoot() : was_root_(geteuid() == 0) {
    if (was_root_) REQUIRE(seteuid(65534) == 0);
  }
  ~WithoutRoot() {
    if (was_root_ && seteuid(0) != 0) std::abort();
  }

 private:
  bool was_root_;
};

// No file of this process may grow beyond `bytes`: a disk that is full.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) {
    old_handler_ = std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old_);
    const rlimit limit{bytes, old_.rlim_max};
    REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
  }
  ~FullDisk() {
    setrlimit(RLIMIT_FSIZE, &old_);
    std::signal(SIGXFSZ, old_handler_);
  }

 private:
  rlimit old_{};
  void (*old_handler_)(int) = nullptr;
};

}  // namespace

TEST_CASE("What was appended is loaded, in order, by another process too", "[journal]") {
  const TemporaryDirectory directory;
  const std::string path = directory.File("journal.sqlite");
  const std::string binary("zero \0 and ü", 12);
  {
    auto journal = MustOpen(path, Access::kCreate);
    REQUIRE(journal->SetFact("run", "abc").ok());
    REQUIRE(journal->Append({"one", "two"}).ok());
    REQUIRE(journal->Append({}).ok());
    REQUIRE(journal->Append({binary}).ok());
    CHECK(MustLoad(path).size() == 3);  // while the writer is open
  }
  CHECK(MustLoad(path) == std::vector<std::string>{"one", "two", binary});
  auto journal = MustOpen(path, Access::kWrite);
  CHECK(journal->Fact("run").value() == "abc");
  CHECK(absl::IsNotFound(journal->Fact("color").status()));
  REQUIRE(journal->Append({"four"}).ok());
  CHECK(MustLoad(path).size() == 4);
}

TEST_CASE("A journal is read on from a record that it has, and from no other", "[journal]") {
  const TemporaryDirectory directory;
  const std::string path = directory.File("journal.sqlite");
  const auto writer = MustOpen(path, Access::kCreate);
  CHECK(writer->LastNumber().value() == 0);
  REQUIRE(writer->Append({"one", "two", "three"}).ok());
  CHECK(writer->LastNumber().value() == 3);

  const JournalEnd two = Extended(Extended({}, "one"), "two");
  const auto journal = MustOpen(path, Access::kWrite);
  std::vector<std::string> read;
  const auto note = [&read](const std::string& record) { read.push_back(record); };
  const auto end = journal->ReadAfter(two, note);
  REQUIRE(end.ok());
  CHECK(read == std::vector<std::string>{"three"});
  CHECK(*end == Extended(two, "three"));
  // Whoever read the end only goes on with the same chain.
  REQUIRE(journal->Append({"four"}).ok());
  CHECK(MustLoad(path).size() == 4);
  CHECK(journal->ReadAfter(Extended(*end, "four"), note).ok());
  CHECK(read.size() == 1);

  for (const JournalEnd& other :
       {Extended(Extended({}, "one"), "tvo"), JournalEnd{9, two.chain}, JournalEnd{0, two.chain}}) {
    CHECK(absl::IsNotFound(journal->ReadAfter(other, note).status()));
  }
  CHECK(read.size() == 1);
}

TEST_CASE("A journal that is not there is not made by reading or serving", "[journal][error]") {
  const TemporaryDirectory directory;
  const auto access = GENERATE(Access::kReadOnly, Access::kWrite);
  const auto opened = SqliteJournal::Open(directory.File("journal.sqlite"), access);
  REQUIRE(absl::IsUnavailable(opened.status()));
  CHECK(Says(opened.status(), "must exist and be writable"));
  CHECK(fs::is_empty(directory.path()));
}

TEST_CASE("In a directory that may not be written the error says so, and nothing is lost",
          "[journal][error]") {
  const TemporaryDirectory directory;
  const std::string path = directory.File("journal.sqlite");
  REQUIRE(MustOpen(path, Access::kCreate)->Append({"one"}).ok());
  REQUIRE(chmod(path.c_str(), 0444) == 0);
  REQUIRE(chmod(directory.path().c_str(), 0555) == 0);
  {
    const WithoutRoot user;
    auto journal = SqliteJournal::Open(path, Access::kWrite);
    absl::Status status = journal.status();
    if (journal.ok()) status = (*journal)->Append({"two"});
    REQUIRE(absl::IsUnavailable(status));
    CHECK(Says(status, "writable"));
    CHECK_FALSE(SqliteJournal::Open(directory.File("other.sqlite"), Access::kCreate).ok());
  }
  REQUIRE(chmod(directory.path().c_str(), 0755) == 0);
  REQUIRE(chmod(path.c_str(), 0644) == 0);
  CHECK(MustLoad(path) == std::vector<std::string>{"one"});
}

TEST_CASE("On a full disk an append fails whole, and what was there stays", "[journal][error]") {
  const TemporaryDirectory directory;
  const std::string path = directory.File("journal.sqlite");
  auto journal = MustOpen(path, Access::kCreate);
  REQUIRE(journal->Append({"one"}).ok());
  {
    const FullDisk full(128 << 10);
    const std::vector<std::string> batch(64, std::string(16 << 10, 'x'));
    const absl::Status status = journal->Append(batch);
    REQUIRE(absl::IsUnavailable(status));
    CHECK(Says(status, "disk"));
  }
  CHECK(journal->Load().value() == std::vector<std::string>{"one"});
  REQUIRE(journal->Append({"two"}).ok());
  journal.reset();
  CHECK(MustLoad(path) == std::vector<std::string>{"one", "two"});
}

TEST_CASE("A damaged journal is cut at its last whole record, and goes on from there",
          "[journal][error]") {
  const TemporaryDirectory directory;
  const std::string path = directory.File("journal.sqlite");
  REQUIRE(MustOpen(path, Access::kCreate)->Append({"one", "two", "three", "four"}).ok());
  sqlite3* raw = nullptr;
  REQUIRE(sqlite3_open(path.c_str(), &raw) == SQLITE_OK);
  const char* damage = GENERATE("UPDATE record SET body = 'thrEe' WHERE number = 3",
                                "DELETE FROM record WHERE number = 3",
                                "UPDATE record SET chain = '00' WHERE number = 3");
  REQUIRE(sqlite3_exec(raw, damage, nullptr, nullptr, nullptr) == SQLITE_OK);
  sqlite3_close(raw);
  {
    auto journal = MustOpen(path, Access::kWrite);
    std::vector<std::string> before_it;
    const absl::Status status =
        journal->Read([&](const std::string& record) { before_it.push_back(record); });
    REQUIRE(absl::IsDataLoss(status));
    CHECK(Says(status, "record 3"));
    CHECK(before_it == std::vector<std::string>{"one", "two"});
    CHECK(journal->CutDamaged().value() >= 1);
    CHECK(journal->CutDamaged().value() == 0);
    REQUIRE(journal->Append({"drei"}).ok());
  }
  CHECK(MustLoad(path) == std::vector<std::string>{"one", "two", "drei"});
}

TEST_CASE("Of a journal that lost pages the records before them are put into a new one",
          "[journal][error]") {
  const TemporaryDirectory directory;
  const std::string path = directory.File("journal.sqlite");
  std::vector<std::string> all;
  for (int i = 0; i < 500; ++i) all.push_back(std::to_string(i) + std::string(1000, 'r'));
  {
    auto journal = MustOpen(path, Access::kCreate);
    REQUIRE(journal->SetFact("run", "aa").ok());
    REQUIRE(journal->SetFact("config", "bb").ok());
    REQUIRE(journal->Append(all).ok());
  }
  const auto size = fs::file_size(path);
  constexpr uintmax_t kPage = 4096;
  const auto middle = size / 2 / kPage * kPage;
  const std::string how = GENERATE("cut short", "a page of zeros", "its last page is gone");
  INFO(how);
  if (how == "cut short") fs::resize_file(path, middle + 100);
  if (how == "its last page is gone") fs::resize_file(path, size - kPage);
  if (how == "a page of zeros") {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(middle));
    file << std::string(kPage, '\0');
  }

  const auto whole = RebuildSqliteJournal(path);

  INFO(whole.status());
  REQUIRE(whole.ok());
  CHECK(*whole > 100);
  REQUIRE(*whole < 500);
  all.resize(static_cast<size_t>(*whole));
  CHECK(MustLoad(path) == all);
  auto journal = MustOpen(path, Access::kWrite);
  CHECK(journal->Fact("run").value() == "aa");
  CHECK(journal->Fact("config").value() == "bb");
  CHECK(journal->Append({"more"}).ok());
  CHECK_FALSE(fs::exists(path + ".mended"));
}

TEST_CASE("A file that is not a journal is refused", "[journal][error]") {
  const TemporaryDirectory directory;
  const std::string path = directory.File("journal.sqlite");
  const std::string content = GENERATE(std::string(), std::string("not a database, but long enough "
                                                                  "to have a header ") +
                                                          std::string(4096, '.'));
  std::ofstream(path) << content;
  const auto opened = SqliteJournal::Open(path, Access::kWrite);
  REQUIRE(absl::IsDataLoss(opened.status()));
}

TEST_CASE("A journal of another schema is refused, not misread", "[journal][error]") {
  const TemporaryDirectory directory;
  const std::string path = directory.File("journal.sqlite");
  MustOpen(path, Access::kCreate).reset();
  sqlite3* raw = nullptr;
  REQUIRE(sqlite3_open(path.c_str(), &raw) == SQLITE_OK);
  REQUIRE(sqlite3_exec(raw, "PRAGMA user_version=99", nullptr, nullptr, nullptr) == SQLITE_OK);
  sqlite3_close(raw);
  const auto opened = SqliteJournal::Open(path, Access::kWrite);
  REQUIRE(absl::IsDataLoss(opened.status()));
  CHECK(Says(opened.status(), "got 99"));
}

TEST_CASE("A journal cut short is said to be damaged", "[journal][error]") {
  const TemporaryDirectory directory;
  const std::string path = directory.File("journal.sqlite");
  REQUIRE(MustOpen(path, Access::kCreate)
              ->Append(std::vector<std::string>(200, std::string(1000, 'r')))
              .ok());
  const auto size = fs::file_size(path);
  REQUIRE(size > 100'000);
  fs::resize_file(path, GENERATE_COPY(size / 2, size / 2 + 100, uintmax_t{5000}));
  auto opened = SqliteJournal::Open(path, Access::kWrite);
  const absl::Status status = opened.ok() ? (*opened)->Load().status() : opened.status();
  CHECK(absl::IsDataLoss(status));
}

TEST_CASE("A record changed or removed behind the journal's back is found by its number",
          "[journal][error]") {
  const TemporaryDirectory directory;
  const std::string path = directory.File("journal.sqlite");
  REQUIRE(MustOpen(path, Access::kCreate)->Append({"one", "two", "three"}).ok());
  const char* change = GENERATE("UPDATE record SET body = 'tvo' WHERE number = 2",
                                "DELETE FROM record WHERE number = 2");
  sqlite3* raw = nullptr;
  REQUIRE(sqlite3_open(path.c_str(), &raw) == SQLITE_OK);
  REQUIRE(sqlite3_exec(raw, change, nullptr, nullptr, nullptr) == SQLITE_OK);
  sqlite3_close(raw);
  const auto records = MustOpen(path, Access::kWrite)->Load();
  REQUIRE(absl::IsDataLoss(records.status()));
  CHECK(Says(records.status(), "record 2"));
}
