// `init`: makes the directory of a run, or nothing.

#include <filesystem>

#include "absl/strings/str_split.h"
#include "common/status.h"
#include "coordinator/checkpoint_program.h"
#include "coordinator/data_program.h"
#include "coordinator/directory_before_program.h"
#include "coordinator/import_program.h"
#include "coordinator/journal_store.h"
#include "coordinator/run_directory.h"
#include "coordinator/run_templates.h"
#include "model/file_io.h"
#include "model/text_tokenizer.h"
#include "model/token_dataset.h"
#include "wire/config.h"
#include "wire/identity.h"

namespace skerry {
namespace {

namespace fs = std::filesystem;

absl::Status LinkShards(const std::string& from, const std::string& to) {
  std::error_code error;
  if (!fs::is_directory(from, error)) return NotFound("%s: no such directory", from);
  error.clear();
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

absl::Status InitRun(const InitOptions& options) {
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
    if (!fs::exists(options.shards + "/" + kDatasetIndexFile)) {
      return NotFound(
          "--shards %s: no %s is there; want a directory that 'data prepare' made [SK-config-file]",
          options.shards, kDatasetIndexFile);
    }
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

}  // namespace

absl::Status InitRunDirectory(const InitOptions& options) {
  const DirectoryBefore before(options.directory);
  const std::string place = options.checkpoints.empty() ? options.directory : options.checkpoints;
  const DirectoryBefore elsewhere(place);
  const bool stands_by = !options.standby_of.empty();
  const absl::Status made = stands_by ? InitStandby(options) : InitRun(options);
  if (made.ok()) return made;
  // Texts that were read for hours are gone on with by the same command.
  const RunDirectory directory{options.directory};
  if (fs::exists(directory.File("data/prepare.state"))) return made;
  before.Restore();
  // A standby's checkpoints are its leader's, who may be at work there.
  if (!stands_by || !elsewhere.WasThere()) elsewhere.Restore();
  return made;
}

std::string AfterInit(const std::string& directory) {
  const RunDirectory run{directory};
  const std::string said = run.File("run.toml") + " says what is trained, and how; next: ";
  if (fs::exists(run.File("data"))) return said + "skerry-coordinator serve " + directory;
  return said + "skerry-coordinator data prepare TEXT --out " + run.File("data");
}

}  // namespace skerry
