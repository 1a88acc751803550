#include "coordinator/run_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_join.h"
#include "common/share_line_program.h"
#include "common/status.h"
#include "coordinator/changed_config_program.h"
#include "coordinator/checkpoint_program.h"
#include "coordinator/journal_rescue.h"
#include "coordinator/journal_store.h"
#include "coordinator/record_json.h"
#include "coordinator/snapshot_file.h"
#include "model/file_io.h"
#include "wire/config.h"
#include "wire/ticket.h"

namespace skerry {
namespace {

namespace fs = std::filesystem;

// A run that begins with a checkpoint says so in its journal when it is made; what that record says
// of it must hold still. Otherwise its configuration is fixed by the first record.
absl::Status MayStillChange(const std::string& path, Journal& journal, const RunConfig& config) {
  const std::string file = RunDirectory{path}.File("run.toml");
  SKERRY_ASSIGN_OR_RETURN(const int64_t records, journal.LastNumber());
  if (records == 0) return absl::OkStatus();
  RunState state;
  if (records == 1) {
    SKERRY_RETURN_IF_ERROR(
        journal.Read([&](const std::string& record) { state.Apply(record).IgnoreError(); }));
  }
  if (!state.resumed || state.checkpoints.size() != 1) {
    SKERRY_ASSIGN_OR_RETURN(const std::string began_with, journal.Fact("config"));
    std::ifstream events(RunDirectory{path}.File("events.jsonl"));
    const std::string changed = WhatChanged(events, began_with, config);
    return FailedPrecondition(
        "%s was changed after the run began: its journal has records of another configuration%s; "
        "change it back, or make another run: skerry-coordinator init NEW --from %s --config FILE "
        "goes on from its newest checkpoint [SK-run-changed]",
        file, changed.empty() ? "" : " (" + changed + ")", path);
  }
  const CheckpointRecord& begun = state.checkpoints.begin()->second;
  SKERRY_ASSIGN_OR_RETURN(const Checkpoint with, ChooseCheckpoint(path, begun.generation));
  const auto record = RecordFor(with, config);
  if (!record.ok()) return Annotate(record.status(), file);
  if (*record == begun) return absl::OkStatus();
  return FailedPrecondition(
      "%s was changed: with these rounds the checkpoint that the run begins with is of version "
      "%d, its journal says %d; change [outer] back, or make the run again with "
      "skerry-coordinator init --from and --config [SK-run-changed]",
      file, record->round, begun.round);
}

}  // namespace

absl::StatusOr<RunId> RunOf(Journal& journal, const JournalStore& store) {
  SKERRY_ASSIGN_OR_RETURN(const std::string hex, journal.Fact("run"));
  const auto run = ParseId<RunId>(hex);
  if (!run) return DataLoss("%s: the run's id is damaged [SK-journal-damaged]", NameOf(store));
  return *run;
}

absl::StatusOr<OpenedRun> OpenRunDirectory(const std::string& path) {
  const RunDirectory directory{path};
  SKERRY_ASSIGN_OR_RETURN(JournalStore store, StoreOf(path));
  SKERRY_ASSIGN_OR_RETURN(RunConfig config, LoadRunConfig(directory.File("run.toml")));
  SKERRY_ASSIGN_OR_RETURN(auto journal, OpenJournal(store, JournalAccess::kReadOnly));
  SKERRY_ASSIGN_OR_RETURN(const RunId run, RunOf(*journal, store));
  SKERRY_ASSIGN_OR_RETURN(const std::string config_hex, journal->Fact("config"));
  const bool was_changed = config_hex != ConfigDigest(config).Hex();
  if (was_changed) SKERRY_RETURN_IF_ERROR(MayStillChange(path, *journal, config));
  return OpenedRun{directory, run, std::move(config), std::move(store), was_changed};
}

absl::StatusOr<RunState> LoadRunState(const RunDirectory& directory) {
  SKERRY_ASSIGN_OR_RETURN(const JournalStore store, StoreOf(directory.path));
  SKERRY_ASSIGN_OR_RETURN(auto journal, OpenJournal(store, JournalAccess::kReadOnly));
  SKERRY_ASSIGN_OR_RETURN(const RunId run, RunOf(*journal, store));
  const auto records = journal->LastNumber();  // of a damaged one perhaps none
  ShareLine line("reading the journal");
  auto folded = FoldJournal(*journal, directory.path, run,
                            [&](int64_t number) { line.Show(number, records.value_or(0)); });
  // What the journal says of itself begins with its name already.
  if (!folded.ok() && ErrorText(folded.status()).starts_with(NameOf(store))) return folded.status();
  if (!folded.ok()) return Annotate(folded.status(), NameOf(store));
  return std::move(folded->now.state);
}

absl::Status ReadJournal(const RunDirectory& directory,
                         const std::function<void(const std::string&)>& with) {
  SKERRY_ASSIGN_OR_RETURN(const JournalStore store, StoreOf(directory.path));
  SKERRY_ASSIGN_OR_RETURN(auto journal, OpenJournal(store, JournalAccess::kReadOnly));
  const auto records = journal->LastNumber();  // of a damaged one perhaps none
  ShareLine line("reading the journal");
  int64_t number = 0;
  return journal->Read([&](const std::string& record) {
    line.Show(++number, records.value_or(0));
    with(record);
  });
}

namespace {

// The file as it was is kept, under a name that no earlier one has; its write-ahead log too:
// without it the copy is not what was damaged.
absl::StatusOr<std::string> KeepDamagedFile(const std::string& file) {
  std::string kept = file + ".damaged";
  for (int i = 2; fs::exists(kept); ++i) kept = absl::StrFormat("%s.damaged-%d", file, i);
  std::error_code error;
  for (const char* part : {"", "-wal"}) {
    if (!fs::exists(file + part)) continue;
    fs::copy_file(file + part, kept + part, error);
    if (error) return Unavailable("%s: %s [SK-disk-write]", kept, error.message());
  }
  return kept;
}

// Where SQLite can still change the file, it is cut in place. `whole` is set where it cannot.
absl::StatusOr<int64_t> CutFile(const JournalStore& store, const std::string& file,
                                int64_t* whole) {
  {
    const auto journal = OpenJournal(store, JournalAccess::kWrite);
    const auto cut = journal.ok() ? (*journal)->CutDamaged() : journal.status();
    if (cut.ok() || !absl::IsDataLoss(cut.status())) return cut;
  }
  SKERRY_ASSIGN_OR_RETURN(*whole, RebuildSqliteJournal(file));
  return -1;
}

absl::Status LeadToMend(PostgresJournal& journal) {
  SKERRY_ASSIGN_OR_RETURN(const auto epoch, journal.TakeLease("mend", ""));
  if (epoch) return absl::OkStatus();
  SKERRY_ASSIGN_OR_RETURN(const auto lease, journal.CurrentLease());
  return FailedPrecondition("%s: %s leads the run; end it first [SK-run-served]", journal.name(),
                            lease.holder);
}

}  // namespace

absl::StatusOr<std::string> MendJournal(const std::string& path) {
  const RunDirectory directory{path};
  SKERRY_ASSIGN_OR_RETURN(const JournalStore store, StoreOf(path));
  SKERRY_RETURN_IF_ERROR(LockRunDirectory(directory));
  int64_t whole = 0;
  const absl::Status before = ReadJournal(directory, [&](const std::string&) { ++whole; });
  if (before.ok()) return absl::StrFormat("the journal's %d records are whole", whole);
  if (!absl::IsDataLoss(before)) return before;
  std::string kept = "the table skerry_damaged";
  int64_t cut = -1;
  if (store.postgres) {
    SKERRY_ASSIGN_OR_RETURN(const auto journal, OpenJournal(store, JournalAccess::kWrite));
    auto& shared = dynamic_cast<PostgresJournal&>(*journal);
    SKERRY_RETURN_IF_ERROR(LeadToMend(shared));
    SKERRY_ASSIGN_OR_RETURN(cut, journal->CutDamaged());
    SKERRY_RETURN_IF_ERROR(shared.ReleaseLease());
  } else {
    const std::string file = directory.File("journal.sqlite");
    SKERRY_ASSIGN_OR_RETURN(kept, KeepDamagedFile(file));
    SKERRY_ASSIGN_OR_RETURN(cut, CutFile(store, file, &whole));
  }
  std::error_code ignored;
  fs::remove(directory.File("snapshot"), ignored);  // perhaps of what was cut
  return absl::StrFormat(
      "%s\nthe journal ends with record %d now; %s in %s\nnodes that run know more than it does: "
      "end "
      "them before you serve again",
      ErrorText(before), whole,
      cut < 0 ? "what came after it is cut, and still"
              : absl::StrFormat("%d records were cut, and are still", cut),
      kept);
}

namespace {

// Of all coordinators, as they announced themselves.
absl::StatusOr<std::string> AnnouncedEndpoints(const JournalStore& store) {
  SKERRY_ASSIGN_OR_RETURN(const auto journal,
                          PostgresJournal::Open(*store.postgres, JournalAccess::kReadOnly));
  SKERRY_ASSIGN_OR_RETURN(const auto endpoints, journal->Endpoints());
  return absl::StrJoin(endpoints, ",");
}

}  // namespace

absl::StatusOr<std::string> NoteEndpoint(const OpenedRun& run, const std::string& endpoint) {
  const std::string file = run.directory.File("endpoint");
  std::string before;
  std::ifstream in(file);
  std::getline(in, before);
  SKERRY_RETURN_IF_ERROR(WriteFileAtomically(file, endpoint + "\n"));
  if (before.empty() || before == endpoint || run.store.postgres) return std::string();
  return absl::StrFormat(
      "note: this run was served at %s, and its nodes and tickets look for it there only; serve it "
      "there (--bind, --advertise), or have each node join by a new ticket",
      before);
}

absl::StatusOr<std::string> EndpointForTickets(const RunDirectory& directory,
                                               const std::string& advertised) {
  std::string endpoint = advertised;
  SKERRY_ASSIGN_OR_RETURN(const JournalStore store, StoreOf(directory.path));
  if (endpoint.empty() && store.postgres) {
    SKERRY_ASSIGN_OR_RETURN(endpoint, AnnouncedEndpoints(store));
  } else if (endpoint.empty()) {
    std::ifstream in(directory.File("endpoint"));
    std::getline(in, endpoint);
  }
  if (endpoint.empty()) {
    return FailedPrecondition(
        "nobody has served %s yet, so where nodes reach it is not known; give --advertise "
        "tcp://HOST:7700, or start: skerry-coordinator serve %s [SK-ticket-address]",
        directory.path, directory.path);
  }
  SKERRY_RETURN_IF_ERROR(CheckNamesMachine(endpoint));
  return endpoint;
}

absl::Status LockRunDirectory(const RunDirectory& directory) {
  const std::string path = directory.File("lock");
  const int lock = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock < 0) return Unavailable("%s: cannot be written [SK-disk-write]", path);
  if (flock(lock, LOCK_EX | LOCK_NB) != 0) {
    close(lock);
    std::ifstream in(path);
    std::string holder;
    std::getline(in, holder);
    return FailedPrecondition("%s is served already by process %s [SK-run-served]", directory.path,
                              holder);
  }
  const std::string pid = std::to_string(getpid()) + "\n";
  if (ftruncate(lock, 0) != 0 || write(lock, pid.data(), pid.size()) < 0) {
    return Unavailable("%s: cannot be written (disk full?) [SK-disk-write]", path);
  }
  return absl::OkStatus();  // the descriptor, and so the lock, lives as long as the process
}

}  // namespace skerry
