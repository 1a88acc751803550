// Snapshots: state and bytes are each other's, a snapshot and the records after it come to what all
// records come to, and a snapshot that is not of this journal is not used.

#include "coordinator/snapshot.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "coordinator/journal_sqlite.h"
#include "coordinator/snapshot_file.h"
#include "tests/coordinator/full_state.h"
#include "tests/coordinator/scripted_fleet.h"

using namespace skerry;
using skerry::testing::FullState;
using skerry::testing::IsFull;
using skerry::testing::ScriptedFleet;
using skerry::testing::ServedRun;
namespace fs = std::filesystem;

namespace {

const SnapshotMaker kMaker{RunId{{1}}, Digest{{2}}};

RunState FoldOf(const std::vector<std::string>& records, size_t first = 0, RunState state = {}) {
  for (size_t i = first; i < records.size(); ++i) REQUIRE(state.Apply(records[i]).ok());
  return state;
}

std::vector<std::string> JournalOfARun() {
  ServedRun run;
  run.crash_at = 20;
  ScriptedFleet fleet(run, 4);
  fleet.RunToTheEnd(60);
  REQUIRE(run.Fold().exported);
  return run.journal;
}

// A directory with a journal and, of its first records, a snapshot.
class KeptRun {
 public:
  KeptRun(std::vector<std::string> records, size_t in_snapshot) : records_(std::move(records)) {
    std::string name = (fs::temp_directory_path() / "skerry-snapshot-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path_ = name;
    const auto first = records_.begin() + static_cast<std::ptrdiff_t>(in_snapshot);
    Append({records_.begin(), first});
    WriteSnapshot();
    Append({first, records_.end()});
  }
  ~KeptRun() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }

  std::unique_ptr<SqliteJournal> Open(JournalAccess access) const {
    auto journal = SqliteJournal::Open(path_ + "/journal.sqlite", access);
    REQUIRE(journal.ok());
    return *std::move(journal);
  }
  void Append(const std::vector<std::string>& records) const {
    if (records.empty()) return;
    REQUIRE(Open(JournalAccess::kCreate)->Append(records).ok());
  }
  void Rewrite(const std::vector<std::string>& records) const {
    for (const char* part : {"", "-wal", "-shm"}) fs::remove(path_ + "/journal.sqlite" + part);
    Append(records);
  }
  void WriteSnapshot() const {
    const auto folded = Fold();
    REQUIRE(folded.ok());
    REQUIRE(skerry::WriteSnapshot(path_, folded->now, kMaker.run).ok());
  }
  absl::StatusOr<FoldedJournal> Fold(const RunId& run = kMaker.run) const {
    return FoldJournal(*Open(JournalAccess::kReadOnly), path_, run);
  }
  int64_t Since() const {
    return *RecordsSinceSnapshot(*Open(JournalAccess::kReadOnly), path_, kMaker.run);
  }
  // What is folded in spite of a snapshot that cannot be of use, and what is said of it.
  std::string FoldedAnew(const RunId& run = kMaker.run) const {
    const auto folded = Fold(run);
    REQUIRE(folded.ok());
    CHECK(folded->spared == 0);
    CHECK(folded->now.state == FoldOf(*Open(JournalAccess::kReadOnly)->Load()));
    return folded->note;
  }
  std::string file() const { return path_ + "/snapshot"; }

 private:
  std::vector<std::string> records_;
  std::string path_;
};

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("A state of which every field is set is the same after its bytes", "[snapshot]") {
  const Snapshot full{{5, Digest{{9}}}, FullState()};
  REQUIRE(IsFull(full.state));
  const Bytes bytes = PackSnapshot(full, kMaker);
  const auto read = UnpackSnapshot(bytes, kMaker);
  REQUIRE(read.ok());
  CHECK(*read == full);
  CHECK(PackSnapshot(*read, kMaker) == bytes);
  CHECK(*EndOfSnapshot(bytes, kMaker) == full.end);
}

TEST_CASE("A field that is left as it began is noticed", "[snapshot]") {
  RunState state = FullState();
  state.plan->joining[0].from_step = Joiner().from_step;
  CHECK_FALSE(IsFull(state));
}

TEST_CASE("A snapshot cut short, or with a byte changed, is refused", "[snapshot][error]") {
  const Bytes bytes = PackSnapshot({{5, {}}, FullState()}, kMaker);
  for (size_t at = 0; at < bytes.size(); ++at) {
    const Bytes part(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(at));
    CHECK_FALSE(UnpackSnapshot(part, kMaker).ok());
    Bytes changed = bytes;
    changed[at] = static_cast<uint8_t>(changed[at] ^ 0x10);
    CHECK_FALSE(UnpackSnapshot(changed, kMaker).ok());
  }
  CHECK_FALSE(UnpackSnapshot({}, kMaker).ok());
}

TEST_CASE("A snapshot of another run, or by another program, is refused", "[snapshot][error]") {
  const Bytes bytes = PackSnapshot({{5, {}}, FullState()}, kMaker);
  CHECK(absl::IsFailedPrecondition(UnpackSnapshot(bytes, {RunId{{3}}, kMaker.program}).status()));
  CHECK(absl::IsFailedPrecondition(UnpackSnapshot(bytes, {kMaker.run, Digest{{3}}}).status()));
}

// What the digests would not let through: the reader by itself.
TEST_CASE("Bytes that are no state end, and take no more memory than they are", "[snapshot]") {
  StateWriter writer;
  writer.Put(FullState());
  const Bytes bytes = writer.Take();
  int refused = 0;
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (const int value : {0x00, 0x01, 0x7f, 0x80, 0xff}) {
      Bytes changed = bytes;
      changed[at] = static_cast<uint8_t>(value);
      StateReader reader(changed);
      RunState state;
      reader.Get(state);
      if (!reader.ok() || !reader.AtEnd()) {
        ++refused;
        continue;
      }
      // One value, one form.
      StateWriter again;
      again.Put(state);
      CHECK(again.Take() == changed);
    }
  }
  CHECK(refused > 0);
  // 2^60 nodes.
  const Bytes many = {0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x10};
  StateReader reader(many);
  RunState state;
  reader.Get(state);
  CHECK_FALSE(reader.ok());
  CHECK(state == RunState());
}

TEST_CASE("Whole numbers of every size, and their forms", "[snapshot]") {
  for (const int64_t value : {INT64_MIN, int64_t{-65}, int64_t{-64}, int64_t{-1}, int64_t{0},
                              int64_t{63}, int64_t{64}, INT64_MAX}) {
    StateWriter writer;
    writer.Put(value);
    const Bytes bytes = writer.Take();
    StateReader reader(bytes);
    int64_t read = 1;
    reader.Get(read);
    CHECK(reader.ok());
    CHECK(reader.AtEnd());
    CHECK(read == value);
    StateReader narrow(bytes);
    int32_t small = 0;
    narrow.Get(small);
    CHECK(narrow.ok() == (value >= INT32_MIN && value <= INT32_MAX));
  }
  const Bytes longer = {0x81, 0x00},
              beyond = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x03};
  for (const Bytes& bytes : {longer, beyond}) {
    StateReader reader(bytes);
    uint64_t read = 0;
    reader.Get(read);
    CHECK_FALSE(reader.ok());
  }
}

TEST_CASE("At every record of a run, snapshot and tail come to what the journal comes to",
          "[snapshot]") {
  const std::vector<std::string> journal = JournalOfARun();
  const RunState whole = FoldOf(journal);
  RunState state;
  for (size_t cut = 0; cut < journal.size(); ++cut) {
    REQUIRE(state.Apply(journal[cut]).ok());
    const auto read = UnpackSnapshot(PackSnapshot({{1, {}}, state}, kMaker), kMaker);
    REQUIRE(read.ok());
    REQUIRE(read->state == state);
    REQUIRE(FoldOf(journal, cut + 1, read->state) == whole);
  }
}

TEST_CASE("A restart reads what follows the snapshot, and comes to the same", "[snapshot]") {
  const std::vector<std::string> journal = JournalOfARun();
  const size_t half = journal.size() / 2;
  const KeptRun run(journal, half);
  const auto folded = run.Fold();
  REQUIRE(folded.ok());
  CHECK(folded->spared == static_cast<int64_t>(half));
  CHECK(folded->note.empty());
  CHECK(folded->now.state == FoldOf(journal));
  CHECK(folded->now.end.number == static_cast<int64_t>(journal.size()));
  CHECK(run.Since() == static_cast<int64_t>(journal.size() - half));
  struct stat facts {};
  REQUIRE(stat(run.file().c_str(), &facts) == 0);
  CHECK((facts.st_mode & 0777) == 0600);
  // What is appended then belongs to the same chain.
  run.Append({MarkRecord("finished")});
  CHECK(run.Open(JournalAccess::kReadOnly)->Load().ok());
  run.WriteSnapshot();
  CHECK(run.Since() == 0);
  CHECK(run.Fold()->spared == static_cast<int64_t>(journal.size()) + 1);
}

TEST_CASE("Without a snapshot, or with one that is of no use, the journal is read whole",
          "[snapshot][error]") {
  const std::vector<std::string> journal = JournalOfARun();
  const KeptRun run(journal, journal.size() / 2);
  CHECK(Has(run.FoldedAnew(RunId{{7}}), "of run"));
  fs::resize_file(run.file(), fs::file_size(run.file()) - 1);
  CHECK(Has(run.FoldedAnew(), "damaged"));
  std::ofstream(run.file()) << "";
  CHECK(Has(run.FoldedAnew(), "damaged"));
  CHECK(run.Since() == static_cast<int64_t>(journal.size()));
  fs::remove(run.file());
  CHECK(run.FoldedAnew().empty());
}

TEST_CASE("A snapshot of a past that was cut off is not used", "[snapshot][error]") {
  const std::vector<std::string> journal = JournalOfARun();
  const size_t half = journal.size() / 2;
  const KeptRun run(journal, half);
  const auto kept = journal.begin() + static_cast<std::ptrdiff_t>(half) - 2;
  run.Rewrite({journal.begin(), kept});
  CHECK(Has(run.FoldedAnew(), "has no record"));
  CHECK(run.Since() == static_cast<int64_t>(half) - 2);
  // Another history, of the same length.
  run.Append({MarkRecord("finished"), MarkRecord("finished"), MarkRecord("finished")});
  CHECK(Has(run.FoldedAnew(), "has no record"));
}
