// The one place that includes SentencePiece: its header defines absl::string_view, which Debian's
// Abseil defines otherwise, so that no file can include both.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace skerry {

class SentencePieceLibrary {
 public:
  // nullptr: the bytes are no model.
  static std::unique_ptr<SentencePieceLibrary> Load(const std::string& model);
  virtual ~SentencePieceLibrary() = default;
  virtual int Size() const = 0;
  virtual std::vector<int> Encode(std::string_view text) const = 0;
  virtual std::string Decode(const std::vector<int>& tokens) const = 0;
  virtual int IdOf(const std::string& piece) const = 0;  // −1: there is none
  virtual int EndOfText() const = 0;                     // −1: there is none
};

}  // namespace skerry
