// Checkpoints of a run on this machine: the commands of skerry-coordinator that list them, verify
// them, make a model of one, and begin a new run with one.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/checkpoint_archive.h"
#include "coordinator/run_state.h"

namespace CLI {
class App;
}

namespace skerry {

// "checkpoints DIR" and "export DIR"; what they end with goes to `exit_code`.
void AddCheckpointCommands(CLI::App& app, int* exit_code);

// Of a run's directory; made if need be. Changed only while `may_change`
// (coordinator/guarded_files.h).
absl::StatusOr<std::unique_ptr<CheckpointArchive>> OpenArchive(
    const std::string& run_directory, std::function<bool()> may_change = nullptr);

// Where the run keeps the files of its tokenizer; "": it has the byte tokenizer.
std::string TokenizerOf(const std::string& run_directory);

// The checkpoint to begin a run with: `generation` of the run in `from`, 0: its newest. Every byte
// is verified. DataLoss names the chunk that is missing or damaged.
absl::StatusOr<Checkpoint> ChooseCheckpoint(const std::string& from, int64_t generation);

// What the new run's journal says of it. InvalidArgument: it is of another model, its step is no
// boundary of the new configuration's rounds, or at the end of it.
absl::StatusOr<CheckpointRecord> RecordFor(const Checkpoint& checkpoint, const RunConfig& config);

// Its files, linked or copied from one run's directory to another's.
absl::Status CopyCheckpoint(const Checkpoint& checkpoint, const std::string& from,
                            const std::string& to);

}  // namespace skerry
