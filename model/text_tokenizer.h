// From text to tokens and back, whatever the kind: bytes (model/tokenizer.h), Hugging Face's
// tokenizer.json (model/json_tokenizer.h), SentencePiece (model/sentence_piece.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace skerry {

// Not thread-safe: encoders remember words.
class TextTokenizer {
 public:
  virtual ~TextTokenizer() = default;
  virtual int32_t vocab() const = 0;  // every token is less
  // Nothing is put around the text: no begin, no end.
  virtual std::vector<int32_t> Encode(std::string_view text) = 0;
  // Special tokens are left out. The text may end inside a UTF-8 character.
  virtual std::string Decode(std::span<const int32_t> tokens) const = 0;
  virtual int32_t IdOf(const std::string& token) const = 0;  // −1: there is none
  // What stands between two documents: the end-of-text token of the file, −1: it has none.
  virtual int32_t separator() const = 0;
};

// `path`: "" or "byte", a tokenizer.json, a SentencePiece .model, or a directory with one of them
// (the former first). NotFound or InvalidArgument names the file and what of it is not known here.
absl::StatusOr<std::unique_ptr<TextTokenizer>> OpenTokenizer(const std::string& path);

}  // namespace skerry
