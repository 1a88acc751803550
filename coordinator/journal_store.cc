#include "coordinator/journal_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "common/status.h"
#include "coordinator/journal_sqlite.h"

namespace skerry {
namespace {

namespace fs = std::filesystem;

std::string StoreFile(const std::string& directory) {
  return directory + "/store";
}
std::string SqliteFile(const std::string& directory) {
  return directory + "/journal.sqlite";
}

}  // namespace

absl::StatusOr<JournalStore> ParseStore(const std::string& directory, const std::string& url,
                                        const std::string& run) {
  if (url.empty() || url == "sqlite:") return JournalStore{directory, std::nullopt};
  if (url.starts_with("postgresql://") || url.starts_with("postgres://")) {
    SKERRY_RETURN_IF_ERROR(PostgresConnection::Shown(url).status());
    return JournalStore{directory, PostgresStore{url, run}};
  }
  return InvalidArgument(
      "the store is sqlite: or postgresql://user@host/database, not '%s' [SK-store-address]", url);
}

absl::StatusOr<JournalStore> StoreOf(const std::string& directory) {
  std::ifstream in(StoreFile(directory));
  if (!in) {
    if (fs::exists(SqliteFile(directory))) return JournalStore{directory, std::nullopt};
    return NotFound("%s holds no run; make one: skerry-coordinator init %s [SK-run-missing]",
                    directory, directory);
  }
  std::string url, run;
  std::getline(in, url);
  std::getline(in, run);
  SKERRY_ASSIGN_OR_RETURN(JournalStore store, ParseStore(directory, url, run));
  constexpr size_t kRunDigits = 64;
  if (store.postgres && run.size() != kRunDigits) {
    return DataLoss("%s: want the store's URL and the run's id on two lines [SK-journal-damaged]",
                    StoreFile(directory));
  }
  return store;
}

absl::Status SaveStore(const JournalStore& store) {
  if (!store.postgres) return absl::OkStatus();
  const std::string path = StoreFile(store.directory);
  const std::string text = store.postgres->url + "\n" + store.postgres->run + "\n";
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) return Unavailable("%s: cannot be written [SK-disk-write]", path);
  const bool wrote = fchmod(file, 0600) == 0 &&
                     write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                     fsync(file) == 0;
  close(file);
  return wrote ? absl::OkStatus()
               : Unavailable("%s: cannot be written (disk full?) [SK-disk-write]", path);
}

absl::StatusOr<std::unique_ptr<Journal>> OpenJournal(const JournalStore& store,
                                                     JournalAccess access) {
  if (!store.postgres) return SqliteJournal::Open(SqliteFile(store.directory), access);
  return PostgresJournal::Open(*store.postgres, access);
}

std::string NameOf(const JournalStore& store) {
  if (!store.postgres) return SqliteFile(store.directory);
  const auto shown = PostgresConnection::Shown(store.postgres->url);
  return shown.ok() ? *shown : "the store";
}

}  // namespace skerry
