// One source of training data as a sequence of units of tokens: a document, or a piece of a long
// one, with the end-of-text token behind it; and whether it is for training or held out.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "model/document_reader.h"
#include "model/file_shares.h"
#include "model/text_tokenizer.h"
#include "model/token_bin.h"
#include "model/token_shard.h"

namespace skerry {

struct TokenUnit {
  std::vector<int32_t> tokens;
  Split split = Split::kTrain;
};

struct UnitOptions {
  DocumentFormat format;
  double validation_share = 0.01;
  // A piece that ends no document has the end-of-text token, too: what follows is another text.
  bool separates_pieces = false;
};

// Reads its files in order, one pass after the other. What is held out is so in every pass, and
// given out in the first only. One thread owns it.
class UnitSource {
 public:
  // Of a *.bin a unit has some 64 Ki tokens and ends behind an end-of-text token if there is one.
  static constexpr int64_t kBinTokens = 64 << 10;

  // All that it takes to go on in another process.
  struct Position {
    int64_t pass = 0, file = 0;
    int64_t unit = 0;                // next of the file; of a *.bin: the next token
    int64_t seen = 0, held_out = 0;  // bytes of text, in this pass
    int64_t tokens = 0, text = 0;    // given out, and bytes they were made of
    bool operator==(const Position&) const = default;
  };

  // `tokenizer` outlives the source.
  UnitSource(std::vector<std::string> files, TextTokenizer* tokenizer, UnitOptions options);

  // Nothing at the end of a pass; the next call begins another.
  absl::StatusOr<std::optional<TokenUnit>> Next();
  // Goes to a position of the same files. Text before it is read again, at the next call of Next,
  // and not cut into tokens again.
  absl::Status GoTo(const Position& position);
  const Position& position() const { return at_; }
  double progress() const;  // share of the pass (model/file_shares.h)
  const std::vector<std::string>& files() const { return files_; }

 private:
  using Unit = absl::StatusOr<std::optional<TokenUnit>>;
  absl::Status OpenFile();
  Unit NextOfText();
  Unit NextOfBin();
  Split SplitOf(int64_t bytes);

  std::vector<std::string> files_;
  FileShares shares_;
  TextTokenizer* tokenizer_;
  UnitOptions options_;
  Position at_;
  std::unique_ptr<DocumentReader> reader_;  // of the file, unless it has tokens
  std::optional<TokenBin> bin_;
};

}  // namespace skerry
