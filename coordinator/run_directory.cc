#include "coordinator/run_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include "common/status.h"
#include "coordinator/checkpoint_program.h"
#include "coordinator/journal_sqlite.h"
#include "coordinator/record_json.h"
#include "model/file_io.h"
#include "model/prepare_text.h"
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

absl::Status PrepareData(const std::vector<std::string>& texts, const std::string& out) {
  if (texts.size() != 1) return InvalidArgument("want one text, got %d", texts.size());
  PrepareTextOptions options;
  SKERRY_ASSIGN_OR_RETURN(const PreparedText prepared, PrepareText(texts.front(), out, options));
  std::printf("%s: %lld training and %lld validation tokens\n", out.c_str(),
              static_cast<long long>(prepared.train_tokens),
              static_cast<long long>(prepared.validation_tokens));
  return absl::OkStatus();
}

absl::Status InitRunDirectory(const InitOptions& options) {
  const RunDirectory directory{options.directory};
  if (fs::exists(directory.File("journal.sqlite"))) {
    return AlreadyExists("%s holds a run already; choose another directory", options.directory);
  }
  SKERRY_RETURN_IF_ERROR(MakeDirectory(options.directory));
  RunConfig config;
  config.outer.overlap_steps = -1;  // the planner will have measured the links
  config.checkpoint.every_rounds = 8;
  std::optional<Checkpoint> begins_with;
  if (!options.from.empty()) {
    SKERRY_ASSIGN_OR_RETURN(begins_with, ChooseCheckpoint(options.from, options.generation));
    SKERRY_ASSIGN_OR_RETURN(config, ParseRunConfig(begins_with->config, "the checkpoint"));
  }
  if (!options.config_file.empty()) {
    SKERRY_ASSIGN_OR_RETURN(config, LoadRunConfig(options.config_file));
  }
  SKERRY_RETURN_IF_ERROR(ValidateRunConfig(config));
  std::vector<std::string> records;
  if (begins_with) {
    SKERRY_ASSIGN_OR_RETURN(const CheckpointRecord record, RecordFor(*begins_with, config));
    SKERRY_RETURN_IF_ERROR(CopyCheckpoint(*begins_with, options.from, options.directory));
    records.push_back(ResumedRecord(record, begins_with->run));
  }
  SKERRY_RETURN_IF_ERROR(Identity::LoadOrCreate(directory.File("coordinator.key")).status());
  SKERRY_RETURN_IF_ERROR(WriteFileAtomically(directory.File("run.toml"), FormatRunConfig(config)));
  if (!options.shards.empty()) {
    SKERRY_RETURN_IF_ERROR(LinkShards(options.shards, directory.File("data")));
  }
  if (!options.texts.empty()) {
    SKERRY_RETURN_IF_ERROR(PrepareData(options.texts, directory.File("data")));
  }
  if (begins_with && options.shards.empty() && options.texts.empty()) {
    SKERRY_RETURN_IF_ERROR(LinkShards(options.from + "/data", directory.File("data")));
  }
  // The journal comes last: a directory with a journal is complete.
  SKERRY_ASSIGN_OR_RETURN(auto journal, SqliteJournal::Open(directory.File("journal.sqlite"),
                                                            SqliteJournal::Access::kCreate));
  SKERRY_RETURN_IF_ERROR(journal->SetFact("config", ConfigDigest(config).Hex()));
  if (!records.empty()) SKERRY_RETURN_IF_ERROR(journal->Append(records));
  return journal->SetFact("run", MakeRunId(config, RandomNonce()).Hex());
}

absl::StatusOr<OpenedRun> OpenRunDirectory(const std::string& path) {
  const RunDirectory directory{path};
  if (!fs::exists(directory.File("journal.sqlite"))) {
    return NotFound("%s holds no run; make one: skerry-coordinator init %s", path, path);
  }
  SKERRY_ASSIGN_OR_RETURN(RunConfig config, LoadRunConfig(directory.File("run.toml")));
  SKERRY_ASSIGN_OR_RETURN(auto journal, SqliteJournal::Open(directory.File("journal.sqlite"),
                                                            SqliteJournal::Access::kReadOnly));
  SKERRY_ASSIGN_OR_RETURN(const std::string run_hex, journal->Fact("run"));
  SKERRY_ASSIGN_OR_RETURN(const std::string config_hex, journal->Fact("config"));
  const auto run = ParseId<RunId>(run_hex);
  if (!run) return DataLoss("%s: the run's id is damaged", directory.File("journal.sqlite"));
  if (config_hex != ConfigDigest(config).Hex()) {
    SKERRY_ASSIGN_OR_RETURN(const auto records, journal->Load());
    if (!records.empty()) {
      return FailedPrecondition(
          "%s was changed after nodes joined; a run keeps its configuration: change it back, or "
          "make another run with skerry-coordinator init",
          directory.File("run.toml"));
    }
  }
  return OpenedRun{directory, *run, std::move(config)};
}

absl::StatusOr<RunState> LoadRunState(const RunDirectory& directory) {
  const std::string path = directory.File("journal.sqlite");
  SKERRY_ASSIGN_OR_RETURN(auto journal,
                          SqliteJournal::Open(path, SqliteJournal::Access::kReadOnly));
  SKERRY_ASSIGN_OR_RETURN(const auto records, journal->Load());
  RunState state;
  for (size_t i = 0; i < records.size(); ++i) {
    const absl::Status status = state.Apply(records[i]);
    if (!status.ok()) return Annotate(status, absl::StrFormat("%s: record %d", path, i + 1));
  }
  return state;
}

absl::Status ReadJournal(const RunDirectory& directory,
                         const std::function<void(const std::string&)>& with) {
  SKERRY_ASSIGN_OR_RETURN(auto journal, SqliteJournal::Open(directory.File("journal.sqlite"),
                                                            SqliteJournal::Access::kReadOnly));
  return journal->Read(with);
}

absl::StatusOr<std::string> MendJournal(const std::string& path) {
  const RunDirectory directory{path};
  const std::string file = directory.File("journal.sqlite"), kept = file + ".damaged";
  if (!fs::exists(file)) return NotFound("%s holds no run", path);
  SKERRY_RETURN_IF_ERROR(LockRunDirectory(directory));
  int64_t whole = 0;
  const absl::Status before = ReadJournal(directory, [&](const std::string&) { ++whole; });
  if (before.ok()) return absl::StrFormat("the journal's %d records are whole", whole);
  if (!absl::IsDataLoss(before)) return before;
  std::error_code error;
  // Its write-ahead log too: without it the copy is not what was damaged.
  for (const char* part : {"", "-wal"}) {
    if (!fs::exists(file + part)) continue;
    fs::copy_file(file + part, kept + part, fs::copy_options::overwrite_existing, error);
    if (error) return Unavailable("%s: %s", kept, error.message());
  }
  SKERRY_ASSIGN_OR_RETURN(auto journal, SqliteJournal::Open(file, SqliteJournal::Access::kWrite));
  SKERRY_ASSIGN_OR_RETURN(const int64_t cut, journal->CutDamaged());
  return absl::StrFormat(
      "%s\nthe journal ends with record %d now; %d records were cut, and are still in %s\nnodes "
      "that "
      "run know more than it does: end them before you serve again",
      ErrorText(before), whole, cut, kept);
}

absl::StatusOr<std::string> EndpointForTickets(const RunDirectory& directory,
                                               const std::string& advertised) {
  std::string endpoint = advertised;
  if (endpoint.empty()) {
    std::ifstream in(directory.File("endpoint"));
    std::getline(in, endpoint);
  }
  if (endpoint.empty()) {
    return FailedPrecondition(
        "nobody has served %s yet, so where nodes reach it is not known; give --advertise "
        "tcp://HOST:7700, or start: skerry-coordinator serve %s",
        directory.path, directory.path);
  }
  for (const char* anywhere : {"tcp://0.0.0.0:", "tcp://*:", "tcp://[::]:"}) {
    if (!endpoint.starts_with(anywhere)) continue;
    return FailedPrecondition(
        "%s names no machine that a volunteer could dial; give --advertise tcp://HOST:%s", endpoint,
        endpoint.substr(endpoint.rfind(':') + 1));
  }
  return endpoint;
}

absl::Status LockRunDirectory(const RunDirectory& directory) {
  const std::string path = directory.File("lock");
  const int lock = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock < 0) return Unavailable("%s: cannot be written", path);
  if (flock(lock, LOCK_EX | LOCK_NB) != 0) {
    std::ifstream in(path);
    std::string holder;
    std::getline(in, holder);
    return FailedPrecondition("%s is served already by process %s", directory.path, holder);
  }
  const std::string pid = std::to_string(getpid()) + "\n";
  if (ftruncate(lock, 0) != 0 || write(lock, pid.data(), pid.size()) < 0) {
    return Unavailable("%s: cannot be written (disk full?)", path);
  }
  return absl::OkStatus();  // the descriptor, and so the lock, lives as long as the process
}

}  // namespace skerry
