// Text from a file or standard input, plain or packed (model/unpacked_file.h), as valid UTF-8.
//
// Nothing is stripped: bytes that are no valid UTF-8 are read as Latin-1 and coded as such, so no
// character of an old text file is lost.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "model/unpacked_file.h"

namespace skerry {

// Turns any bytes into valid UTF-8, piece by piece. A value type.
class Utf8Normalizer {
 public:
  // Appends what is certain of `bytes` to `out`; an unfinished character at the end waits.
  void Feed(std::string_view bytes, std::string& out);
  // The input is over: the rest is what it is.
  void Finish(std::string& out);

 private:
  void Drain(bool is_end, std::string& out);
  std::string pending_;
};

// One pass over one file. One thread owns it.
class TextSource {
 public:
  static absl::StatusOr<std::unique_ptr<TextSource>> Open(const std::string& path);

  // The next piece of normalised text; empty at the end. DataLoss if the compressed file is damaged
  // or ends too early.
  absl::StatusOr<std::string> Next();
  double progress() const { return file_.progress(); }

 private:
  explicit TextSource(UnpackedFile file) : file_(std::move(file)) {}

  UnpackedFile file_;
  Utf8Normalizer normalizer_;
  bool finished_ = false;
};

}  // namespace skerry
