#include "coordinator/snapshot_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "common/digest.h"
#include "common/status.h"
#include "model/file_io.h"

namespace skerry {
namespace {

std::string SnapshotFile(const std::string& directory) {
  return directory + "/snapshot";
}

absl::StatusOr<SnapshotMaker> MakerFor(const RunId& run) {
  static const auto program = MappedFile::Open("/proc/self/exe");
  if (!program.ok()) return program.status();
  static const Digest digest = DigestOf((*program)->bytes());
  return SnapshotMaker{run, digest};
}

// NotFound: there is none.
absl::StatusOr<Snapshot> ReadSnapshot(const std::string& directory, const RunId& run) {
  SKERRY_ASSIGN_OR_RETURN(const auto file, MappedFile::Open(SnapshotFile(directory)));
  SKERRY_ASSIGN_OR_RETURN(const SnapshotMaker by, MakerFor(run));
  return UnpackSnapshot(file->bytes(), by);
}

// What follows of the journal.
absl::Status FoldOn(Journal& journal, const std::function<void(int64_t)>& on_record,
                    Snapshot& snapshot) {
  absl::Status applied;
  int64_t number = snapshot.end.number;
  const auto end = journal.ReadAfter(snapshot.end, [&](const std::string& record) {
    ++number;
    if (on_record) on_record(number);
    if (!applied.ok()) return;
    applied = snapshot.state.Apply(record);
    if (!applied.ok()) applied = Annotate(applied, absl::StrFormat("journal record %d", number));
  });
  SKERRY_RETURN_IF_ERROR(end.status());
  snapshot.end = *end;
  return applied;
}

}  // namespace

absl::StatusOr<FoldedJournal> FoldJournal(Journal& journal, const std::string& directory,
                                          const RunId& run,
                                          const std::function<void(int64_t)>& on_record) {
  auto snapshot = ReadSnapshot(directory, run);
  absl::Status used = snapshot.status();
  if (used.ok()) {
    const int64_t spared = snapshot->end.number;
    used = FoldOn(journal, on_record, *snapshot);
    if (used.ok()) return FoldedJournal{*std::move(snapshot), spared, ""};
    // Else the journal has the last word: what is wrong may be with the snapshot.
    if (!absl::IsNotFound(used) && !absl::IsDataLoss(used)) return used;
  }
  FoldedJournal folded;
  if (snapshot.ok() || !absl::IsNotFound(used)) {
    folded.note = absl::StrFormat("%s is not used (%s): the journal is read from its beginning",
                                  SnapshotFile(directory), ErrorText(used));
  }
  snapshot = Snapshot();  // its memory
  SKERRY_RETURN_IF_ERROR(FoldOn(journal, on_record, folded.now));
  return folded;
}

absl::Status WriteSnapshot(const std::string& directory, const Snapshot& snapshot,
                           const RunId& run) {
  SKERRY_ASSIGN_OR_RETURN(const SnapshotMaker by, MakerFor(run));
  const Bytes bytes = PackSnapshot(snapshot, by);
  const int lock = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock < 0 || flock(lock, LOCK_EX) != 0) {
    close(lock);
    return Unavailable("%s: cannot be locked", directory);
  }
  const mode_t before = umask(0077);
  const absl::Status written = [&] {
    SKERRY_ASSIGN_OR_RETURN(const auto file, AtomicFile::Create(SnapshotFile(directory)));
    SKERRY_RETURN_IF_ERROR(file->Write(bytes));
    return file->Commit();
  }();
  umask(before);
  close(lock);
  return written;
}

absl::StatusOr<int64_t> RecordsSinceSnapshot(Journal& journal, const std::string& directory,
                                             const RunId& run) {
  SKERRY_ASSIGN_OR_RETURN(const int64_t last, journal.LastNumber());
  const auto file = MappedFile::Open(SnapshotFile(directory));
  if (!file.ok()) return last;
  SKERRY_ASSIGN_OR_RETURN(const SnapshotMaker by, MakerFor(run));
  const auto end = EndOfSnapshot((*file)->bytes(), by);
  return end.ok() && end->number <= last ? last - end->number : last;
}

}  // namespace skerry
