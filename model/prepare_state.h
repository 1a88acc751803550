// How far the making of a data set has come, in its directory, so that a process that was killed is
// gone on with by the next one, to the same bytes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "model/token_dataset_writer.h"

namespace skerry {

struct PrepareState {
  std::string request;  // digest of all that decides the bytes: inputs, tokenizer, options
  std::map<std::string, std::vector<int64_t>> numbers;  // the preparation's own
  TokenDatasetWriter::Standing written;
};

// Replaces what was saved; durable when it returns.
absl::Status SavePrepareState(const std::string& directory, const PrepareState& state);

// Nothing if there is none. FailedPrecondition: it is of another request; DataLoss: damaged. Both
// say what to remove.
absl::StatusOr<std::optional<PrepareState>> LoadPrepareState(const std::string& directory,
                                                             const std::string& request);

// The data set is whole.
void RemovePrepareState(const std::string& directory);

// A digest of `words` and of names, sizes and times of change of `files`.
std::string RequestDigest(const std::vector<std::string>& words,
                          const std::vector<std::string>& files);

}  // namespace skerry
