#include "coordinator/run_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/share_line_program.h"
#include "common/status.h"
#include "coordinator/checkpoint_program.h"
#include "coordinator/data_program.h"
#include "coordinator/import_program.h"
#include "coordinator/journal_store.h"
#include "coordinator/record_json.h"
#include "coordinator/run_templates.h"
#include "coordinator/snapshot_file.h"
#include "model/file_io.h"
#include "model/text_tokenizer.h"
#include "wire/config.h"
#include "wire/identity.h"

namespace skerry {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kConfigBytesMax = 1 << 20;

absl::Status LinkShards(const std::string& from, const std::string& to) {
  std::error_code error;
  fs::create_directories(to, error);
  for (const auto& entry : fs::directory_iterator(from, error)) {
    const fs::path target = fs::path(to) / entry.path().filename();
    fs::create_hard_link(entry.path(), target, error);
    if (error) {
      error.clear();  // another file system: copy
      fs::copy_file(entry.path(), target, error);
    }
    if (error) break;
  }
  return error ? Unavailable("%s → %s: %s", from, to, error.message()) : absl::OkStatus();
}

}  // namespace

namespace {

absl::Status MustBeFree(const RunDirectory& directory) {
  if (!StoreOf(directory.path).ok()) return MakeDirectory(directory.path);
  return AlreadyExists("%s holds a run already; choose another directory [SK-run-exists]",
                       directory.path);
}

// Checkpoints on a disk that survives this machine, or that another coordinator shares.
absl::Status PlaceCheckpoints(const RunDirectory& directory, const std::string& place) {
  if (place.empty()) return absl::OkStatus();
  std::error_code error;
  // Of an `init` that did not come to its end.
  if (fs::is_symlink(directory.File("checkpoints")))
    fs::remove(directory.File("checkpoints"), error);
  fs::create_directories(place, error);
  if (!error)
    fs::create_directory_symlink(fs::absolute(place), directory.File("checkpoints"), error);
  return error ? Unavailable("%s: %s", place, error.message()) : absl::OkStatus();
}

// What makes a directory the standby of another's run. The store comes last: then it is complete.
absl::Status InitStandby(const InitOptions& options) {
  const RunDirectory directory{options.directory}, leader{options.standby_of};
  SKERRY_ASSIGN_OR_RETURN(JournalStore store, StoreOf(leader.path));
  if (!store.postgres) {
    return FailedPrecondition(
        "%s keeps its journal in a file of its own, so nobody can stand by for it; that needs a "
        "run "
        "made with init --store postgresql://… [SK-store-standby]",
        leader.path);
  }
  SKERRY_RETURN_IF_ERROR(MustBeFree(directory));
  std::error_code error;
  for (const char* file : {"coordinator.key", "run.toml"}) {
    fs::copy_file(leader.File(file), directory.File(file), error);
    if (error) return Unavailable("%s: %s", leader.File(file), error.message());
  }
  if (fs::exists(leader.File("data"))) {
    SKERRY_RETURN_IF_ERROR(LinkShards(leader.File("data"), directory.File("data")));
  }
  std::string place = options.checkpoints;
  if (place.empty() && fs::is_symlink(leader.File("checkpoints"))) {
    place = fs::read_symlink(leader.File("checkpoints"), error).string();
  }
  SKERRY_RETURN_IF_ERROR(PlaceCheckpoints(directory, place));
  store.directory = directory.path;
  return SaveStore(store);
}

// The first records of a journal in PostgreSQL are written under a lease as all others are.
absl::Status BeginJournal(const JournalStore& store, const RunConfig& config, const RunId& run,
                          const std::vector<std::string>& records) {
  SKERRY_ASSIGN_OR_RETURN(const auto journal, OpenJournal(store, JournalAccess::kCreate));
  SKERRY_RETURN_IF_ERROR(journal->SetFact("config", ConfigDigest(config).Hex()));
  auto* shared = dynamic_cast<PostgresJournal*>(journal.get());
  if (shared != nullptr) SKERRY_RETURN_IF_ERROR(shared->TakeLease("init", "").status());
  if (!records.empty()) SKERRY_RETURN_IF_ERROR(journal->Append(records));
  if (shared != nullptr) SKERRY_RETURN_IF_ERROR(shared->ReleaseLease());
  SKERRY_RETURN_IF_ERROR(journal->SetFact("run", run.Hex()));
  return SaveStore(store);
}

// What a run begins with: a configuration, and with a checkpoint the record that says so.
struct Beginning {
  RunConfig config;
  std::vector<std::string> records;
  bool has_data = false;  // in options.from
  std::string about;      // of the configuration, for people
};

std::string AsComment(const std::string& lines) {
  std::string comment;
  for (const auto line : absl::StrSplit(lines, '\n', absl::SkipEmpty())) {
    comment += absl::StrFormat("# %s\n", line);
  }
  return comment;
}

absl::StatusOr<Beginning> BeginWithRun(const InitOptions& options) {
  Beginning begin;
  begin.has_data = true;
  SKERRY_ASSIGN_OR_RETURN(const Checkpoint with,
                          ChooseCheckpoint(options.from, options.generation));
  SKERRY_ASSIGN_OR_RETURN(begin.config, options.config_file.empty()
                                            ? ParseRunConfig(with.config, "the checkpoint")
                                            : LoadRunConfig(options.config_file));
  SKERRY_ASSIGN_OR_RETURN(const CheckpointRecord record, RecordFor(with, begin.config));
  SKERRY_RETURN_IF_ERROR(CopyCheckpoint(with, options.from, options.directory));
  const std::string tokenizer = TokenizerOf(options.from);
  if (!tokenizer.empty()) {
    SKERRY_RETURN_IF_ERROR(LinkShards(tokenizer, options.directory + "/tokenizer"));
  }
  begin.records.push_back(ResumedRecord(record, with.run));
  return begin;
}

absl::StatusOr<Beginning> BeginWithModel(const InitOptions& options) {
  Beginning begin;
  if (options.config_file.empty()) {
    SKERRY_ASSIGN_OR_RETURN(begin.config, ConfigForModel(options.from));
  } else {
    SKERRY_ASSIGN_OR_RETURN(const RunConfig wished, LoadRunConfig(options.config_file));
    SKERRY_ASSIGN_OR_RETURN(begin.config, ConfigForModel(options.from, wished));
  }
  SKERRY_ASSIGN_OR_RETURN(const Checkpoint with,
                          ImportModel(options.from, options.directory, begin.config));
  SKERRY_ASSIGN_OR_RETURN(const CheckpointRecord record, RecordFor(with, begin.config));
  begin.records.push_back(ResumedRecord(record, with.run));
  return begin;
}

absl::StatusOr<Beginning> BeginAfresh(const InitOptions& options) {
  Beginning begin;
  begin.config.outer.overlap_steps = -1;  // the planner will have measured the links
  begin.config.checkpoint = kInitialCheckpoints;
  if (!options.template_name.empty()) {
    SKERRY_ASSIGN_OR_RETURN(const auto tokenizer, OpenTokenizer(options.tokenizer));
    SKERRY_ASSIGN_OR_RETURN(begin.config, TemplateNamed(options.template_name, tokenizer->vocab()));
    begin.about = TemplateText(begin.config);
  }
  if (!options.config_file.empty()) {
    SKERRY_ASSIGN_OR_RETURN(begin.config, LoadRunConfig(options.config_file));
  }
  SKERRY_RETURN_IF_ERROR(ValidateRunConfig(begin.config));
  return begin;
}

absl::StatusOr<Beginning> BeginOf(const InitOptions& options) {
  if (options.from.empty()) return BeginAfresh(options);
  return IsHuggingFaceDirectory(options.from) ? BeginWithModel(options) : BeginWithRun(options);
}

}  // namespace

absl::Status InitRunDirectory(const InitOptions& options) {
  if (!options.standby_of.empty()) return InitStandby(options);
  const RunDirectory directory{options.directory};
  SKERRY_ASSIGN_OR_RETURN(const JournalStore wished, ParseStore(directory.path, options.store, ""));
  SKERRY_RETURN_IF_ERROR(MustBeFree(directory));
  SKERRY_RETURN_IF_ERROR(CheckTokens(options));
  // Before anything is made, and texts are read for hours.
  if (wished.postgres) {
    SKERRY_RETURN_IF_ERROR(PostgresJournal::MakeTables(wished.postgres->url));
  }
  SKERRY_RETURN_IF_ERROR(PlaceCheckpoints(directory, options.checkpoints));
  SKERRY_ASSIGN_OR_RETURN(const Beginning begin, BeginOf(options));
  const RunConfig& config = begin.config;
  SKERRY_RETURN_IF_ERROR(Identity::LoadOrCreate(directory.File("coordinator.key")).status());
  SKERRY_RETURN_IF_ERROR(WriteFileAtomically(directory.File("run.toml"),
                                             AsComment(begin.about) + FormatRunConfig(config)));
  if (!options.shards.empty()) {
    SKERRY_RETURN_IF_ERROR(LinkShards(options.shards, directory.File("data")));
  }
  if (!options.texts.empty()) {
    SKERRY_ASSIGN_OR_RETURN(const std::string tokenizer, TokenizerForData(options));
    SKERRY_RETURN_IF_ERROR(PrepareData(
        {.texts = options.texts, .out = directory.File("data"), .tokenizer = tokenizer}));
  }
  SKERRY_RETURN_IF_ERROR(CheckDataFits(options, config.model.vocab));
  if (begin.has_data && options.shards.empty() && options.texts.empty()) {
    SKERRY_RETURN_IF_ERROR(LinkShards(options.from + "/data", directory.File("data")));
  }
  // The journal comes last: a directory with a journal is complete.
  const RunId run = MakeRunId(config, RandomNonce());
  SKERRY_ASSIGN_OR_RETURN(const JournalStore store,
                          ParseStore(directory.path, options.store, run.Hex()));
  return BeginJournal(store, config, run, begin.records);
}

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
  if (config_hex != ConfigDigest(config).Hex()) {
    SKERRY_ASSIGN_OR_RETURN(const int64_t records, journal->LastNumber());
    if (records > 0) {
      return FailedPrecondition(
          "%s was changed after the run began: its journal has records of another configuration; "
          "change it back, or make another run with skerry-coordinator init [SK-run-changed]",
          directory.File("run.toml"));
    }
  }
  return OpenedRun{directory, run, std::move(config), std::move(store)};
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

// The file as it was is kept; its write-ahead log too: without it the copy is not what was damaged.
absl::Status KeepDamagedFile(const std::string& file) {
  std::error_code error;
  for (const char* part : {"", "-wal"}) {
    if (!fs::exists(file + part)) continue;
    fs::copy_file(file + part, file + ".damaged" + part, fs::copy_options::overwrite_existing,
                  error);
    if (error) return Unavailable("%s.damaged: %s", file, error.message());
  }
  return absl::OkStatus();
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
  if (!store.postgres) {
    kept = directory.File("journal.sqlite.damaged");
    SKERRY_RETURN_IF_ERROR(KeepDamagedFile(directory.File("journal.sqlite")));
  }
  SKERRY_ASSIGN_OR_RETURN(const auto journal, OpenJournal(store, JournalAccess::kWrite));
  auto* shared = dynamic_cast<PostgresJournal*>(journal.get());
  if (shared != nullptr) SKERRY_RETURN_IF_ERROR(LeadToMend(*shared));
  SKERRY_ASSIGN_OR_RETURN(const int64_t cut, journal->CutDamaged());
  std::error_code ignored;
  fs::remove(directory.File("snapshot"), ignored);  // perhaps of what was cut
  if (shared != nullptr) SKERRY_RETURN_IF_ERROR(shared->ReleaseLease());
  return absl::StrFormat(
      "%s\nthe journal ends with record %d now; %d records were cut, and are still in %s\nnodes "
      "that run know more than it does: end them before you serve again",
      ErrorText(before), whole, cut, kept);
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
  for (const std::string& one : std::vector<std::string>(absl::StrSplit(endpoint, ','))) {
    for (const char* anywhere : {"tcp://0.0.0.0:", "tcp://*:", "tcp://[::]:"}) {
      if (!one.starts_with(anywhere)) continue;
      return FailedPrecondition(
          "%s names no machine that a volunteer could dial; give --advertise tcp://HOST:%s "
          "[SK-ticket-address]",
          one, one.substr(one.rfind(':') + 1));
    }
  }
  return endpoint;
}

absl::Status LockRunDirectory(const RunDirectory& directory) {
  const std::string path = directory.File("lock");
  const int lock = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock < 0) return Unavailable("%s: cannot be written [SK-disk-write]", path);
  if (flock(lock, LOCK_EX | LOCK_NB) != 0) {
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
