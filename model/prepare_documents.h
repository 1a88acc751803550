// From documents to a token data set, with any tokenizer: text files, JSON lines and directories of
// both, packed one behind the other with the tokenizer's end-of-text token in between; as they
// come, or mixed by weights, or in an order by chance.
#pragma once

#include <cstdint>
#include <optional>
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
  std::string field = "text";            // of a JSON line
  bool is_json_lines = false;            // whatever the names say
  std::string tokenizer_digest = {};     // for index.json
  std::vector<double> weights = {};      // of the inputs (model/source_mix.h); empty: as they come
  int passes_max = 4;                    // over an input with a weight
  std::optional<uint64_t> shuffle = {};  // seed of the order (model/token_shuffle.h)
  int64_t shuffle_bytes_max = 256 << 20;
  int64_t save_every = kSaveEveryDefault;
  ShowProgress progress = {};  // as PrepareTextOptions
};

// What became of an input with a weight.
struct PreparedSource {
  std::string input;
  double passes = 0;
  int64_t tokens = 0;
};

struct PreparedDocuments : PreparedText {
  std::vector<PreparedSource> sources;  // empty without weights
};

// `inputs`: files, plain or packed (model/unpacked_file.h), "-" for standard input, and directories
// (all regular files below, in the order of their paths; names that begin with a dot are left out).
// A file named *.jsonl or *.ndjson has a document a line; of each the string `field` is its text.
// *.bin holds tokens already (model/token_bin.h), and is for one split whole. Any other file is one
// document.
//
// Documents are read in pieces (model/document_reader.h); pieces and documents go to validation so
// that the share of the bytes does, from the second one on. Without a shuffle one pass, with one a
// second over the tokens, which lie in `directory` meanwhile; pieces of a long document are
// documents then. Memory stays bounded by a piece (a JSON line may have 64 MiB), a shard and a part
// of the shuffle. The same inputs give the same bytes, also if a process was killed and another
// goes on (not from standard input).
// InvalidArgument names the file and line, or says that there is no text, or what of the weights is
// wrong; AlreadyExists if `directory` has a data set; FailedPrecondition if it has half of another.
absl::StatusOr<PreparedDocuments> PrepareDocuments(const std::vector<std::string>& inputs,
                                                   const std::string& directory,
                                                   TextTokenizer& tokenizer,
                                                   const PrepareDocumentsOptions& options);

}  // namespace skerry
