// Data sets and checkpoints elsewhere: on the web, and in S3-compatible object storage
// (wire/web_client.h).
//
// A data set lies there as in its directory, a file a name, index.json last; checkpoints as in
// DIR/checkpoints: chunks named by their digest, then the manifest, and the number of the newest
// generation in generations/newest, so that no listing is needed to begin with it.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"

namespace CLI {
class App;
}

namespace skerry {

// "data fetch", "data push" and "data address".
void AddStorageCommands(CLI::App& data, int* exit_code);

// Of a run's checkpoints, all that are whole and not there yet. Any other thread may make
// checkpoints meanwhile: what is dropped in the middle is left out.
absl::Status PushCheckpoints(const std::string& run_directory, const std::string& address);
// The newest one, every chunk verified, into a run's directory, for `export` and `init --from`.
absl::Status FetchCheckpoint(const std::string& address, const std::string& run_directory);

// Pushes every checkpoint of a run soon after it was made, on a thread of its own, until it is
// destroyed. What fails is said, and tried again with the next look.
class CheckpointPusher {
 public:
  CheckpointPusher(std::string run_directory, std::string address);
  ~CheckpointPusher();
  CheckpointPusher(const CheckpointPusher&) = delete;
  CheckpointPusher& operator=(const CheckpointPusher&) = delete;

 private:
  struct Work;
  std::unique_ptr<Work> work_;
};

}  // namespace skerry
