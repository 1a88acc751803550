// The operator's directory of one run: what lies where, and how it comes to be.
//
//   run.toml           configuration, for people; its digest is part of the run's id
//   coordinator.key    Ed25519, mode 0600
//   journal.sqlite     everything that happened; facts "run" and "config"
//   snapshot           what a restart begins with; may be deleted (coordinator/snapshot_file.h)
//   store              or: where that is instead, in PostgreSQL (coordinator/journal_store.h)
//   data/              index.json and token shards
//   events.jsonl       one line an event, appended
//   orders.jsonl       what the operator said of admission, appended by commands, obeyed by serve
//   status.json        the present, replaced every second
//   held-out.json      the newest loss on held-out text (coordinator/held_out_program.h)
//   admission.json     who may join, replaced when it changes; for the dashboard
//   dashboard.token    of the dashboard's operator, mode 0600
//   proofs/            what was shown of sums that were false (coordinator/sum_proofs.h)
//   model/             the trained model
//   tokenizer/         files of the model's or the data's tokenizer; none: bytes
//   checkpoints/       or a link to where the operator wants them
//   endpoint           where nodes reach the coordinator, for tickets; noted by serve
//   lock               held by the coordinator that serves
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/ids.h"
#include "common/run_config.h"
#include "coordinator/journal_store.h"
#include "coordinator/run_state.h"

namespace skerry {

struct RunDirectory {
  std::string path;
  std::string File(const std::string& name) const { return path + "/" + name; }
};

struct InitOptions {
  std::string directory;
  std::string config_file;         // copied; "" for the template
  std::string template_name;       // coordinator/run_templates.h; "" for the default
  std::vector<std::string> texts;  // prepared into data/
  std::string shards;              // or: a prepared data directory, linked in
  // Begins with a checkpoint of the run in this directory (0: its newest), by default with its
  // configuration, as the planner settled it, and its data. Or with a model: a Hugging Face
  // directory (coordinator/import_program.h).
  std::string from;
  int64_t generation = 0;
  std::string tokenizer;       // of `texts`; "": that of the model begun with, or bytes
  bool new_tokenizer = false;  // it may be another than the model's
  std::string store;           // of the journal: sqlite: or postgresql://…; "" for sqlite:
  std::string checkpoints;     // where they go; "" for the directory itself
  // Stands by for the run in this directory, whose journal is in PostgreSQL: its key, run.toml,
  // store and data.
  std::string standby_of;
};

// Creates the directory's files, or leaves everything as it was: but for texts that were being
// prepared, which the same call goes on with. AlreadyExists if there is a run in it.
// (run_init_program.cc)
absl::Status InitRunDirectory(const InitOptions& options);
// What there is then, and what comes next; for people.
std::string AfterInit(const std::string& directory);

// DataLoss: what the journal says is no id.
absl::StatusOr<RunId> RunOf(Journal& journal, const JournalStore& store);

struct OpenedRun {
  RunDirectory directory;
  RunId run;
  RunConfig config;
  JournalStore store;
  bool was_changed = false;  // run.toml, since init; soundly: the run has not begun
};
// FailedPrecondition if run.toml was changed after the run began, whose configuration never changes
// then; or so that a checkpoint that it begins with is not what its journal says.
absl::StatusOr<OpenedRun> OpenRunDirectory(const std::string& directory);

// The run's state as its journal tells it; may be called while a coordinator serves. DataLoss names
// a damaged record.
absl::StatusOr<RunState> LoadRunState(const RunDirectory& directory);

// Calls `with` for every whole record, in order; may be called while a coordinator serves. DataLoss
// names the first record that is damaged or missing, after those before it.
absl::Status ReadJournal(const RunDirectory& directory,
                         const std::function<void(const std::string&)>& with);

// Cuts a journal at its first damaged or missing record, and says so; what was cut is kept: the
// file as it was as journal.sqlite.damaged, or the records in the table skerry_damaged.
// FailedPrecondition while a coordinator serves.
absl::StatusOr<std::string> MendJournal(const std::string& directory);

// Writes DIR/endpoint. If nodes that know another from before would not find this one: a line that
// says so.
absl::StatusOr<std::string> NoteEndpoint(const OpenedRun& run, const std::string& endpoint);

// Where nodes reach the coordinator: `advertised`, else what `serve` noted, in DIR/endpoint or, for
// all coordinators of a run in PostgreSQL, there. Several are separated by commas.
// FailedPrecondition if that names no machine ("tcp://0.0.0.0:7700") or was never noted.
absl::StatusOr<std::string> EndpointForTickets(const RunDirectory& directory,
                                               const std::string& advertised);

// Holds DIR/lock for the life of the process. FailedPrecondition names the process that has it.
absl::Status LockRunDirectory(const RunDirectory& directory);

}  // namespace skerry
