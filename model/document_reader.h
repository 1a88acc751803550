// Documents of text files, JSON lines and directories of both, one after the other.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace skerry {

struct DocumentFormat {
  std::string field = "text";  // of a JSON line
  bool is_json_lines = false;  // whatever the names say
};

// `inputs`: files, and directories: all regular files below, in the order of their paths; names
// that begin with a dot are left out.
absl::StatusOr<std::vector<std::string>> FilesOf(const std::vector<std::string>& inputs);

// A piece of a document, and whether it is the last one.
using TakePiece = std::function<absl::Status(std::string_view text, bool ends_document)>;
using FileProgress = std::function<void(double share_of_file)>;

// The text of `path` (as UnpackedFile::Open), made valid UTF-8: a *.jsonl or *.ndjson has a
// document a line (at most 64 MiB), any other file is one. Documents come in pieces of some 64 KiB,
// cut between lines where no word is. InvalidArgument names file and line.
inline constexpr size_t kPieceBytes = 64 << 10;
absl::Status ReadDocuments(const std::string& path, const DocumentFormat& format,
                           const FileProgress& progress, const TakePiece& take);

}  // namespace skerry
