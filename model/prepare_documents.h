// From documents to a token data set, with any tokenizer: text files, JSON lines and directories of
// both, packed one behind the other with the tokenizer's end-of-text token in between.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "model/prepare_text.h"
#include "model/text_tokenizer.h"

namespace skerry {

struct PrepareDocumentsOptions {
  double validation_share = 0.01;  // in [0, 0.5]
  int64_t shard_tokens = TokenDatasetWriter::kShardTokensDefault;
  std::string field = "text";                       // of a JSON line
  bool is_json_lines = false;                       // whatever the names say
  std::string tokenizer_digest = {};                // for index.json
  std::function<void(double share)> progress = {};  // as PrepareTextOptions
};

// `inputs`: files, plain or packed (model/unpacked_file.h), "-" for standard input, and directories
// (all regular files below, in the order of their paths; names that begin with a dot are left out).
// A file named *.jsonl or *.ndjson has a document a line; of each the string `field` is its text.
// *.bin holds tokens already (model/token_bin.h), and is for one split whole. Any other file is one
// document.
//
// Documents are read in pieces (model/document_reader.h); pieces and documents go to validation so
// that the share of the bytes does, from the second one on. One pass; memory stays bounded by a
// piece (a JSON line may have 64 MiB) and a shard. The same inputs give the same bytes.
// InvalidArgument names the file and line, or says that there is no text; AlreadyExists if
// `directory` has a data set.
absl::StatusOr<PreparedText> PrepareDocuments(const std::vector<std::string>& inputs,
                                              const std::string& directory,
                                              TextTokenizer& tokenizer,
                                              const PrepareDocumentsOptions& options);

}  // namespace skerry
