// Training data of a run: made of texts by a tokenizer that is the model's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/run_directory.h"

namespace skerry {

// Tokenizes texts into `out` with a line of progress: one file of text into bytes
// (model/prepare_text.h), or whatever else model/prepare_documents.h takes. `tokenizer`: as
// OpenTokenizer; the digest of its file goes into index.json. Goes on where a process was killed.
struct PrepareRequest {
  std::vector<std::string> texts;
  std::string out, tokenizer;
  std::string field = "text";  // of a JSON line
  bool is_json_lines = false;
  double validation_share = 0.01;
  std::vector<double> weights = {};  // of the texts; empty: as they come
  int passes_max = 4;                // over a text with a weight
  std::optional<uint64_t> shuffle = {};
};
absl::Status PrepareData(const PrepareRequest& request);

// Learns a vocabulary of `tokens` from texts and writes it as tokenizer.json to `out`, a file.
// AlreadyExists if there is one.
struct TokenizerRequest {
  std::vector<std::string> texts;
  std::string out = "tokenizer.json";
  std::string field = "text";
  bool is_json_lines = false;
  int32_t tokens = 32'000;
};
absl::Status MakeTokenizer(const TokenizerRequest& request);

// Before anything is written. InvalidArgument: the operator's tokenizer, or that of the shards, is
// another than that of the model which the run begins with, and that was not asked for.
absl::Status CheckTokens(const InitOptions& options);

// After CheckTokens, that of the texts of a new run: the operator's, else that of the model it
// begins with. The model's files are in the run's directory by then; the operator's are put there
// where there are none.
absl::StatusOr<std::string> TokenizerForData(const InitOptions& options);

// InvalidArgument: the run's data has tokens that the model does not.
absl::Status CheckDataFits(const InitOptions& options, int32_t vocab);

}  // namespace skerry
