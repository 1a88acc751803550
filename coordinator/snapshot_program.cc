#include "coordinator/snapshot_program.h"

#include <cstdio>
#include <memory>

#include "common/cli_program.h"
#include "common/share_line_program.h"
#include "common/status.h"
#include "coordinator/journal_store.h"
#include "coordinator/log_program.h"
#include "coordinator/run_directory.h"
#include "coordinator/snapshot_file.h"

namespace skerry {
namespace {

// Nothing to say: fewer than `at_least` records came since the last one.
absl::StatusOr<std::string> Compact(const std::string& directory, int64_t at_least,
                                    ShareLine* line = nullptr) {
  SKERRY_ASSIGN_OR_RETURN(const JournalStore store, StoreOf(directory));
  SKERRY_ASSIGN_OR_RETURN(const auto journal, OpenJournal(store, JournalAccess::kReadOnly));
  SKERRY_ASSIGN_OR_RETURN(const RunId run, RunOf(*journal, store));
  SKERRY_ASSIGN_OR_RETURN(const int64_t since, RecordsSinceSnapshot(*journal, directory, run));
  if (since < at_least) return std::string();
  SKERRY_ASSIGN_OR_RETURN(const int64_t records, journal->LastNumber());
  const auto show = [&](int64_t number) {
    if (line != nullptr) line->Show(number, records);
  };
  SKERRY_ASSIGN_OR_RETURN(const FoldedJournal folded, FoldJournal(*journal, directory, run, show));
  if (folded.now.end.number == 0) return std::string("the journal is empty: no snapshot is needed");
  SKERRY_RETURN_IF_ERROR(WriteSnapshot(directory, folded.now, run));
  return absl::StrFormat("%s/snapshot holds the journal's first %d records; %d of them were read",
                         directory, folded.now.end.number, folded.now.end.number - folded.spared);
}

}  // namespace

SnapshotWriter::SnapshotWriter(const std::string& directory, int64_t every) {
  if (every <= 0) return;
  child_.emplace([directory, every] {
    return RunInChild([&] {
      const auto done = Compact(directory, every);
      // A database that is away is the coordinator's to speak of.
      if (!done.ok() && !absl::IsUnavailable(done.status())) {
        LogLine("no snapshot: " + ErrorText(done.status()));
      }
      return done.ok() ? 0 : 1;
    });
  });
}

void AddCompactCommand(CLI::App& app, int* exit_code) {
  auto directory = std::make_shared<std::string>();
  auto* command = app.add_subcommand(
      "compact", "write DIR/snapshot anew, so that a restart is quick; serve does so by itself");
  command->add_option("dir", *directory, "of the run")->required();
  command->callback([directory, exit_code] {
    ShareLine line("reading the journal");
    const auto done = Compact(*directory, 0, &line);
    line.End();
    if (done.ok()) std::printf("%s\n", done->c_str());
    *exit_code = EndedWith("skerry-coordinator", done.status());
  });
}

}  // namespace skerry
