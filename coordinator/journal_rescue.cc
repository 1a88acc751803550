#include "coordinator/journal_rescue.h"

#include <array>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "common/status.h"
#include "coordinator/journal_sqlite.h"

namespace skerry {
namespace {

namespace fs = std::filesystem;

constexpr size_t kRecordsAtOnce = 1000;
constexpr const char* kFacts[] = {"run", "config"};

// As many bytes as its first page says that it has (the file format of SQLite, 1.3): what is
// missing becomes zeros, which SQLite reads up to and then calls damaged.
absl::Status PadToItsPages(const std::string& path) {
  constexpr size_t kHeaderBytes = 100, kPageSizeAt = 16, kPagesAt = 28;
  std::array<char, kHeaderBytes> header{};
  std::ifstream(path, std::ios::binary).read(header.data(), header.size());
  if (!std::string_view(header.data(), header.size()).starts_with("SQLite format 3")) {
    return absl::OkStatus();  // nor does it say how many pages it has
  }
  const auto byte = [&](size_t at) { return static_cast<uint64_t>(uint8_t(header[at])); };
  const uint64_t page = byte(kPageSizeAt) << 8 | byte(kPageSizeAt + 1);
  uint64_t pages = 0;
  for (size_t i = 0; i < 4; ++i) pages = pages << 8 | byte(kPagesAt + i);
  std::error_code error;
  const uint64_t bytes = pages * (page == 1 ? 65536 : page);
  if (fs::file_size(path, error) < bytes && !error) fs::resize_file(path, bytes, error);
  return error ? Unavailable("%s: %s [SK-disk-write]", path, error.message()) : absl::OkStatus();
}

// What SQLite keeps beside a file.
void RemoveLogs(const std::string& path) {
  std::error_code ignored;
  for (const char* part : {"-wal", "-shm"}) fs::remove(path + part, ignored);
}

void Remove(const std::string& path) {
  std::error_code ignored;
  fs::remove(path, ignored);
  RemoveLogs(path);
}

absl::StatusOr<int64_t> CopyWhole(SqliteJournal& from, SqliteJournal& to) {
  for (const char* name : kFacts) {
    SKERRY_ASSIGN_OR_RETURN(const std::string value, from.Fact(name));
    SKERRY_RETURN_IF_ERROR(to.SetFact(name, value));
  }
  int64_t whole = 0;
  absl::Status written;
  std::vector<std::string> batch;
  const auto flush = [&] {
    if (written.ok() && !batch.empty()) written = to.Append(batch);
    batch.clear();
  };
  const absl::Status read = from.Read([&](const std::string& record) {
    ++whole;
    batch.push_back(record);
    if (batch.size() == kRecordsAtOnce) flush();
  });
  if (!read.ok() && !absl::IsDataLoss(read)) return read;
  flush();
  SKERRY_RETURN_IF_ERROR(written);
  return whole;
}

}  // namespace

absl::StatusOr<int64_t> RebuildSqliteJournal(const std::string& path) {
  SKERRY_RETURN_IF_ERROR(PadToItsPages(path));
  const std::string fresh = path + ".mended";
  Remove(fresh);
  SKERRY_ASSIGN_OR_RETURN(auto from, SqliteJournal::Open(path, JournalAccess::kReadOnly));
  SKERRY_ASSIGN_OR_RETURN(auto to, SqliteJournal::Open(fresh, JournalAccess::kCreate));
  const auto whole = CopyWhole(*from, *to);
  from.reset();
  to.reset();  // its write-ahead log is in the file now
  if (!whole.ok()) {
    Remove(fresh);
    return whole;
  }
  RemoveLogs(path);  // else the old log would be read into the new file
  std::error_code error;
  fs::rename(fresh, path, error);
  if (error) return Unavailable("%s: %s [SK-disk-write]", path, error.message());
  return whole;
}

}  // namespace skerry
