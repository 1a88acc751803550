#include "coordinator/snapshot_program.h"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <memory>
#include <thread>
#include <utility>

#include "common/cli_program.h"
#include "common/share_line_program.h"
#include "common/status.h"
#include "coordinator/journal_store.h"
#include "coordinator/log_program.h"
#include "coordinator/run_directory.h"
#include "coordinator/snapshot_file.h"

namespace skerry {
namespace {

constexpr auto kLookEvery = std::chrono::seconds(5);
constexpr auto kAfterFailure = std::chrono::minutes(5);
constexpr int kLowestPriority = 19;

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

bool DiesWith(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  return getppid() == parent;
}

// Of the process that looks every few seconds: whom it has compact the journal now.
std::atomic<pid_t> compacting{0};

void EndTogether(int) {
  if (const pid_t child = compacting.load(); child > 0) {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
  _exit(0);
}

// In a process of its own, which gives all memory back.
bool CompactInChild(const std::string& directory, int64_t at_least) {
  const pid_t parent = getpid();
  sigset_t ends, before;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigprocmask(SIG_BLOCK, &ends, &before);
  const pid_t child = fork();
  compacting = child;
  if (child == 0) std::signal(SIGTERM, SIG_DFL);
  sigprocmask(SIG_SETMASK, &before, nullptr);
  if (child == 0) {
    if (!DiesWith(parent)) _exit(0);
    const auto done = Compact(directory, at_least);
    // A database that is away is the coordinator's to speak of.
    if (!done.ok() && !absl::IsUnavailable(done.status())) {
      LogLine("no snapshot: " + ErrorText(done.status()));
    }
    _exit(done.ok() ? 0 : 1);
  }
  int status = 0;
  const bool ended = child > 0 && waitpid(child, &status, 0) == child;
  compacting = 0;
  return ended && status == 0;
}

}  // namespace

void SnapshotWriter::Stop() {
  const pid_t child = std::exchange(child_, 0);
  if (child <= 0) return;
  kill(child, SIGTERM);
  kill(child, SIGCONT);  // should somebody have stopped it
  waitpid(child, nullptr, 0);
}

SnapshotWriter::SnapshotWriter(const std::string& directory, int64_t every) {
  if (every <= 0) return;
  std::fflush(nullptr);
  const pid_t parent = getpid();
  child_ = fork();
  if (child_ != 0) return;
  if (!DiesWith(parent)) _exit(0);
  std::signal(SIGINT, SIG_IGN);  // the parent's to answer; this ends with it
  std::signal(SIGTERM, EndTogether);
  setpriority(PRIO_PROCESS, 0, kLowestPriority);
  while (true) {
    std::this_thread::sleep_for(kLookEvery);
    if (!CompactInChild(directory, every)) std::this_thread::sleep_for(kAfterFailure);
  }
}

void AddCompactCommand(CLI::App& app, int* exit_code) {
  auto directory = std::make_shared<std::string>();
  auto* command = app.add_subcommand(
      "compact", "write DIR/snapshot anew, so that a restart is quick; serve does so by itself");
  command->add_option("dir", *directory)->required();
  command->callback([directory, exit_code] {
    ShareLine line("reading the journal");
    const auto done = Compact(*directory, 0, &line);
    line.End();
    if (done.ok()) std::printf("%s\n", done->c_str());
    *exit_code = EndedWith("skerry-coordinator", done.status());
  });
}

}  // namespace skerry
