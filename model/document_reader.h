// Documents of text files, JSON lines and directories of both, one after the other.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "model/text_source.h"

namespace skerry {

struct DocumentFormat {
  std::string field = "text";  // of a JSON line
  bool is_json_lines = false;  // whatever the names say
};

// `inputs`: files, and directories: all regular files below, in the order of their paths; names
// that begin with a dot are left out.
absl::StatusOr<std::vector<std::string>> FilesOf(const std::vector<std::string>& inputs);

struct DocumentPiece {
  std::string_view text;  // valid until the next call
  bool ends_document = false;
};

// The text of a file (as UnpackedFile::Open), made valid UTF-8: a *.jsonl or *.ndjson has a
// document a line (at most 64 MiB), any other file is one. Documents come in pieces of some 64 KiB,
// cut between lines where no word is. One pass; one thread owns it.
inline constexpr size_t kPieceBytes = 64 << 10;
class DocumentReader {
 public:
  static absl::StatusOr<std::unique_ptr<DocumentReader>> Open(const std::string& path,
                                                              const DocumentFormat& format);

  // Nothing at the end of the file. InvalidArgument names file and line.
  absl::StatusOr<std::optional<DocumentPiece>> Next();
  double progress() const { return source_->progress(); }  // share of the file

 private:
  using Piece = absl::StatusOr<std::optional<DocumentPiece>>;
  DocumentReader(const std::string& path, const DocumentFormat& format);
  Piece NextOfText();
  Piece NextOfLines();
  Piece ReadLine(std::string_view line);
  // Forgets what was given out and appends the next text.
  absl::Status ReadMore();

  std::string name_, field_;
  bool has_lines_ = false;
  std::unique_ptr<TextSource> source_;
  std::string pending_;  // from begin_ on not given out yet
  size_t begin_ = 0, looked_at_ = 0;
  bool is_read_ = false, is_over_ = false;
  int64_t line_ = 0;
  std::string line_text_;
};

// The same, each piece to `take`.
using TakePiece = std::function<absl::Status(std::string_view text, bool ends_document)>;
using FileProgress = std::function<void(double share_of_file)>;
absl::Status ReadDocuments(const std::string& path, const DocumentFormat& format,
                           const FileProgress& progress, const TakePiece& take);

}  // namespace skerry
