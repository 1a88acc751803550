#include "model/document_reader.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/status.h"

namespace skerry {
namespace {

namespace fs = std::filesystem;

constexpr size_t kUncutBytesMax = 4 << 20;  // waited for a line's end
constexpr size_t kLineBytesMax = 64 << 20;

bool IsSpaceByte(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

// Where a text can be cut so that no pattern of words sees it: behind the end of a line that is not
// empty, before one that begins with no space. 0: nowhere.
size_t LastCut(std::string_view text) {
  for (size_t at = text.size(); at-- > 2;) {
    if (text[at - 1] == '\n' && !IsSpaceByte(text[at]) && !IsSpaceByte(text[at - 2])) return at;
  }
  return 0;
}

bool HasJsonLines(std::string path) {
  for (const std::string packed : {".gz", ".dz", ".zst"}) {
    if (path.ends_with(packed)) path.resize(path.size() - packed.size());
  }
  return path.ends_with(".jsonl") || path.ends_with(".ndjson");
}

}  // namespace

absl::StatusOr<std::vector<std::string>> FilesOf(const std::vector<std::string>& inputs) {
  std::vector<std::string> files;
  for (const std::string& input : inputs) {
    std::error_code error;
    if (input == kStandardInput || !fs::is_directory(input, error)) {
      files.push_back(input);
      continue;
    }
    std::vector<std::string> found;
    for (auto at = fs::recursive_directory_iterator(input, error);
         at != fs::recursive_directory_iterator(); at.increment(error)) {
      const bool hidden = at->path().filename().string().starts_with(".");
      if (hidden && at->is_directory()) at.disable_recursion_pending();
      if (!hidden && at->is_regular_file()) found.push_back(at->path().string());
    }
    if (error) return Unavailable("%s: %s", input, error.message());
    if (found.empty()) {
      return InvalidArgument("%s: no file is in it but hidden ones; want texts [SK-data-text]",
                             input);
    }
    std::sort(found.begin(), found.end());
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

DocumentReader::DocumentReader(const std::string& path, const DocumentFormat& format)
    : name_(path == kStandardInput ? "standard input" : path),
      field_(format.field),
      has_lines_(format.is_json_lines || HasJsonLines(path)) {}

absl::StatusOr<std::unique_ptr<DocumentReader>> DocumentReader::Open(const std::string& path,
                                                                     const DocumentFormat& format) {
  std::unique_ptr<DocumentReader> reader(new DocumentReader(path, format));
  SKERRY_ASSIGN_OR_RETURN(reader->source_, TextSource::Open(path));
  return reader;
}

absl::StatusOr<std::optional<DocumentPiece>> DocumentReader::Next() {
  return has_lines_ ? NextOfLines() : NextOfText();
}

absl::Status DocumentReader::ReadMore() {
  pending_.erase(0, begin_);
  begin_ = 0;
  looked_at_ = pending_.size();
  SKERRY_ASSIGN_OR_RETURN(const std::string piece, source_->Next());
  is_read_ = piece.empty();
  pending_ += piece;
  return absl::OkStatus();
}

DocumentReader::Piece DocumentReader::NextOfText() {
  while (true) {
    const std::string_view rest = std::string_view(pending_).substr(begin_);
    if (rest.size() >= kPieceBytes) {
      size_t cut = LastCut(rest.substr(0, kPieceBytes));
      if (cut == 0) cut = LastCut(rest);
      // A text without such lines is cut where it is; a character never is.
      if (cut == 0 && rest.size() >= kUncutBytesMax) cut = rest.size();
      if (cut > 0) {
        begin_ += cut;
        return DocumentPiece{rest.substr(0, cut), false};
      }
    }
    if (is_read_) {
      if (std::exchange(is_over_, true)) return std::nullopt;
      begin_ = pending_.size();
      return DocumentPiece{rest, true};
    }
    SKERRY_RETURN_IF_ERROR(ReadMore());
  }
}

DocumentReader::Piece DocumentReader::NextOfLines() {
  while (true) {
    const size_t end = pending_.find('\n', looked_at_);
    if (end == std::string::npos && !is_read_) {
      SKERRY_RETURN_IF_ERROR(ReadMore());
      if (pending_.size() <= kLineBytesMax || pending_.find('\n') != std::string::npos) continue;
      return InvalidArgument("%s:%d: a line of more than %d bytes", name_, line_ + 1,
                             kLineBytesMax);
    }
    if (end == std::string::npos && std::exchange(is_over_, true)) return std::nullopt;
    const size_t line_end = std::min(end, pending_.size());
    const std::string_view line = std::string_view(pending_).substr(begin_, line_end - begin_);
    begin_ = looked_at_ = std::min(line_end + 1, pending_.size());
    ++line_;
    if (std::all_of(line.begin(), line.end(), IsSpaceByte)) continue;
    Piece piece = ReadLine(line);
    if (piece.ok()) return piece;
    return Annotate(piece.status(), absl::StrFormat("%s:%d", name_, line_));
  }
}

DocumentReader::Piece DocumentReader::ReadLine(std::string_view line) {
  auto json = nlohmann::json::parse(line, nullptr, false);
  if (!json.is_object()) return InvalidArgument("no JSON object");
  const auto text = json.find(field_);
  if (text == json.end() || !text->is_string()) {
    return InvalidArgument("has no text '%s'; --field names another", field_);
  }
  line_text_ = std::move(text->get_ref<std::string&>());
  return DocumentPiece{line_text_, true};
}

absl::Status ReadDocuments(const std::string& path, const DocumentFormat& format,
                           const FileProgress& progress, const TakePiece& take) {
  SKERRY_ASSIGN_OR_RETURN(const auto reader, DocumentReader::Open(path, format));
  while (true) {
    SKERRY_ASSIGN_OR_RETURN(const auto piece, reader->Next());
    if (!piece.has_value()) return absl::OkStatus();
    SKERRY_RETURN_IF_ERROR(take(piece->text, piece->ends_document));
    progress(reader->progress());
  }
}

}  // namespace skerry
