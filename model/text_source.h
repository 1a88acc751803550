// Text from a file, plain or gzip (.gz, dictzip's .dz), as valid UTF-8.
//
// Nothing is stripped: bytes that are no valid UTF-8 are read as Latin-1 and coded as such, so no
// character of an old text file is lost.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

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
  ~TextSource();
  TextSource(const TextSource&) = delete;
  TextSource& operator=(const TextSource&) = delete;

  // The next piece of normalised text; empty at the end. DataLoss if the compressed file is damaged
  // or ends too early.
  absl::StatusOr<std::string> Next();
  double progress() const;  // share of the file read, in [0, 1]

 private:
  TextSource(std::string path, void* file, int64_t file_bytes);
  absl::Status Failure() const;

  std::string path_;
  void* file_;  // gzFile
  int64_t file_bytes_;
  Utf8Normalizer normalizer_;
  std::string buffer_;
  bool finished_ = false;
};

}  // namespace skerry
